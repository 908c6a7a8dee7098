"""
A proxy before the API server for one client: counts its writes, and can hold back what it watches.

The operator is given a kubeconfig that leads here; what it does is then told apart from what all
others do.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import aiohttp
from aiohttp import web
from yarl import URL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path
    from types import TracebackType

    from world.world import World

HOST: Final = "127.0.0.1"
WRITES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
PASSED_ON: Final = ("Content-Type", "Accept")
PASSED_BACK: Final = ("Content-Type", "Retry-After")
LARGEST_BODY: Final = 2**24
SILENCE_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class Write:
    """One request that changes something."""

    method: str
    path: str
    status: int


class Proxy:
    """Passes everything on; an asynchronous context manager."""

    def __init__(self, world: World) -> None:
        """Listen to nobody yet."""
        self.writes: list[Write] = []
        self.pod_delay = 0.0
        """Seconds by which every event of a pod watch comes late."""
        self._world = world
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        """Listen on a free port of the world's loopback."""
        plane = self._world.session.control_plane
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*plane.write_serving_pair("proxy", [HOST, "localhost"]))
        app = web.Application(client_max_size=LARGEST_BODY)
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, 0, ssl_context=context).start()
        self._port = int(self._runner.addresses[0][1])
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Hang up."""
        if self._runner is not None:
            await self._runner.cleanup()

    def write_kubeconfig(self) -> Path:
        """Return a kubeconfig whose server is this proxy."""
        plane = self._world.session.control_plane
        url = f"https://{HOST}:{self._port}"
        return plane.write_kubeconfig("proxied", "admin", ["system:masters"], server=url)

    def count(self, method: str, ending: str = "") -> int:
        """Return how many writes of one kind succeeded so far."""
        return sum(w.method == method and w.path.endswith(ending) for w in self.done())

    def done(self) -> list[Write]:
        """Return the writes that the server took."""
        return [write for write in self.writes if write.status < web.HTTPBadRequest.status_code]

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        patience = aiohttp.ClientTimeout(total=None, sock_read=SILENCE_SECONDS)
        async with self._world.api.session.request(
            request.method,
            URL(request.raw_path, encoded=True),
            data=await request.read() or None,
            headers=headers,
            timeout=patience,
        ) as answer:
            if request.method in WRITES:
                self.writes.append(Write(request.method, request.path, answer.status))
            back = {name: answer.headers[name] for name in PASSED_BACK if name in answer.headers}
            response = web.StreamResponse(status=answer.status, headers=back)
            await response.prepare(request)
            watched = "watch" in request.query and request.path.endswith("/pods")
            with contextlib.suppress(ConnectionResetError):  # the client has hung up
                async for piece in self._late(answer.content, pods=watched):
                    await response.write(piece)
                await response.write_eof()
            return response

    async def _late(self, content: aiohttp.StreamReader, *, pods: bool) -> AsyncIterator[bytes]:
        """Give pieces as they come, or lines of a pod watch each after the delay."""
        if not pods:
            async for piece in content.iter_any():
                yield piece
            return
        loop = asyncio.get_running_loop()
        lines: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def read() -> None:
            async for line in content:
                lines.put_nowait((loop.time() + self.pod_delay, line))
            lines.put_nowait((loop.time(), b""))

        reading = asyncio.create_task(read())
        try:
            while True:
                due, line = await lines.get()
                await asyncio.sleep(due - loop.time())
                if not line:
                    return
                yield line
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
