"""kopf in-process, on an emulated API server: what it hands over, and that it writes nothing."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import kmock
import kopf
import pytest

from ebbtide.controller.handlers import make_settings, register
from ebbtide.core.values.job import JobKey
from ebbtide.wire import names
from support.manifests import job_manifest, pool_manifest

JOBS = f"{names.GROUP}/{names.VERSION}/{names.TRAINING_JOBS}"
POOLS = f"{names.GROUP}/{names.VERSION}/{names.CAPACITY_POOLS}"
VERBS = {"get", "list", "watch", "patch", "create", "delete"}
WRITES = {"POST", "PUT", "PATCH", "DELETE"}


pytestmark = [
    pytest.mark.filterwarnings("ignore:read_binary is deprecated:DeprecationWarning"),  # kmock's
    pytest.mark.timeout(30),
]


class News:
    """Keeps what kopf hands over."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.gone: list[str] = []
        self.arrived = asyncio.Event()

    def job_seen(self, body: Mapping[str, Any]) -> None:
        self._take(self.seen, f"job {body['metadata']['name']}")

    def job_gone(self, key: JobKey, uid: str) -> None:
        self._take(self.gone, f"job {key} {uid}")

    def pool_seen(self, body: Mapping[str, Any]) -> None:
        self._take(self.seen, f"pool {body['metadata']['name']}")

    def pool_gone(self, name: str) -> None:
        self._take(self.gone, f"pool {name}")

    def _take(self, where: list[str], what: str) -> None:
        where.append(what)
        self.arrived.set()

    async def until(self, what: str) -> None:
        async with asyncio.timeout(10):
            while what not in (*self.seen, *self.gone):
                self.arrived.clear()
                await self.arrived.wait()


def describe(server: Any) -> None:
    """Tell the emulator of our kinds, and of those that kopf looks at."""
    server.resources.load_bundled()
    server.resources[JOBS] = {
        "kind": names.TRAINING_JOB,
        "singular": "trainingjob",
        "namespaced": True,
        "subresources": {"status"},
        "verbs": VERBS,
    }
    server.resources[POOLS] = {
        "kind": names.CAPACITY_POOL,
        "singular": "capacitypool",
        "namespaced": False,
        "subresources": {"status"},
        "verbs": VERBS,
    }


@contextlib.asynccontextmanager
async def running(server: Any, news: News, *, with_pools: bool = True) -> AsyncIterator[None]:
    async def log_in() -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server=str(server.url))

    stop, ready = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(
        kopf.operator(
            registry=register(news, login=log_in, with_pools=with_pools),
            settings=make_settings(namespaced=False),
            clusterwide=True,
            standalone=True,
            stop_flag=stop,
            ready_flag=ready,
        )
    )
    try:
        await ready.wait()
        yield
    finally:
        stop.set()
        await asyncio.wait([task], timeout=8)
        assert task.done(), "kopf must end when it is told to"


@pytest.mark.kmock(cls=kmock.KubernetesEmulator)
async def test_jobs_and_pools_are_handed_over_and_nothing_is_written(kmock: Any) -> None:
    describe(kmock)
    news = News()
    job = job_manifest()
    job["metadata"] |= {"uid": "uid-1", "resourceVersion": "5"}
    kmock.objects[JOBS, "team", "digits"] = job
    kmock.objects[POOLS, None, "v100-spot"] = pool_manifest()

    async with running(kmock, news):
        await news.until("job digits")
        await news.until("pool v100-spot")

    methods = {request.method.upper() for request in kmock}
    assert "GET" in methods
    assert not methods & WRITES


@pytest.mark.kmock(cls=kmock.KubernetesEmulator)
async def test_the_end_of_an_object_is_handed_over(kmock: Any) -> None:
    describe(kmock)
    news = News()
    job = job_manifest()
    job["metadata"] |= {"uid": "uid-1", "resourceVersion": "5"}
    kmock.objects[JOBS, "team", "digits"] = job
    kmock.objects[POOLS, None, "v100-spot"] = pool_manifest()
    root = f"{str(kmock.url).rstrip('/')}/apis/{names.GROUP}/{names.VERSION}"

    async with running(kmock, news), aiohttp.ClientSession() as session:
        await news.until("job digits")
        await news.until("pool v100-spot")
        await session.delete(f"{root}/namespaces/team/{names.TRAINING_JOBS}/digits")
        await session.delete(f"{root}/{names.CAPACITY_POOLS}/v100-spot")

        await news.until("job team/digits uid-1")
        async with asyncio.timeout(10):
            while "pool v100-spot" not in news.gone:
                news.arrived.clear()
                await news.arrived.wait()


@pytest.mark.kmock(cls=kmock.KubernetesEmulator)
async def test_pools_of_the_cluster_are_left_alone_where_the_file_names_them(kmock: Any) -> None:
    describe(kmock)
    news = News()
    kmock.objects[JOBS, "team", "digits"] = job_manifest()
    kmock.objects[POOLS, None, "v100-spot"] = pool_manifest()

    async with running(kmock, news, with_pools=False):
        await news.until("job digits")

    assert not any(what.startswith("pool") for what in news.seen)
    assert not any(names.CAPACITY_POOLS in str(request.url) for request in kmock)
