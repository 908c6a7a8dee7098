import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from ebbtide.cluster.errors import UnavailableError
from ebbtide.controller.lease import Lease, LeaseLostError, lead
from support.fake_api import FakeApi

pytestmark = pytest.mark.looptime
PATH = "/apis/coordination.k8s.io/v1/namespaces/system/leases/operator"
NOW = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)


def lease_of(api: FakeApi, identity: str) -> Lease:
    return Lease(api, namespace="system", name="operator", identity=identity, clock=lambda: NOW)


class Work:
    """Work that goes on until it is stopped, and knows when it ran."""

    def __init__(self) -> None:
        self.spans: list[list[float]] = []

    async def __call__(self) -> None:
        clock = asyncio.get_running_loop().time
        span = [clock()]
        self.spans.append(span)
        try:
            await asyncio.Event().wait()
        finally:
            span.append(clock())

    @property
    def runs(self) -> bool:
        return bool(self.spans) and len(self.spans[-1]) == 1


def holder(api: FakeApi) -> str:
    return str(api.objects[PATH]["spec"]["holderIdentity"])


async def start(lease: Lease, work: Callable[[], object]) -> asyncio.Task[None]:
    task = asyncio.create_task(lead(lease, work))  # type: ignore[arg-type]  # a callable object
    await asyncio.sleep(0.5)
    return task


async def stop(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_first_one_leads_and_goes_on_renewing() -> None:
    api, work = FakeApi(), Work()
    task = await start(lease_of(api, "a"), work)
    await asyncio.sleep(60)

    assert work.runs
    assert holder(api) == "a"
    assert 20 <= api.count("replace") <= 31
    assert api.objects[PATH]["spec"]["renewTime"] == "2026-01-01T12:00:00.123456Z"
    await stop(task)


async def test_a_standby_takes_over_at_once_from_one_that_stopped() -> None:
    api, first, second = FakeApi(), Work(), Work()
    leader = await start(lease_of(api, "a"), first)
    standby = await start(lease_of(api, "b"), second)
    await asyncio.sleep(60)
    assert not second.spans

    await stop(leader)
    await asyncio.sleep(3)

    assert (holder(api), second.runs, first.runs) == ("b", True, False)
    await stop(standby)


async def test_a_standby_takes_over_from_one_that_died_after_its_lease() -> None:
    # B047
    api, work = FakeApi(), Work()
    dead = lease_of(api, "a")
    assert await dead.take()
    begun = asyncio.get_running_loop().time()
    task = await start(lease_of(api, "b"), work)
    await asyncio.sleep(30)

    assert 14 <= work.spans[0][0] - begun <= 18
    await stop(task)


async def test_work_stops_before_a_standby_may_begin_when_the_server_is_away() -> None:
    api, work = FakeApi(), Work()
    task = await start(lease_of(api, "a"), work)
    await asyncio.sleep(9)
    api.fail("read", "leases", UnavailableError("away"), times=1000)
    away = asyncio.get_running_loop().time()

    with pytest.raises(LeaseLostError):
        await task

    assert work.spans[0][1] - away <= 10.1


async def test_work_stops_when_the_server_hangs() -> None:
    api, work = FakeApi(), Work()
    lease = lease_of(api, "a")
    task = await start(lease, work)
    await asyncio.sleep(9)

    async def hang(*_: object, **__: object) -> bytes:
        await asyncio.sleep(3600)
        return b""

    api.read = hang  # type: ignore[method-assign]  # a server that hangs
    hung = asyncio.get_running_loop().time()

    with pytest.raises(LeaseLostError):
        await task

    assert work.spans[0][1] - hung <= 10.1


async def test_a_short_outage_of_the_server_stops_nothing() -> None:
    api, work = FakeApi(), Work()
    task = await start(lease_of(api, "a"), work)
    api.fail("read", "leases", UnavailableError("away"), times=3)
    await asyncio.sleep(60)

    assert work.runs
    await stop(task)


async def test_what_breaks_the_work_is_not_hidden() -> None:
    async def broken() -> None:
        raise KeyError("nobody expected this")

    api = FakeApi()
    with pytest.raises(KeyError):
        await lead(lease_of(api, "a"), broken)

    assert holder(api) == ""


async def test_a_lease_that_another_one_took_is_not_released_by_us() -> None:
    api = FakeApi()
    ours = lease_of(api, "a")
    assert await ours.take()
    api.change(PATH, spec={"holderIdentity": "b"})

    await ours.release()

    assert holder(api) == "b"
