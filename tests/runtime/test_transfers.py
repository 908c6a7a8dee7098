"""Members are lost while states are saved, or on their way to a newcomer: no step is."""

import re
from pathlib import Path

from ebbtide.runtime.reaping import descendants
from support.processes import Job, Worker

from .conftest import MakeJob

BARE = 500 << 20  # what a trainer of a small model holds, torch's code included
BALLAST = 50_000_000  # numbers of eight bytes: 400 MB, so that there is a middle to be lost in


def digests(job: Job) -> set[str]:
    return {result["digest"] for result in job.results().values()}


def coordinator_said(job: Job) -> str:
    return (job.folder / "coordinator.log").read_text()


def test_no_step_is_lost_with_the_member_that_saves(make_job: MakeJob, undisturbed: str) -> None:
    job = make_job("--pause", "0.02", checkpoint_interval=0.1)
    chief = job.start(workers=2)[0]
    job.await_step(3)
    job.start_worker(2)

    job.await_report(lambda report: report.checkpoint_step > 0, "a checkpoint")
    job.await_that(lambda: any(job.checkpoints.glob(f".saving-{chief.name}-*")), "a save")
    chief.kill()
    job.await_done()

    report = job.report()
    assert report.finished
    assert (report.steps_redone, report.resumed_generation) == (0, 0)
    assert digests(job) == {undisturbed}
    others = [worker for worker in job.workers.values() if worker is not chief]
    assert any("checkpoint of step 60" in worker.said() for worker in others)
    assert not list(job.checkpoints.glob("step-*/damaged.txt"))


def most_memory(worker: Worker) -> int:
    """Return the most that a process of this worker ever held, in bytes."""
    found = []
    for pid in descendants(worker.pid):
        status = Path(f"/proc/{pid}/status").read_text()
        found += [int(kb) << 10 for kb in re.findall(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)]
    return max(found)


def lose_in_transfer(job: Job, generation: int, newcomer: Worker) -> None:
    """Kill the newcomer once this generation forms, and prove that it never stood."""
    job.await_that(
        lambda: f"generation {generation} forms" in coordinator_said(job), "the transfer"
    )
    newcomer.kill()
    job.await_code(newcomer)
    assert f"generation {generation} stands" not in coordinator_said(job)


def test_a_newcomer_lost_in_mid_transfer_holds_nobody_up(make_job: MakeJob) -> None:
    job = make_job(
        *("--pause", "0.02", "--ballast", str(BALLAST)),
        checkpoint_interval=3600.0,
        min_replicas=1,
        desired=2,
        steps=10_000,  # it is told below when to end
    )
    job.start(workers=1)
    job.await_step(3)
    first = job.report().generation

    lose_in_transfer(job, first + 1, job.start_worker(1))
    report = job.await_report(
        lambda each: each.generation > first + 1 and each.training, "the others' next generation"
    )
    job.await_step(report.step + 3)
    second = job.start_worker(1, attempt=2)
    job.await_report(lambda each: len(each.members) == 2, "another newcomer, which is taken in")
    assert most_memory(second) < BARE + 1.5 * 8 * BALLAST, "the state was held twice"
    job.call("configure", work=job.work_with(steps=job.report().step + 5))
    job.await_done()

    assert job.report().steps_redone == 0
    assert len(digests(job)) == 1
    assert len(job.results()) == 2
