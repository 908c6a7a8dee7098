import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

import pytest

from ebbtide.cluster.errors import ConflictError, UnavailableError
from ebbtide.controller.metrics import Metrics
from ebbtide.controller.work_queue import WorkQueue
from ebbtide.controller.workers import LONGEST_PASS, Workers
from ebbtide.core.values.job import JobKey

pytestmark = pytest.mark.looptime
KEY = JobKey("team", "digits")
OTHER = JobKey("team", "words")
Pass = Callable[[JobKey], Awaitable[timedelta | None]]


@contextlib.asynccontextmanager
async def working(make_pass: Pass) -> AsyncIterator[tuple[WorkQueue[JobKey], Metrics]]:
    queue: WorkQueue[JobKey] = WorkQueue()
    metrics = Metrics()
    workers = Workers(queue, make_pass, metrics=metrics, number=4, chance=random.Random(1))
    task = asyncio.create_task(workers.run())
    try:
        yield queue, metrics
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def errors_of(metrics: Metrics, kind: str) -> float:
    return metrics.registry.get_sample_value("ebbtide_reconcile_errors_total", {"kind": kind}) or 0


async def test_a_pass_says_when_the_next_one_is() -> None:
    passes: Counter[JobKey] = Counter()

    async def make_pass(key: JobKey) -> timedelta | None:
        passes[key] += 1
        return timedelta(seconds=10) if key == KEY else None

    async with working(make_pass) as (queue, _):
        queue.add(KEY)
        queue.add(OTHER)
        await asyncio.sleep(95)

    assert passes == {KEY: 10, OTHER: 1}


async def test_one_broken_job_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    passes: Counter[JobKey] = Counter()

    async def make_pass(key: JobKey) -> timedelta | None:
        passes[key] += 1
        if key == KEY:
            raise KeyError("nobody expected this")
        return timedelta(seconds=1)

    async with working(make_pass) as (queue, metrics):
        queue.add(KEY)
        queue.add(OTHER)
        await asyncio.sleep(60)

        assert passes[OTHER] >= 59
        assert 5 <= passes[KEY] <= 8  # 1, 2, 4, ... seconds apart
        assert errors_of(metrics, "unknown") == passes[KEY]
    assert caplog.text.count("Traceback") == passes[KEY]


async def test_a_pass_that_hangs_is_given_up() -> None:
    passes: Counter[JobKey] = Counter()

    async def make_pass(key: JobKey) -> timedelta | None:
        passes[key] += 1
        await asyncio.sleep(3600)
        return None

    async with working(make_pass) as (queue, _):
        queue.add(KEY)
        await asyncio.sleep(LONGEST_PASS + 5)

        assert passes[KEY] == 2


async def test_a_conflict_is_tried_again_at_once_without_a_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    passes: Counter[JobKey] = Counter()

    async def make_pass(key: JobKey) -> timedelta | None:
        passes[key] += 1
        if passes[key] < 4:
            raise ConflictError("changed")
        return None

    async with working(make_pass) as (queue, metrics):
        queue.add(KEY)
        await asyncio.sleep(1)

        assert passes[KEY] == 4
        assert errors_of(metrics, "conflict") == 3
    assert not caplog.records


async def test_a_server_that_is_away_is_a_warning_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def make_pass(key: JobKey) -> timedelta | None:
        raise UnavailableError("no answer to read /x: refused")

    async with working(make_pass) as (queue, _):
        queue.add(KEY)
        await asyncio.sleep(0.1)

    assert "team/digits: no answer to read /x: refused; next try in" in caplog.text
    assert "Traceback" not in caplog.text
