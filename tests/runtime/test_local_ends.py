"""A local job ends when one of its processes does, says why, and leaves nobody behind."""

import signal
from pathlib import Path

import pytest

from ebbtide.runtime import reaping
from support.nursery import Nursery
from support.processes import Worker, await_that, start_script

from .conftest import MakeJob

SCRIPT = """
import os, pathlib, signal, sys
import torch
import ebbtide.runtime as ebb

how, who, checkpoints, trained = sys.argv[1:]
job = ebb.join(local=2, steps=1_000_000, global_batch_size=2, checkpoint_path=checkpoints)
if how == "fork":
    pid = os.fork()
    if pid == 0:
        sys.exit(0)
    os.waitpid(pid, 0)
mine = who in (str(job._links.place.index), "all")
model = torch.nn.Linear(1, 1)
model, optimizer, _ = job.wrap(model, torch.optim.SGD(model.parameters(), lr=0.0))
for batch in job.steps(job.shard([torch.zeros(1)] * 8)):
    model(batch.x).sum().backward()
    if mine and job.step == 3:
        if how in ("raise", "fork"):
            raise ValueError("mine")
        if how == "break":
            break
        if how == "closure":
            optimizer.step(lambda: 0.0)
        if how == "second":
            torch.optim.Adam(model.parameters()).step()
        if how in ("KILL", "TERM", "INT"):
            os.kill(os.getpid(), getattr(signal, f"SIG{how}"))
    optimizer.step()
    optimizer.zero_grad()
    if job.step == 4:
        pathlib.Path(trained).touch()
print("after the loop", flush=True)
"""


def start(nursery: Nursery, folder: Path, how: str, *, who: str = "0", to: str = "") -> Worker:
    script = folder / "train.py"
    script.write_text(SCRIPT)
    words = [how, who, to or str(folder / "checkpoints"), str(folder / "trained")]
    return start_script(nursery, script, *words, log=folder / "train.log")


@pytest.mark.timeout(90)
@pytest.mark.parametrize(
    ("how", "who", "code", "said"),
    [
        pytest.param("raise", "0", 1, "ValueError: mine", id="the first raises"),
        pytest.param("raise", "1", 1, "process 1 failed with exit code 1", id="another raises"),
        pytest.param("break", "0", 1, "process 0 of this local job ended", id="the first breaks"),
        pytest.param("break", "1", 1, "another process ended before", id="another breaks"),
        pytest.param("break", "all", 0, "left at step 3 of 1000000", id="all break"),
        pytest.param("closure", "all", 1, "a closure computes them within", id="a closure"),
        pytest.param("second", "all", 1, "a second optimizer, Adam", id="a second optimizer"),
        pytest.param("KILL", "1", 137, "process 1 was ended by SIGKILL", id="another is killed"),
        pytest.param("TERM", "1", 82, "process 1 left", id="another is told to go"),
        pytest.param("TERM", "0", 82, "leaving at step", id="the first is told to go"),
        pytest.param("INT", "0", 1, "KeyboardInterrupt", id="the first is interrupted"),
    ],
)
def test_all_end_when_one_does(
    nursery: Nursery, tmp_path: Path, *, how: str, who: str, code: int, said: str
) -> None:
    run = start(nursery, tmp_path, how, who=who)

    assert run.await_code() == code, run.said()  # which comes once none of them is left
    assert said in run.said()


@pytest.mark.timeout(90)
def test_all_end_when_all_are_told_to(nursery: Nursery, tmp_path: Path) -> None:
    run = start(nursery, tmp_path, "train")
    await_that((tmp_path / "trained").exists, "a step", run.said)

    reaping.send(signal.SIGTERM, reaping.descendants(run.pid))

    assert run.await_code() == 82, run.said()
    assert "ending the others" not in run.said()


@pytest.mark.timeout(90)
def test_a_local_job_that_cannot_keep_checkpoints_says_so_and_ends(
    nursery: Nursery, tmp_path: Path
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file")

    run = start(nursery, tmp_path, "train", to=str(taken))

    assert run.await_code() == 1, run.said()
    assert "CheckpointError" in run.said()
    assert str(taken) in run.said()


@pytest.mark.timeout(90)
def test_a_fork_of_the_scripts_own_ends_nobody(nursery: Nursery, tmp_path: Path) -> None:
    run = start(nursery, tmp_path, "fork")

    assert run.await_code() == 1, run.said()
    assert "ValueError: mine" in run.said(), "it came as far as the loop"


@pytest.mark.timeout(90)
def test_a_worker_of_a_cluster_says_what_is_wrong_with_its_checkpoints(make_job: MakeJob) -> None:
    job = make_job()
    job.checkpoints.write_text("a file")

    first, _ = job.start(workers=2)

    job.await_that(lambda: f"{job.checkpoints}" in first.said(), "what is wrong")
    assert first.code is None, "it may be repaired"
