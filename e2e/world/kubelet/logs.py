"""The HTTPS server of a node, which the API server asks for the logs of containers."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Final, Protocol

from aiohttp import web

if TYPE_CHECKING:
    from pathlib import Path

CHUNK: Final = 65536
FOLLOW_SECONDS: Final = 0.25
"""Between two looks at a log that somebody follows."""
UNSUPPORTED: Final = ("timestamps", "sinceSeconds", "sinceTime")
"""The lines of our logs carry no time, so these would give a wrong answer."""


class LogSource(Protocol):
    """A container, as far as its log is concerned."""

    def path(self, *, previous: bool) -> Path | None:
        """Return the log of the last run or of the one before; None when there is none."""

    def ended(self) -> bool:
        """Tell whether the last run is over."""


class Finder(Protocol):
    """Whoever knows the containers of a node."""

    def find(self, namespace: str, pod: str, container: str) -> LogSource | None:
        """Return a container, if it is here."""


class LogServer:
    """Serves /containerLogs as a kubelet does."""

    def __init__(self, finder: Finder, *, serving: tuple[str, str]) -> None:
        """Take certificate and key files."""
        self._finder = finder
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._tls.load_cert_chain(*serving)
        self._runner: web.AppRunner | None = None

    async def start(self, ip: str) -> int:
        """Listen on an address and return the port."""
        app = web.Application()
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.5)
        await self._runner.setup()
        await web.TCPSite(self._runner, ip, 0, ssl_context=self._tls).start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Close the port, and cut what is connected to it: a farewell in TLS takes its time."""
        if self._runner is None or self._runner.server is None:
            return
        for connection in self._runner.server.connections:
            if connection.transport is not None:
                connection.transport.abort()
        await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        match, query = request.match_info, request.query
        source = self._finder.find(match["namespace"], match["pod"], match["container"])
        path = source.path(previous=query.get("previous") == "true") if source else None
        if source is None:
            raise web.HTTPNotFound(text=f"container {match['container']} is not on this node")
        if path is None:
            raise web.HTTPBadRequest(text=f"container {match['container']} has no such log yet")
        for name in UNSUPPORTED:
            if query.get(name) not in (None, "", "false"):
                raise web.HTTPBadRequest(text=f"this node does not support {name}")
        limit = int(query["limitBytes"]) if "limitBytes" in query else None
        start = tail_offset(path, int(query["tailLines"])) if "tailLines" in query else 0
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        with path.open("rb") as log:
            log.seek(start)
            while True:
                over = query.get("follow") != "true" or source.ended()
                while chunk := log.read(CHUNK if limit is None else min(CHUNK, limit)):
                    await response.write(chunk)
                    limit = None if limit is None else limit - len(chunk)
                if over or limit == 0:
                    return response
                await asyncio.sleep(FOLLOW_SECONDS)


def tail_offset(path: Path, lines: int) -> int:
    """Return where the last lines of a file start; an unfinished line counts as one."""
    if lines <= 0:
        return path.stat().st_size
    with path.open("rb") as file:
        end = file.seek(0, 2)
        position, missing = end, lines
        while position > 0:
            size = min(CHUNK, position)
            position -= size
            file.seek(position)
            block = file.read(size)
            stop = size - 1 if position + size == end else size  # a final newline ends a line
            while (found := block.rfind(b"\n", 0, stop)) >= 0:
                missing -= 1
                if missing == 0:
                    return position + found + 1
                stop = found
    return 0
