"""A `LiveCluster` on the API in memory, with its watches running."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

from ebbtide.cluster.live import LiveCluster, Scope
from ebbtide.core.values.job import JobKey
from ebbtide.manifests.options import Options
from ebbtide.wire.messages import Report, WorkSpec
from support.fake_api import FakeApi
from support.manifests import job_manifest, pool_manifest, stored

KEY = JobKey("team", "digits")
JOBS = "/apis/ebbtide.dev/v1alpha1/namespaces/team/trainingjobs"
JOB = f"{JOBS}/digits"
POOL = "/apis/ebbtide.dev/v1alpha1/capacitypools/v100-spot"
PODS = "/api/v1/namespaces/team/pods"
NODES = "/api/v1/nodes"
NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


class FakeLine:
    """A coordinator that answers with what the test set; without that it does not answer."""

    def __init__(self) -> None:
        self.report: Report | None = None
        self.error: Exception | None = None
        self.calls: list[tuple[str, str]] = []
        self.news = asyncio.Event()
        self.closed = 0

    async def call(
        self,
        name: str,
        *,
        worker: str = "",
        on: bool = True,
        seconds: float = 0.0,
        work: WorkSpec | None = None,
        since: int = -1,
        wait: float = 0.0,
    ) -> Report | None:
        """Answer at once, or for a long poll when there is news."""
        del on, seconds, work
        self.calls.append((name, worker))
        if self.error is not None:
            raise self.error
        known = self.report is not None and self.report.version == since
        if wait and known:
            self.news.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.news.wait(), wait)
        if self.error is not None:
            raise self.error
        return self.report

    async def close(self) -> None:
        """Hang up."""
        self.closed += 1


class Bench:
    """The cluster under test, what it is made of, and which jobs it woke how often."""

    def __init__(self, api: FakeApi, **scope: Any) -> None:
        self.api = api
        self.line = FakeLine()
        self.dialled: list[tuple[str, int, bytes]] = []
        self.woken: Counter[JobKey] = Counter()
        self.now = NOW
        self.clock: Callable[[], datetime] = lambda: self.now
        self.cluster = LiveCluster(
            api,
            scope=Scope(**scope),
            options=Options(coordinator_image="registry.example/ebbtide:1"),
            dial=self._dial,
            clock=self._clock,
            wake=self._wake,
        )

    def _dial(self, host: str, port: int, token: bytes) -> FakeLine:
        self.dialled.append((host, port, token))
        return self.line

    def _clock(self) -> datetime:
        return self.clock()

    def _wake(self, key: JobKey) -> None:
        self.woken[key] += 1

    async def settle(self) -> None:
        """Let everything happen that can happen without time passing."""
        for _ in range(50):
            await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def running(api: FakeApi, **scope: Any) -> AsyncIterator[Bench]:
    """Start the watches, list our own kinds, and end all of it afterwards."""
    bench = Bench(api, **scope)
    tasks = [asyncio.create_task(watch.run()) for watch in bench.cluster.watches]
    try:
        await bench.cluster.synced()
        await bench.cluster.prime()
        yield bench
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await bench.cluster.close()


def with_job(api: FakeApi | None = None, **spec: Any) -> FakeApi:
    """Return an API with one job and one pool."""
    api = api or FakeApi()
    api.put(POOL, pool_manifest())
    manifest = stored(job_manifest(**spec))
    del manifest["metadata"]["resourceVersion"]
    api.put(JOB, manifest)
    return api
