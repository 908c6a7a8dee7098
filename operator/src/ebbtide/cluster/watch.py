"""
List, then watch, for as long as the process lives.

Bookmarks keep a quiet watch alive and its version young. A watch that says nothing for
`silent_seconds` is dead whatever its connection claims: we list again. So we do when the history
that we ask for is gone (410), and after any answer that we do not understand.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

import msgspec

from ebbtide.cluster.errors import (
    ClusterError,
    ForbiddenError,
    GoneError,
    NotFoundError,
    UnavailableError,
)
from ebbtide.cluster.port import Api
from ebbtide.cluster.shapes import AnyShape, ErrorShape, Page, WatchLine, parse_version

PAGE: Final = 500
SERVER_SECONDS: Final = 240  # how long the server keeps one watch open, at least
_FIRST_DELAY: Final = 0.5
_LONGEST_DELAY: Final = 15.0
_REFUSED_DELAY: Final = 60.0
_GONE: Final = 410
_UNREADABLE: Final = (msgspec.MsgspecError, ArithmeticError, RecursionError, ValueError)

logger = logging.getLogger(__name__)


class Sink(Protocol):
    """Where a watch puts what it finds."""

    def read(self, item: msgspec.Raw) -> Any:
        """Turn one object into what `listed` takes."""

    def listed(self, items: list[Any], version: int) -> None:
        """Take everything that there is."""

    def seen(self, kind: str, found: msgspec.Raw) -> str:
        """Take one object, ADDED, MODIFIED or DELETED; return its resourceVersion."""

    def refused(self) -> bool:
        """Tell whether we can do without, where this is not there or not ours to watch."""


class Watch:
    """One endless watch of one address."""

    def __init__(
        self,
        api: Api,
        path: str,
        sink: Sink,
        *,
        params: Mapping[str, str] | None = None,
        time: Callable[[], float] | None = None,
    ) -> None:
        self.path = path
        self.synced = asyncio.Event()
        self._api = api
        self._sink = sink
        self._params = dict(params or {})
        self._time = time or asyncio.get_running_loop().time
        self._heard = self._time()
        self._delay = _FIRST_DELAY
        self._refused = False
        self._lines: msgspec.json.Decoder[WatchLine] = msgspec.json.Decoder(WatchLine)
        self._pages: msgspec.json.Decoder[Page] = msgspec.json.Decoder(Page)
        self._metas: msgspec.json.Decoder[AnyShape] = msgspec.json.Decoder(AnyShape)

    @property
    def age(self) -> float:
        """Seconds since the server last said anything."""
        return self._time() - self._heard

    async def run(self) -> None:
        """Go on until cancelled."""
        version = ""
        while True:
            try:
                if not version:
                    version = await self._list()
                version = await self._follow(version)
                self._delay = _FIRST_DELAY
            except GoneError:
                version = ""
            except (ForbiddenError, NotFoundError) as error:
                self._heard = self._time()
                if not self._refused:
                    logger.warning("%s cannot be watched: %s", self.path, error)
                self._refused = True
                if self._sink.refused():
                    self.synced.set()
                version = ""
                await asyncio.sleep(_REFUSED_DELAY)
            except (ClusterError, msgspec.MsgspecError, ValueError) as error:
                logger.warning("the watch of %s starts again: %s", self.path, error)
                version = ""
                await self._pause()
            except Exception:  # outermost: whatever it was, a watch that ends is the operator's end
                logger.exception("the watch of %s failed and starts again", self.path)
                version = ""
                await self._pause()

    async def _pause(self) -> None:
        chance = random.uniform(0.5, 1.0)  # noqa: S311 -- jitter, not a secret
        await asyncio.sleep(self._delay * chance)
        self._delay = min(self._delay * 2, _LONGEST_DELAY)

    async def _list(self) -> str:
        items: list[Any] = []
        page, version = "", ""
        while True:
            params = {**self._params, "limit": str(PAGE)} | ({"continue": page} if page else {})
            found = self._pages.decode(await self._api.read(self.path, params))
            self._heard = self._time()
            items += self._read_all(found.items or ())
            version, page = found.metadata.resource_version, found.metadata.next_page
            if not page:
                break
        self._sink.listed(items, parse_version(version))
        self._refused = False
        self.synced.set()
        return version

    async def _follow(self, version: str) -> str:
        """Watch until the server ends it; return the version to go on from."""
        seconds = SERVER_SECONDS + random.randrange(60)  # noqa: S311 -- jitter, not a secret
        params = self._params | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        }
        async with self._api.stream(self.path, params) as lines:
            self._heard = self._time()
            async for text in lines:
                self._heard = self._time()
                version = self._take(text) or version
        return version

    def _take(self, text: bytes) -> str:
        line = self._lines.decode(text)
        if line.type == "ERROR":
            error = msgspec.json.decode(line.object, type=ErrorShape)
            if error.code == _GONE:
                raise GoneError(error.message)
            raise UnavailableError(error.message)
        self._delay = _FIRST_DELAY
        if line.type == "BOOKMARK":
            return self._metas.decode(line.object).metadata.resource_version
        try:
            return self._sink.seen(line.type, line.object)
        except _UNREADABLE as error:
            self._pass_over(error)
            return self._metas.decode(line.object).metadata.resource_version

    def _read_all(self, found: Iterable[msgspec.Raw]) -> Iterator[Any]:
        for item in found:
            try:
                yield self._sink.read(item)
            except _UNREADABLE as error:
                self._pass_over(error)

    def _pass_over(self, error: Exception) -> None:
        """One object that cannot be read must not hide all others."""
        logger.error("an object of %s cannot be read, it is passed over: %s", self.path, error)
