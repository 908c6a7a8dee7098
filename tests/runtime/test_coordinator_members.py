"""Real processes and sockets, no torch: members come, go, and are missed."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

from ebbtide.wire.messages import Report
from support.fake_job import FakeJob, make_work, name_of


def trains(*members: str, after: int = 0) -> Callable[[Report], bool]:
    def is_so(report: Report) -> bool:
        return report.training and set(report.members) == set(members) and report.generation > after

    return is_so


async def test_two_workers_form_and_a_third_is_kept_as_a_spare(tmp_path: Path) -> None:
    async with FakeJob(tmp_path, make_work(min_replicas=2)) as job:
        for index in range(3):
            await job.start(index)

        report = await job.until(
            lambda r: r.training and [w.state for w in r.workers].count("spare") == 1
        )

        assert len(report.members) == 2


async def test_a_spare_takes_the_place_of_a_killed_member_at_once(tmp_path: Path) -> None:
    async with FakeJob(tmp_path, make_work(min_replicas=2)) as job:
        workers = [await job.start(index) for index in range(2)]
        first = await job.until(trains(name_of(0), name_of(1)))
        spare = await job.start(2)
        await job.until(lambda r: any(w.state == "spare" for w in r.workers))

        killed_at = time.time()
        workers[0].signal(signal.SIGKILL)
        report = await job.until(trains(name_of(1), name_of(2), after=first.generation))

        form = await spare.until("form")
        assert form["source"] == "memory"
        assert (await workers[1].until("broken"))["at"] - killed_at < 0.3
        assert report.recoveries[-1].cause == "lost"
        assert report.recoveries[-1].worker == name_of(0)


async def test_a_silent_member_is_lost_within_about_a_second(tmp_path: Path) -> None:
    async with FakeJob(tmp_path, make_work()) as job:
        workers = [await job.start(index) for index in range(2)]
        first = await job.until(trains(name_of(0), name_of(1)))

        stopped_at = time.time()
        workers[0].signal(signal.SIGSTOP)
        await job.until(trains(name_of(1), after=first.generation))

        assert 0.7 < (await workers[1].until("broken"))["at"] - stopped_at < 2.0

        workers[0].signal(signal.SIGCONT)
        await job.until(trains(name_of(0), name_of(1), after=first.generation + 1))


async def test_a_killed_coordinators_successor_takes_the_generation_over(tmp_path: Path) -> None:
    async with FakeJob(tmp_path, make_work(min_replicas=2)) as job:
        workers = [await job.start(index) for index in range(2)]
        first = await job.until(trains(name_of(0), name_of(1)))

        await job.kill_coordinator()
        await job.start_coordinator()
        report = await job.until(trains(name_of(0), name_of(1)))

        assert report.attempt == 2
        assert report.generation == first.generation
        assert all(not worker.said("broken") for worker in workers)


async def test_a_leaver_goes_with_82_and_the_others_go_on_from_its_step(tmp_path: Path) -> None:
    async with FakeJob(tmp_path, make_work()) as job:
        workers = [await job.start(index) for index in range(2)]
        first = await job.until(trains(name_of(0), name_of(1)))

        workers[0].signal(signal.SIGTERM)
        assert await workers[0].end() == 82
        report = await job.until(trains(name_of(1), after=first.generation))

        assert workers[0].said("left")[0]["save"] is False
        assert not workers[1].said("broken")
        assert report.recoveries[-1].cause == "left"
        assert {w.worker: w.state for w in report.workers}[name_of(0)] == "left"
