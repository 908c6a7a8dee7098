import asyncio
import threading

import pytest

from ebbtide.controller import framework
from ebbtide.controller.framework import Framework


class Operate:
    """Runs until it is stopped, in whatever loop; fails as often as it is told to."""

    def __init__(self, *, failures: int = 0) -> None:
        self.failures = failures
        self.starts = 0
        self.threads: set[str] = set()
        self.begun = threading.Event()

    async def __call__(self, stop: asyncio.Event) -> None:
        self.starts += 1
        self.threads.add(threading.current_thread().name)
        if self.starts <= self.failures:
            raise OSError("the API server said something strange")
        self.begun.set()
        await stop.wait()


async def test_it_runs_in_a_thread_of_its_own_and_ends_when_told() -> None:
    operate = Operate()
    found = Framework(operate)
    found.start()
    assert await asyncio.to_thread(operate.begun.wait, 5)

    assert await found.stop(seconds=5)

    assert operate.threads == {"kopf"}
    assert operate.starts == 1


async def test_a_failure_is_logged_and_it_starts_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(framework, "RESTART_SECONDS", 0.01)
    operate = Operate(failures=2)
    found = Framework(operate)
    found.start()
    assert await asyncio.to_thread(operate.begun.wait, 5)
    await found.stop(seconds=5)

    assert operate.starts == 3
    assert caplog.text.count("kopf failed, next try") == 2


async def test_one_that_does_not_end_is_reported_and_not_waited_for() -> None:
    begun, release = threading.Event(), threading.Event()

    async def deaf(_: asyncio.Event) -> None:
        begun.set()
        await asyncio.to_thread(release.wait, 5)

    found = Framework(deaf)
    found.start()
    assert await asyncio.to_thread(begun.wait, 5)
    try:
        assert not await found.stop(seconds=0.05)
    finally:
        release.set()
    assert await found.stop(seconds=5)


async def test_tasks_of_the_operators_loop_survive_its_end() -> None:
    async def cancel_everything(stop: asyncio.Event) -> None:
        await stop.wait()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    found = Framework(cancel_everything)
    found.start()
    ours = asyncio.create_task(asyncio.sleep(0.2, "done"))
    await found.stop(seconds=5)

    assert await ours == "done"
