import asyncio

import pytest

from ebbtide.controller.work_queue import WorkQueue

pytestmark = pytest.mark.looptime


async def drain(queue: WorkQueue[str], seconds: float) -> list[tuple[float, str]]:
    """Take what comes in so many seconds, each pass ending at once; when and what."""
    loop = asyncio.get_running_loop()
    begun, found = loop.time(), []
    try:
        async with asyncio.timeout(seconds):
            while True:
                key = await queue.take()
                found.append((round(loop.time() - begun, 3), key))
                queue.done(key)
    except TimeoutError:
        return found


async def test_a_key_that_is_added_often_is_one_pass() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for _ in range(100):
        queue.add("a")
        queue.add("b")

    assert await drain(queue, 10) == [(0, "a"), (0, "b")]


async def test_the_earliest_wish_counts() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a", delay=60)
    queue.add("a", delay=5)
    queue.add("a", delay=30)

    assert await drain(queue, 100) == [(5, "a")]


async def test_a_wish_for_now_replaces_one_for_later() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a", delay=60)
    queue.add("a")

    assert await drain(queue, 100) == [(0, "a")]


async def test_no_two_passes_of_one_key_run_at_a_time() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    assert await queue.take() == "a"
    queue.add("a")
    queue.add("b")

    assert await queue.take() == "b"
    queue.done("b")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.take(), 60)
    queue.done("a")
    assert await asyncio.wait_for(queue.take(), 1) == "a"


async def test_a_wish_during_a_pass_keeps_its_delay() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    key = await queue.take()
    queue.add("a", delay=30)
    queue.add("a", delay=20)
    queue.done(key)

    assert await drain(queue, 100) == [(20, "a")]


async def test_a_burst_of_news_is_two_passes_at_a_distance() -> None:
    queue: WorkQueue[str] = WorkQueue(distance=0.5)
    queue.add("a")
    queue.done(await queue.take())
    for _ in range(50):
        queue.add("a")

    assert await drain(queue, 10) == [(0.5, "a")]


async def test_many_workers_share_the_keys() -> None:
    queue: WorkQueue[str] = WorkQueue()
    done: list[str] = []

    async def work() -> None:
        while True:
            key = await queue.take()
            await asyncio.sleep(1)
            done.append(key)
            queue.done(key)

    tasks = [asyncio.create_task(work()) for _ in range(4)]
    for number in range(8):
        queue.add(str(number))
    await asyncio.sleep(2.5)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert sorted(done) == [str(number) for number in range(8)]


async def test_the_depth_tells_what_waits_now() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.add("b")
    queue.add("c", delay=60)

    assert len(queue) == 2
