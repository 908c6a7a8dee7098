"""SIGTERM and the coordinator's stop: out within the notice, exit 82, nothing lost."""

import time

from ebbtide.runtime.checkpoint import Shelf
from support.processes import Fault, Job

from .conftest import MakeJob

PAUSE = ("--pause", "0.02")


def digests(job: Job) -> set[str]:
    return {result["digest"] for result in job.results().values()}


def test_a_member_told_to_go_leaves_at_a_boundary_and_no_step_is_lost(
    make_job: MakeJob, undisturbed: str
) -> None:
    job = make_job(*PAUSE)

    workers = job.start(workers=2)
    job.await_step(3)
    job.start_worker(2)
    job.await_step(20)
    workers[0].terminate()
    code = job.await_code(workers[0])
    job.await_done()

    assert code == 82
    assert digests(job) == {undisturbed}
    report = job.report()
    assert report.steps_redone == 0
    assert report.checkpoint_step == 60, "no urgent checkpoint was needed"
    assert "urgent" not in workers[0].said()


def test_the_coordinators_stop_works_like_sigterm(make_job: MakeJob, undisturbed: str) -> None:
    job = make_job(*PAUSE)

    workers = job.start(workers=2)
    job.await_step(3)
    job.start_worker(2)
    job.await_step(20)
    job.call("stop", worker=workers[1].name, seconds=8.0)
    code = job.await_code(workers[1])
    job.await_done()

    assert code == 82
    assert digests(job) == {undisturbed}


def test_the_last_holder_of_the_state_saves_it_before_it_leaves(make_job: MakeJob) -> None:
    job = make_job(*PAUSE, min_replicas=1, desired=1)

    (only,) = job.start(workers=1)
    job.await_step(20)
    only.terminate()
    code = job.await_code(only)
    left_at = job.report().step
    job.start_worker(0, attempt=2)
    job.await_done()

    assert code == 82
    report = job.report()
    assert report.resumed_step == left_at >= 20
    assert report.steps_redone == 0
    assert report.finished


def test_b059_a_save_that_does_not_fit_is_not_begun_and_the_last_one_stays(
    make_job: MakeJob,
) -> None:
    """160 MB by a first save that is expected to take 3.7 s, in a notice of 2 s."""
    job = make_job(
        *(*PAUSE, "--ballast", "20000000"),
        min_replicas=1,
        desired=1,
        checkpoint_interval=3600.0,
        notice_seconds=2.0,
        steps=100_000,
    )

    (first,) = job.start(workers=1)
    job.await_step(1)
    job.call("checkpoint")
    saved = job.await_report(lambda each: each.checkpoint_step > 0, "a checkpoint").checkpoint_step
    first.kill()
    job.await_code(first)
    second = job.start_worker(0, attempt=2)
    job.await_report(lambda each: each.resumed_step == saved and each.step > saved, "a step more")
    second.terminate()

    assert job.await_code(second) == 82
    assert "no urgent checkpoint of step" in second.said()
    assert "will be done again" in second.said()
    loaded = Shelf(str(job.checkpoints), owner="reader").load()
    assert loaded is not None
    assert loaded.manifest.step == saved


def test_members_who_all_leave_save_the_state_once_more(make_job: MakeJob) -> None:
    job = make_job(*PAUSE)

    workers = job.start(workers=2)
    job.await_step(20)
    for worker in workers:
        worker.terminate()
    codes = [job.await_code(worker) for worker in workers]
    left_at = job.report().step
    for index in range(2):
        job.start_worker(index, attempt=2)
    job.await_done()

    assert codes == [82, 82]
    report = job.report()
    assert report.resumed_step == left_at
    assert report.steps_redone == 0
    assert report.finished


def test_a_spare_leaves_at_once(make_job: MakeJob) -> None:
    job = make_job("--pause", "0.05")

    job.start(workers=2)
    job.await_step(3)
    spare = job.start_worker(2)
    job.await_report(lambda report: len(report.workers) == 3, "the spare")
    spare.terminate()
    code = job.await_code(spare)

    assert code == 82
    assert not job.report().finished


def test_a_worker_in_a_long_step_leaves_when_the_notice_is_used_up(make_job: MakeJob) -> None:
    fault = Fault(worker="test-worker-1-1", step=20, action="wait", seconds=30.0)
    job = make_job(*PAUSE, faults=[fault], min_replicas=1, notice_seconds=2.0)

    workers = job.start(workers=2)
    job.await_that(lambda: bool(job.fired()), "the long step")
    began = time.monotonic()
    workers[1].terminate()
    code = job.await_code(workers[1])
    took = time.monotonic() - began
    job.await_code(workers[0])

    assert code == 82
    assert took < 4.0
    assert workers[0].code == 0
    assert job.report().finished


def test_sigterm_before_anything_was_joined_is_a_leaving_too(make_job: MakeJob) -> None:
    job = make_job()

    job.port = 9  # nobody listens there: the worker waits for its coordinator
    worker = job.start_worker(0)
    job.await_that(lambda: "no coordinator" in worker.said(), "a try to connect")
    worker.terminate()

    assert job.await_code(worker) == 82


def test_sigterm_after_the_work_is_done_does_not_undo_it(make_job: MakeJob) -> None:
    fault = Fault(worker="test-worker-0-1", step=60, action="wait", where="done", seconds=0.5)
    job = make_job(faults=[fault])

    workers = job.start(workers=2)
    job.await_that(lambda: bool(job.fired()), "the end of the loop")
    workers[0].terminate()

    assert job.await_code(workers[0]) == 0
    assert job.report().finished


def test_a_stop_in_a_worker_of_two_processes_takes_both(make_job: MakeJob) -> None:
    job = make_job(*PAUSE, min_replicas=1, processes_per_worker=2)

    workers = job.start(workers=2)
    job.await_step(20)
    workers[0].terminate()
    code = job.await_code(workers[0])
    job.await_done()

    assert code == 82
    assert len(digests(job)) == 1
    assert job.report().steps_redone == 0
