"""HTTP for those who watch us: /healthz, /readyz, /metrics."""

from collections.abc import Callable
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

Probe = Callable[[], str]
_SHUTDOWN_SECONDS: Final = 0.5


class Server:
    """Serves on one port; 0 takes a free one."""

    def __init__(self, *, host: str, port: int) -> None:
        self._host = host
        self._wanted = port
        self._app = web.Application()
        self._runner = web.AppRunner(
            self._app, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS, handle_signals=False
        )
        self.port = 0

    def probe(self, path: str, check: Probe) -> None:
        """Answer 200, or 503 with the text that `check` gives."""

        async def answer(_: web.Request) -> web.Response:
            trouble = check()
            return web.Response(status=503 if trouble else 200, text=trouble or "ok")

        self._app.router.add_get(path, answer)

    def metrics(self, registry: CollectorRegistry, refresh: Callable[[], None]) -> None:
        """Serve a registry; `refresh` runs before each answer."""

        async def answer(_: web.Request) -> web.Response:
            refresh()
            body = generate_latest(registry)
            return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

        self._app.router.add_get("/metrics", answer)

    async def start(self) -> None:
        """Listen."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._wanted)
        await site.start()
        self.port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Close every connection."""
        await self._runner.cleanup()
