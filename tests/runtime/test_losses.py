"""Members are lost while they train: nothing of the training is."""

import pytest

from ebbtide.wire import names
from support.processes import Fault, Job

from .conftest import DIGITS, MakeJob

PAUSE = ("--pause", "0.01")


def digests(job: Job) -> set[str]:
    return {result["digest"] for result in job.results().values()}


def codes(job: Job) -> dict[str, int | None]:
    return {name.removeprefix("test-worker-"): each.code for name, each in job.workers.items()}


def start_with_spare(job: Job) -> None:
    """Two members, and a spare that comes when they already train."""
    job.start(workers=2)
    job.await_step(3)
    job.start_worker(2)


@pytest.mark.parametrize("place", ["compute", "applied"])
@pytest.mark.parametrize("index", [0, 1])
def test_a_spare_takes_over_and_the_result_is_the_undisturbed_one(
    make_job: MakeJob, undisturbed: str, index: int, place: str
) -> None:
    fault = Fault(worker=f"test-worker-{index}-1", step=30, action="kill", where=place)
    job = make_job(*PAUSE, faults=[fault])

    start_with_spare(job)
    job.await_done()

    assert job.fired() == [f"test-worker-{index}-1:30:kill"]
    assert digests(job) == {undisturbed}
    assert len(job.results()) == 2
    assert codes(job)[f"{index}-1"] == 128 + 9
    report = job.report()
    assert report.finished
    assert report.steps_redone == 0
    assert report.resumed_generation == 0


def test_the_next_attempt_of_a_lost_worker_takes_its_place(
    make_job: MakeJob, undisturbed: str
) -> None:
    job = make_job(*PAUSE, faults=[Fault(worker="test-worker-1-1", step=20, action="kill")])

    first, lost = job.start(workers=2)
    job.await_code(lost)
    job.start_worker(1, attempt=2)
    job.await_code(first)

    assert job.fired() == ["test-worker-1-1:20:kill"]
    assert digests(job) == {undisturbed}


def test_a_whole_worker_killed_from_outside_is_replaced(
    make_job: MakeJob, undisturbed: str
) -> None:
    job = make_job(*PAUSE)

    start_with_spare(job)
    job.await_step(10)
    job.workers["test-worker-0-1"].kill()
    job.await_done()

    assert digests(job) == {undisturbed}
    assert job.report().recoveries[-1].cause == "lost"


def test_a_frozen_member_is_left_behind(make_job: MakeJob, undisturbed: str) -> None:
    job = make_job(*PAUSE, faults=[Fault(worker="test-worker-1-1", step=30, action="stop")])

    start_with_spare(job)
    job.await_that(lambda: len(job.results()) == 2, "results of the survivors")

    assert job.fired() == ["test-worker-1-1:30:stop"]
    assert digests(job) == {undisturbed}


def test_fewer_members_go_on_when_there_is_no_spare(make_job: MakeJob) -> None:
    fault = Fault(worker="test-worker-1-1", step=20, action="kill")
    job = make_job(*PAUSE, faults=[fault], min_replicas=1, desired=3)

    job.start(workers=3)
    job.await_done()

    assert job.fired() == ["test-worker-1-1:20:kill"]
    assert len(digests(job)) == 1
    assert [result["world"] for result in job.results().values()] == [2, 2]


def test_members_are_added_as_they_come(make_job: MakeJob) -> None:
    job = make_job("--pause", "0.02", min_replicas=1, desired=3, steps=120)

    job.start(workers=1)
    job.await_step(5)
    job.start_worker(1)
    job.await_report(lambda report: len(report.members) == 2, "two members")
    job.start_worker(2)
    job.await_done()

    assert [result["world"] for result in job.results().values()] == [3, 3, 3]
    assert len(digests(job)) == 1
    assert job.report().steps_redone == 0


def test_surplus_members_become_spares(make_job: MakeJob) -> None:
    job = make_job(*PAUSE, desired=3)

    job.start(workers=3)
    job.await_step(10)
    job.call("configure", work=job.work_with(desired=2))
    job.await_done()

    worlds = {name: result["world"] for name, result in job.results().items()}
    assert worlds["test-worker-0-1-0"] == worlds["test-worker-1-1-0"] == 2
    assert len(digests(job)) == 1, "the spare took the final state for its own"


def test_a_loss_while_the_group_forms_is_survived(make_job: MakeJob) -> None:
    job = make_job(*PAUSE, min_replicas=1, desired=4, steps=80)

    workers = job.start(workers=4)
    job.await_report(lambda report: len(report.members) == 4 and report.training, "four members")
    job.await_step(job.report().step + 3)
    workers[3].kill()
    workers[2].kill()  # most likely while the others form again
    job.await_done()

    assert len(digests(job)) == 1
    assert job.report().finished


def test_all_ranks_of_a_worker_are_lost_together(make_job: MakeJob) -> None:
    fault = Fault(worker="test-worker-1-1", step=20, action="exit", code=5, local_rank=1)
    job = make_job(*PAUSE, faults=[fault], processes_per_worker=2, min_replicas=1)

    job.start(workers=2)
    job.await_done()

    assert job.fired() == ["test-worker-1-1:20:exit"]
    assert codes(job) == {"0-1": 0, "1-1": 5}
    assert [result["world"] for result in job.results().values()] == [2, 2]
    assert len(digests(job)) == 1


def test_ranks_agree_from_the_first_step_whatever_each_began_with(make_job: MakeJob) -> None:
    job = make_job("--seed-by-index", desired=3, processes_per_worker=1, steps=10)

    job.start(workers=3)
    job.await_done()

    assert len(digests(job)) == 1


def test_more_ranks_than_samples_change_nothing_but_the_waste(make_job: MakeJob) -> None:
    job = make_job("--layer-norm", global_batch_size=2, desired=3, min_replicas=3, steps=10)

    job.start(workers=3)
    job.await_done()

    assert len(digests(job)) == 1


def test_an_error_of_the_script_is_the_workers_own_exit_code(make_job: MakeJob) -> None:
    fault = Fault(worker="test-worker-1-1", step=20, action="raise")
    job = make_job(*PAUSE, faults=[fault], min_replicas=1)

    job.start(workers=2)
    job.await_done()

    assert codes(job) == {"0-1": 0, "1-1": 1}
    assert "told to fail at step 20" in job.workers["test-worker-1-1"].said()


def test_a_late_spare_is_released_with_the_final_state(make_job: MakeJob) -> None:
    job = make_job(
        steps=20,
        faults=[Fault(worker="test-worker-0-1", step=20, action="wait", where="done", seconds=1.0)],
    )

    job.start(workers=2)
    job.await_report(lambda report: report.finished, "the end")
    late = job.start_worker(2)
    job.await_code(late)
    job.await_done()

    assert codes(job) == {"0-1": 0, "1-1": 0, "2-1": 0}
    assert len(job.results()) == 3
    assert len(digests(job)) == 1


def test_the_digits_are_learnt_through_a_loss(make_job: MakeJob) -> None:
    job = make_job(script=DIGITS, steps=400, global_batch_size=64)

    start_with_spare(job)
    job.await_step(100)
    job.workers["test-worker-1-1"].kill()
    job.await_that((job.checkpoints / "result.json").exists, "a result")
    job.await_done()

    assert codes(job) == {"0-1": 0, "1-1": -9, "2-1": 0}
    said = job.workers["test-worker-0-1"].said()
    accuracy = float(said.partition("test accuracy ")[2].split()[0])
    assert accuracy >= 0.97


def test_exit_codes_are_those_of_the_contract() -> None:
    assert (names.EXIT_DONE, names.EXIT_LEFT) == (0, 82)
