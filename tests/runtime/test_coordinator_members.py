"""Real processes and sockets, no torch: members come, go, and are missed."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

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
        broken = await workers[1].until("broken")
        assert broken["at"] - killed_at < 0.9  # sooner than silence would show it
        assert report.recoveries[-1].cause == "lost"
        assert report.recoveries[-1].worker == name_of(0)


async def test_a_silent_member_is_lost_within_about_a_second(tmp_path: Path) -> None:
    async with FakeJob(tmp_path, make_work()) as job:
        workers = [await job.start(index) for index in range(2)]
        first = await job.until(trains(name_of(0), name_of(1)))

        stopped_at = time.time()
        workers[0].signal(signal.SIGSTOP)
        await job.until(trains(name_of(1), after=first.generation))

        assert 0.7 < (await workers[1].until("broken"))["at"] - stopped_at < 3.0

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


async def test_a_coordinator_that_ends_politely_breaks_nobody(tmp_path: Path) -> None:
    async with FakeJob(tmp_path, make_work(min_replicas=2)) as job:
        workers = [await job.start(index) for index in range(2)]
        first = await job.until(trains(name_of(0), name_of(1)))

        assert await job.stop_coordinator() == 0
        await job.start_coordinator()
        report = await job.until(trains(name_of(0), name_of(1)))

        assert report.generation == first.generation
        assert all(not worker.said("broken") for worker in workers)


async def test_a_coordinator_killed_while_members_reform_forms_them_when_it_is_back(
    tmp_path: Path,
) -> None:
    async with FakeJob(tmp_path, make_work(min_replicas=2)) as job:
        workers = [await job.start(index) for index in range(2)]
        await job.until(trains(name_of(0), name_of(1)))

        workers[0].signal(signal.SIGKILL)
        await workers[1].until("broken")
        await job.kill_coordinator()
        newcomer = await job.start(0, attempt=2)
        await job.start_coordinator()
        report = await job.until(trains(name_of(0, attempt=2), name_of(1)))

        assert report.generation == 2_000_001
        assert (await newcomer.until("form"))["source"] == "memory"


async def test_a_member_lost_while_the_coordinator_is_away_is_missed_by_the_next(
    tmp_path: Path,
) -> None:
    async with FakeJob(tmp_path, make_work()) as job:
        workers = [await job.start(index) for index in range(2)]
        await job.until(trains(name_of(0), name_of(1)))

        await job.kill_coordinator()
        await workers[0].kill()
        await job.start_coordinator()
        report = await job.until(trains(name_of(1)))

        assert report.generation == 2_000_001


async def test_an_expelled_process_leaves_with_82_and_cannot_come_back(tmp_path: Path) -> None:
    async with FakeJob(tmp_path, make_work()) as job:
        workers = [await job.start(index) for index in range(2)]
        first = await job.until(trains(name_of(0), name_of(1)))

        await job.client.call("expel", worker=name_of(0))
        assert await workers[0].end() == 82
        again = await job.start(0)

        assert await again.end() == 82
        assert "expelled" in again.said("must-leave")[0]["reason"]
        report = await job.until(trains(name_of(1), after=first.generation))
        assert report.members == (name_of(1),)


async def test_an_expelled_process_that_was_out_of_reach_is_fenced_out(tmp_path: Path) -> None:
    async with FakeJob(tmp_path, make_work()) as job:
        workers = [await job.start(index) for index in range(2)]
        first = await job.until(trains(name_of(0), name_of(1)))

        workers[0].signal(signal.SIGSTOP)
        await job.client.call("expel", worker=name_of(0))
        await job.until(trains(name_of(1), after=first.generation))
        workers[0].signal(signal.SIGCONT)

        assert await workers[0].end() == 82


async def test_duty_moves_from_a_killed_holder_and_saves_never_overlap(tmp_path: Path) -> None:
    async with FakeJob(tmp_path, make_work()) as job:
        workers = [await job.start(index, save_every=1) for index in range(2)]
        report = await job.until(lambda r: len(r.members) == 2 and r.training and r.duty != "")
        holder = [name_of(0), name_of(1)].index(report.duty)
        last = (await workers[holder].until("saved"))["at"]

        workers[holder].signal(signal.SIGKILL)
        other = await workers[1 - holder].until("saved")

        await workers[holder].end()
        last = workers[holder].said("saved")[-1]["at"]
        assert 2.0 < other["at"] - last < 8.0


async def test_duty_moves_at_once_from_a_warned_holder(tmp_path: Path) -> None:
    async with FakeJob(tmp_path, make_work()) as job:
        workers = [await job.start(index, save_every=1) for index in range(2)]
        report = await job.until(lambda r: len(r.members) == 2 and r.training and r.duty != "")
        holder = [name_of(0), name_of(1)].index(report.duty)
        await workers[holder].until("saved")

        warned_at = time.time()
        await job.client.call("warn", worker=report.duty, on=True)
        first = await workers[1 - holder].until("saved")

        assert first["at"] - warned_at < 3.5  # sooner than the lease runs out
        assert workers[holder].said("saved")[-1]["at"] < first["at"]


async def test_all_stopped_at_once_leave_one_checkpoint_of_the_last_step(tmp_path: Path) -> None:
    async with FakeJob(tmp_path, make_work(min_replicas=2)) as job:
        workers = [await job.start(index) for index in range(2)]
        await job.until(trains(name_of(0), name_of(1)))

        await asyncio.gather(
            *(job.client.call("stop", worker=name_of(index), seconds=20.0) for index in range(2))
        )
        assert [await worker.end() for worker in workers] == [82, 82]

        steps = [worker.said("left")[0]["step"] for worker in workers]
        assert [worker.said("left")[0]["save"] for worker in workers].count(True) == 1
        assert int(job.checkpoint.read_text()) == max(steps)


async def test_the_job_ends_when_the_last_step_is_saved(tmp_path: Path) -> None:
    async with FakeJob(tmp_path, make_work(steps=30, desired=2)) as job:
        workers = [await job.start(index) for index in range(3)]

        assert [await worker.end() for worker in workers] == [0, 0, 0]

        report = await job.report()
        assert report.finished
        assert report.checkpoint_step == 30
        await job.client.call("finish")
        assert job.coordinator is not None
        assert await job.coordinator.wait() == 0


async def test_both_processes_of_a_worker_are_members_or_none(tmp_path: Path) -> None:
    async with FakeJob(tmp_path, make_work(desired=1, processes_per_worker=2)) as job:
        first = await job.start(0, identity={"processes": 2, "local_rank": 0})
        await first.until("welcome")
        assert (await job.report()).workers[0].state == "joining"

        second = await job.start(0, identity={"processes": 2, "local_rank": 1})
        await job.until(trains(name_of(0)))
        second.signal(signal.SIGKILL)

        await first.until("broken")


async def test_a_broken_collective_between_two_members_re_forms_both(tmp_path: Path) -> None:
    async with FakeJob(tmp_path, make_work(min_replicas=2)) as job:
        await job.start(0, break_at=5)
        other = await job.start(1)
        first = await job.until(trains(name_of(0), name_of(1)))

        await job.until(trains(name_of(0), name_of(1), after=first.generation))

        assert len(other.said("broken")) == 1


async def test_who_finds_no_coordinator_within_the_grace_leaves_with_82(tmp_path: Path) -> None:
    async with FakeJob(tmp_path, make_work(coordinator_grace=1.0)) as job:
        worker = await job.start(0)
        await job.until(trains(name_of(0)))

        await job.kill_coordinator()

        assert await worker.end() == 82
        assert "no coordinator" in worker.said("left")[0]["reason"]


async def test_a_wrong_token_ends_the_worker_after_its_grace(tmp_path: Path) -> None:
    async with FakeJob(tmp_path, make_work()) as job:
        worker = await job.start(0, token="guess", grace=0.5)

        assert await worker.end() == 82
        assert "token" in worker.said("must-leave")[0]["reason"]


async def test_a_coordinator_needs_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("COVERAGE")]:
        monkeypatch.delenv(name)  # what measures coverage would be weighed too

    async with FakeJob(tmp_path, make_work()) as job:
        await job.start(0)
        await job.until(trains(name_of(0)))

        assert job.coordinator is not None
        status = Path(f"/proc/{job.coordinator.pid}/status").read_text()
        resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))

        assert int(resident.split()[1]) < 30 * 1024
