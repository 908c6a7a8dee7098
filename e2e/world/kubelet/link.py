"""The way from a node to the API server, which a fault may cut."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from world.api import JSON

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from world.api import Api, Json


class Link:
    """Requests that wait while the node is cut off from the control plane."""

    def __init__(self, api: Api) -> None:
        """Start connected."""
        self._api = api
        self.online = asyncio.Event()
        self.online.set()

    @property
    def server(self) -> tuple[str, str]:
        """Host and port of the API server."""
        parts = urlsplit(self._api.url)
        return parts.hostname or "", str(parts.port or 443)

    async def request(
        self, method: str, path: str, body: Json | None = None, *, content_type: str = JSON
    ) -> Json:
        """Send a request as soon as the node is online."""
        await self.online.wait()
        return await self._api.request(method, path, body, content_type=content_type)

    def watch(self, path: str, **params: str) -> AsyncGenerator[tuple[str, Any], None]:
        """Watch; whoever cuts the link has to cancel the reader as well."""
        return self._api.watch(path, **params)
