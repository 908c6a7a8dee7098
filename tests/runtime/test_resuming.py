"""Everybody is lost, or the coordinator is: what counts is on disk, or in the members' memory."""

import re
from pathlib import Path

from safetensors.torch import load_file

from ebbtide.runtime.checkpoint import Shelf
from support.processes import Job, Worker

from .conftest import MakeJob

PAUSE = ("--pause", "0.02")


def digests(job: Job) -> set[str]:
    return {result["digest"] for result in job.results().values()}


def saved_steps(job: Job) -> list[int]:
    return sorted(int(path.name[5:]) for path in job.checkpoints.glob("step-*"))


def lose_all(job: Job) -> int:
    """Wait for a checkpoint, then kill every worker; return the step that was saved last."""
    job.await_report(lambda report: report.checkpoint_step > 0, "a checkpoint")
    job.await_step(job.report().checkpoint_step + 2)
    for worker in list(job.workers.values()):
        worker.kill()
        job.await_code(worker)
    return saved_steps(job)[-1]


def test_a_total_loss_goes_on_from_the_newest_checkpoint(
    make_job: MakeJob, undisturbed: str
) -> None:
    job = make_job(*PAUSE, checkpoint_interval=0.5)

    job.start(workers=2)
    saved = lose_all(job)
    reached = job.report().step
    for index in range(2):
        job.start_worker(index, attempt=2)
    job.await_done()

    report = job.report()
    assert report.resumed_step == saved
    assert report.steps_redone == reached - saved
    assert digests(job) == {undisturbed}


def test_a_world_of_another_size_resumes(make_job: MakeJob) -> None:
    job = make_job(*PAUSE, checkpoint_interval=0.2, min_replicas=1, desired=3)

    job.start(workers=3)
    saved = lose_all(job)
    job.call("configure", work=job.work_with(desired=1))
    job.start_worker(0, attempt=2)
    job.await_done()

    assert job.report().resumed_step == saved
    assert [result["step"] for result in job.results().values()] == [60]
    assert [result["world"] for result in job.results().values()] == [1]


def test_a_damaged_newest_checkpoint_is_passed_over(make_job: MakeJob, undisturbed: str) -> None:
    job = make_job(*PAUSE, checkpoint_interval=0.1, checkpoint_retain=5)

    job.start(workers=2)
    job.await_that(lambda: len(saved_steps(job)) >= 3, "three checkpoints")
    newest = lose_all(job)
    state = job.checkpoints / f"step-{newest:012d}" / "state.safetensors"
    state.write_bytes(state.read_bytes()[:-1])
    before = saved_steps(job)[-2]
    for index in range(2):
        job.start_worker(index, attempt=2)
    job.await_done()

    assert job.report().resumed_step == before
    assert digests(job) == {undisturbed}
    assert "damaged" in "".join(worker.said() for worker in job.workers.values())


def test_a_newcomer_throws_nobody_back_to_a_checkpoint_that_could_not_be_read(
    make_job: MakeJob,
) -> None:
    job = make_job(*PAUSE, steps=100_000, checkpoint_interval=0.1, checkpoint_retain=1000)
    job.start(workers=2)
    job.await_step(200)
    newest = lose_all(job)
    oldest, *later = saved_steps(job)
    for step in later:
        folder = job.checkpoints / f"step-{step:012d}"
        state = bytearray((folder / "state.safetensors").read_bytes())
        state[-1] ^= 1
        (folder / "state.safetensors").write_bytes(state)
        (folder / "damaged.txt").symlink_to("nowhere/damaged.txt")  # it can't be marked

    job.call("configure", work=job.work_with(checkpoint_interval=1000.0))
    for index in range(2):
        job.start_worker(index, attempt=2)
    resumed = job.await_report(
        lambda report: report.resumed_generation > 0 and report.step > oldest, "a start"
    )
    job.call("configure", work=job.work_with(checkpoint_interval=1000.0, desired=3))
    job.start_worker(2, attempt=2)
    grown = job.await_report(
        lambda report: report.training and report.generation > resumed.generation, "the newcomer"
    )

    assert resumed.resumed_step == oldest
    assert resumed.step <= grown.step < newest
    assert grown.resumed_generation == resumed.resumed_generation


def test_another_model_ends_the_worker_with_both_sides_named(make_job: MakeJob) -> None:
    job = make_job(*PAUSE, checkpoint_interval=0.2, min_replicas=1, desired=1)

    job.start(workers=1)
    lose_all(job)
    job.arguments += ["--width", "32"]
    worker = job.start_worker(0, attempt=2)

    assert job.await_code(worker) == 1
    assert "MismatchError: the saved model is not this script's" in worker.said()
    assert "0.bias was float32 [16] and is float32 [32]" in worker.said()


def test_nothing_is_trained_when_every_checkpoint_is_bad(make_job: MakeJob) -> None:
    job = make_job(*PAUSE, checkpoint_interval=0.1)

    job.start(workers=2)
    lose_all(job)
    for state in job.checkpoints.glob("step-*/state.safetensors"):
        state.write_bytes(b"")
    for index in range(2):
        job.start_worker(index, attempt=2)
    report = job.await_report(lambda each: bool(each.checkpoint_error), "the complaint")

    assert "no checkpoint under" in report.checkpoint_error
    assert not report.training


def test_a_path_that_cannot_be_written_is_told_before_the_first_step(make_job: MakeJob) -> None:
    job = make_job()
    job.checkpoints.write_text("a file where a folder should be")

    job.start(workers=2)
    report = job.await_report(lambda each: bool(each.checkpoint_error), "the complaint")

    assert str(job.checkpoints) in report.checkpoint_error
    assert "give a folder" in report.checkpoint_error
    assert report.generation == 0


def test_the_disk_filling_up_does_not_stop_training(make_job: MakeJob) -> None:
    job = make_job(*PAUSE, checkpoint_interval=0.1)

    job.start(workers=2)
    job.await_report(lambda report: report.checkpoint_step > 0, "a checkpoint")
    aside = job.folder / "aside"
    job.checkpoints.rename(aside)
    job.checkpoints.write_text("in the way")
    report = job.await_report(lambda each: bool(each.checkpoint_error), "the complaint")
    job.await_step(report.step + 5)
    job.checkpoints.unlink()
    aside.rename(job.checkpoints)
    job.await_done()

    assert job.report().finished
    assert job.report().checkpoint_error == ""


def test_only_the_newest_checkpoints_are_kept_and_plain_torch_reads_them(
    make_job: MakeJob,
) -> None:
    job = make_job(*PAUSE, checkpoint_interval=0.1, checkpoint_retain=2)

    job.start(workers=2)
    job.await_done()

    assert len(saved_steps(job)) == 2
    assert saved_steps(job)[-1] == 60
    state = load_file(job.checkpoints / "step-000000000060" / "state.safetensors")
    assert {"model.0.weight", "model.4.bias", "tracked.average"} <= set(state)
    assert "optimizer.state.0.momentum_buffer" in state
    assert not [path for path in job.checkpoints.iterdir() if path.name.startswith(".")]


def test_killed_while_saving_a_complete_checkpoint_is_always_there(make_job: MakeJob) -> None:
    job = make_job(
        "--width", "20000", checkpoint_interval=0.0, min_replicas=1, desired=1, steps=100_000
    )
    job.start_coordinator()
    seen = -1

    for attempt in range(1, 4):
        worker = job.start_worker(0, attempt=attempt)
        await_a_save(job, worker, newer_than=seen)
        worker.kill()
        job.await_code(worker)
        loaded = Shelf(str(job.checkpoints), owner="test").load()
        assert loaded is not None
        assert loaded.manifest.step > seen
        seen = loaded.manifest.step


def await_a_save(job: Job, worker: Worker, *, newer_than: int) -> None:
    """Wait until a worker committed something new and is in the middle of the next save."""
    job.await_report(lambda report: report.checkpoint_step > newer_than, "a new checkpoint")
    job.await_that(lambda: any(job.checkpoints.glob(f".saving-{worker.name}-*")), "a save")


def test_a_new_coordinator_takes_over_and_nobody_stops(make_job: MakeJob, undisturbed: str) -> None:
    job = make_job("--pause", "0.05")

    job.start(workers=2)
    job.await_step(10)
    job.kill_coordinator()
    job.start_coordinator()
    job.await_report(lambda report: report.training, "the members back")
    job.await_done()

    assert digests(job) == {undisturbed}
    forms = re.findall(r"generation (\d+):", job.workers["test-worker-0-1"].said())
    assert forms == ["1000001"]


def test_a_member_lost_while_the_coordinator_is_away_is_replaced_later(
    make_job: MakeJob, undisturbed: str
) -> None:
    job = make_job("--pause", "0.05")

    workers = job.start(workers=2)
    job.await_step(10)
    job.kill_coordinator()
    workers[1].kill()
    job.start_worker(1, attempt=2)
    job.start_coordinator()
    job.await_done()

    assert digests(job) == {undisturbed}
    assert job.report().generation >= 2_000_001


def test_members_leave_when_the_coordinator_stays_away(make_job: MakeJob) -> None:
    job = make_job("--pause", "0.05", coordinator_grace=1.0)

    workers = job.start(workers=2)
    job.await_step(5)
    job.kill_coordinator()

    assert [job.await_code(worker) for worker in workers] == [82, 82]


def test_a_checkpoint_asked_for_is_made(make_job: MakeJob) -> None:
    job = make_job("--pause", "0.05", checkpoint_interval=3600.0)

    job.start(workers=2)
    job.await_step(5)
    job.call("checkpoint")
    report = job.await_report(lambda each: each.checkpoint_step > 0, "the checkpoint")

    assert report.checkpoint_step < 60


def test_files_of_others_in_the_folder_are_left_alone(make_job: MakeJob) -> None:
    job = make_job(steps=10)
    job.checkpoints.mkdir()
    foreign = [job.checkpoints / name for name in ("handpicked", "tmp-000200", "step-x")]
    for folder in foreign:
        folder.mkdir()

    job.start(workers=2)
    job.await_done()

    assert all(Path(folder).is_dir() for folder in foreign)
    assert job.report().resumed_generation == 0
