import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from typing_extensions import override

from ebbtide.cluster.errors import ForbiddenError, UnavailableError
from ebbtide.cluster.shapes import AnyShape
from ebbtide.cluster.watch import Watch
from support.fake_api import FakeApi

COLLECTION = "/api/v1/namespaces/team/pods"


class Names:
    """A sink that keeps names."""

    def __init__(self) -> None:
        self.lists: list[list[str]] = []
        self.names: set[str] = set()
        self.news = asyncio.Event()
        self.can_do_without = False

    def read(self, item: msgspec.Raw) -> str:
        return msgspec.json.decode(item, type=AnyShape).metadata.name

    def listed(self, items: list[Any], version: int) -> None:
        assert version > 0
        self.lists.append(items)
        self.names = set(items)
        self.news.set()

    def seen(self, kind: str, found: msgspec.Raw) -> str:
        shape = msgspec.json.decode(found, type=AnyShape)
        if kind == "DELETED":
            self.names.discard(shape.metadata.name)
        else:
            self.names.add(shape.metadata.name)
        self.news.set()
        return shape.metadata.resource_version

    def refused(self) -> bool:
        return self.can_do_without

    async def until(self, names: set[str]) -> None:
        async with asyncio.timeout(3600):
            while self.names != names:
                self.news.clear()
                await self.news.wait()


@contextlib.asynccontextmanager
async def watching(api: FakeApi, sink: Names) -> AsyncIterator[Watch]:
    watch = Watch(api, COLLECTION, sink)
    task = asyncio.create_task(watch.run())
    try:
        yield watch
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def pod(api: FakeApi, name: str) -> None:
    api.put(f"{COLLECTION}/{name}", {})


@pytest.mark.looptime
async def test_what_is_there_is_listed_page_by_page_and_then_followed() -> None:
    api, sink = FakeApi(), Names()
    api.page = 2
    for name in "abcde":
        pod(api, name)
    async with watching(api, sink) as watch:
        await watch.synced.wait()
        assert sink.lists == [["a", "b", "c", "d", "e"]]
        assert api.count("read") == 3

        pod(api, "f")
        api.remove(f"{COLLECTION}/a")

        await sink.until(set("bcdef"))


@pytest.mark.looptime
async def test_a_watch_that_the_server_ends_goes_on_without_a_list() -> None:
    api, sink = FakeApi(), Names()
    pod(api, "a")
    async with watching(api, sink) as watch:
        await watch.synced.wait()
        await asyncio.sleep(0.1)
        api.end_watches()
        pod(api, "b")

        await sink.until({"a", "b"})

        assert api.count("read") == 1
        assert api.count("stream") == 2


@pytest.mark.looptime
async def test_a_history_that_is_gone_is_answered_by_a_new_list() -> None:
    api, sink = FakeApi(), Names()
    pod(api, "a")
    api.gone = True
    async with watching(api, sink):
        await sink.until({"a"})
        pod(api, "b")

        await sink.until({"a", "b"})

        assert len(sink.lists) >= 2


@pytest.mark.looptime
async def test_an_error_line_with_410_is_answered_by_a_new_list() -> None:
    api, sink = FakeApi(), Names()
    async with watching(api, sink) as watch:
        await watch.synced.wait()
        await asyncio.sleep(0.1)
        line = b'{"type": "ERROR", "object": {"code": 410, "message": "expired"}}\n'
        for watcher in api._watchers:
            watcher.lines.put_nowait(line)

        await asyncio.sleep(1)

        assert len(sink.lists) == 2


@pytest.mark.looptime
async def test_a_bookmark_moves_the_version_and_nothing_else() -> None:
    api, sink = FakeApi(), Names()
    async with watching(api, sink) as watch:
        await watch.synced.wait()
        await asyncio.sleep(0.1)
        line = b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "5000"}}}\n'
        for watcher in api._watchers:
            watcher.lines.put_nowait(line)
        await asyncio.sleep(0.1)
        api.end_watches()
        await asyncio.sleep(0.1)

        assert sink.names == set()
        assert api.count("stream") == 2


@pytest.mark.looptime
async def test_a_server_that_is_away_is_asked_again_more_and_more_rarely() -> None:
    api, sink = FakeApi(), Names()
    api.fail("read", COLLECTION, UnavailableError("refused"), times=10)
    pod(api, "a")
    async with watching(api, sink) as watch:
        await asyncio.sleep(20)
        assert not watch.synced.is_set()
        assert 3 <= api.count("read") <= 9
        assert watch.age >= 20

        await sink.until({"a"})

        assert watch.age < 1


@pytest.mark.looptime
@pytest.mark.parametrize("can_do_without", [True, False])
async def test_a_missing_right_is_the_end_of_waiting_only_where_we_can_do_without(
    *, can_do_without: bool
) -> None:
    api, sink = FakeApi(), Names()
    sink.can_do_without = can_do_without
    api.fail("read", COLLECTION, ForbiddenError("pods is forbidden"), times=100)
    async with watching(api, sink) as watch:
        await asyncio.sleep(300)

        assert watch.synced.is_set() is can_do_without
        assert api.count("read") <= 7


class Choosy(Names):
    """A sink that cannot read one of the names, and in another way fails at another."""

    def _check(self, name: str) -> None:
        if name == "poison":
            raise OverflowError("date value out of range")
        if name == "bomb":
            raise AttributeError("a fault of ours")

    @override
    def read(self, item: msgspec.Raw) -> str:
        name = super().read(item)
        self._check(name)
        return name

    @override
    def seen(self, kind: str, found: msgspec.Raw) -> str:
        self._check(super().read(found))
        return super().seen(kind, found)


@pytest.mark.looptime
async def test_an_object_that_cannot_be_read_hides_no_other() -> None:
    api, sink = FakeApi(), Choosy()
    for name in ("a", "poison"):
        pod(api, name)
    async with watching(api, sink) as watch:
        await watch.synced.wait()
        assert sink.lists == [["a"]]

        api.change(f"{COLLECTION}/poison", status={"phase": "Running"})
        pod(api, "b")
        await sink.until({"a", "b"})

        assert api.count("read") == 1  # nothing was listed anew


@pytest.mark.looptime
async def test_no_fault_of_ours_ends_a_watch() -> None:
    api, sink = FakeApi(), Choosy()
    pod(api, "a")
    async with watching(api, sink) as watch:
        await watch.synced.wait()
        pod(api, "bomb")
        await asyncio.sleep(10)
        api.remove(f"{COLLECTION}/bomb")
        pod(api, "b")

        await sink.until({"a", "b"})
