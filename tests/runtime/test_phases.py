"""A process is lost in every phase, in every way: nothing of the training is."""

import pytest

from support.processes import ANY, Fault, Job

from .conftest import MakeJob

PAUSE = ("--pause", "0.01")
NOTICE_SECONDS = 2.0
ACTIONS = [
    pytest.param("kill", id="killed"),
    pytest.param("stop", id="silent"),
    pytest.param("notice", id="told 2 s before"),
]
STEP = 25


def fail_at(rank: int, step: int, phase: str, *, action: str) -> Fault:
    """Lose the worker of a rank: ranks are indexes here until somebody is lost."""
    return Fault(worker=f"test-worker-{rank}-1", step=step, action=action, where=phase)


def check(job: Job, fault: Fault, undisturbed: str) -> None:
    """The fault happened, once, and the survivors hold what an undisturbed run would."""
    job.await_that(lambda: len(job.results()) == 2, "results of the survivors")
    (fired,) = [line for line in job.fired() if line.startswith(f"{fault.worker}:")]
    assert fired.endswith(f":{fault.action}")
    assert {result["digest"] for result in job.results().values()} == {undisturbed}
    job.await_report(lambda report: report.finished, "the end")
    assert job.report().steps_redone == 0
    if fault.action != "stop":  # who is frozen neither ends nor is ended
        code = job.await_code(job.workers[fault.worker])
        assert code == {"kill": 128 + 9, "notice": 82}[fault.action]


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("phase", ["forward", "backward", "collective"])
def test_a_member_is_lost_in_a_step(
    make_job: MakeJob, undisturbed: str, phase: str, rank: int, action: str
) -> None:
    fault = fail_at(rank, STEP, phase, action=action)
    job = make_job(*PAUSE, faults=[fault], notice_seconds=NOTICE_SECONDS)

    job.start(workers=2)
    job.await_step(3)
    job.start_worker(2)

    check(job, fault, undisturbed)


@pytest.mark.parametrize("action", ACTIONS)
def test_the_holder_of_duty_is_lost_while_it_saves(
    make_job: MakeJob, undisturbed: str, action: str
) -> None:
    fault = fail_at(0, ANY, "checkpoint", action=action)
    job = make_job(*PAUSE, faults=[fault], notice_seconds=NOTICE_SECONDS, checkpoint_interval=0.05)

    job.start(workers=2)
    job.await_report(lambda report: len(report.members) == 2, "the first two")
    job.start_worker(2)

    check(job, fault, undisturbed)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("phase", ["join", "transfer"])
def test_a_newcomer_is_lost_before_it_has_the_state(
    make_job: MakeJob, undisturbed: str, phase: str, action: str
) -> None:
    fault = fail_at(2, 0, phase, action=action)
    first = fail_at(1, STEP, "compute", action="kill")
    job = make_job(*PAUSE, faults=[first, fault], notice_seconds=NOTICE_SECONDS)

    job.start(workers=2)
    job.await_step(3)
    job.start_worker(2)
    job.await_report(lambda report: len(report.workers) == 3, "the newcomer")
    job.start_worker(3)

    check(job, fault, undisturbed)
    assert [line.split(":")[0] for line in job.fired()] == [first.worker, fault.worker]
