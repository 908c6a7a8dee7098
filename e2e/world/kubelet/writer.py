"""Writes a pod's status: the newest one, as soon as the API server can be reached."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import aiohttp

from world.api import ApiError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

GONE: Final = (404, 409)
RETRY_SECONDS: Final = 0.5


class Writer:
    """Calls `write` after every `mark`; several marks at once are one write, as in a kubelet."""

    def __init__(
        self, write: Callable[[], Awaitable[None]], fault: Callable[[BaseException], None]
    ) -> None:
        """Take what to write with, and whom to tell that the API refused a status."""
        self._write = write
        self._fault = fault
        self._marked = asyncio.Event()
        self._lock = asyncio.Lock()
        self._closed = False

    def mark(self) -> None:
        """Say that there is something new to write."""
        self._marked.set()

    def close(self) -> None:
        """Write no more: the pod object is gone."""
        self._closed = True

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._marked.wait()
            await self.flush()

    async def flush(self) -> None:
        """Return when the newest status is written, or can never be."""
        async with self._lock:
            while self._marked.is_set() and not self._closed:
                self._marked.clear()
                if not await self._try():
                    self._marked.set()
                    await asyncio.sleep(RETRY_SECONDS)
            self._marked.clear()

    async def _try(self) -> bool:
        try:
            await self._write()
        except ApiError as error:
            if error.status in GONE:
                return True
            if error.is_passing:
                return False
            self._fault(error)
            return True
        except (aiohttp.ClientError, TimeoutError):
            return False
        return True
