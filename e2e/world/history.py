"""What one object looked like from a moment on: for statuses that are passed through quickly."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from world.api import Api, Json


class History:
    """Collects every version of an object that the API server tells; a context manager."""

    def __init__(self, api: Api, path: str) -> None:
        """Follow the object at a path; nothing is collected yet."""
        self.versions: list[Json] = []
        self._api = api
        self._collection, _, self._name = path.rpartition("/")
        self._started = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Begin; the first version is there when this returns."""
        self._task = asyncio.create_task(self._follow())
        await self._started.wait()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End; what was collected stays."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _follow(self) -> None:
        events = self._api.watch(self._collection, fieldSelector=f"metadata.name={self._name}")
        async with contextlib.aclosing(events):
            async for kind, found in events:
                self.versions += found if kind == "SYNC" else [found]
                self._started.set()

    def first(self, predicate: Callable[[Json], object]) -> Json | None:
        """Return the first version that satisfies the predicate."""
        return next((version for version in self.versions if predicate(version)), None)
