"""`ebb.join(local=n)`: a script tried on a laptop."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ebbtide.runtime import reaping
from support.nursery import Nursery
from support.processes import await_that, start_script

from .conftest import DIGITS

ENDLESS = """
import pathlib, sys
import torch
import ebbtide.runtime as ebb

job = ebb.join(local=2, steps=1_000_000, global_batch_size=2)
model = torch.nn.Linear(1, 1)
model, optimizer, _ = job.wrap(model, torch.optim.SGD(model.parameters(), lr=0.0))
for batch in job.steps(job.shard([torch.zeros(1)] * 8)):
    model(batch.x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    pathlib.Path(sys.argv[1]).touch()
"""


def test_a_script_trains_as_three_processes_without_a_cluster(tmp_path: Path) -> None:
    words = ["--local", "3", "--steps", "150", "--checkpoints", str(tmp_path)]
    result = subprocess.run(
        [sys.executable, str(DIGITS), *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=55,
        check=True,
    )

    accuracies = [
        float(line.split()[2])
        for line in result.stdout.splitlines()
        if line.startswith("test accuracy")
    ]
    assert len(accuracies) == 3
    assert len(set(accuracies)) == 1
    assert accuracies[0] >= 0.96
    assert (tmp_path / "result.json").exists()


@pytest.mark.parametrize("whole", [False, True], ids=["the first alone", "its whole group"])
def test_a_job_whose_first_process_is_killed_leaves_neither_process_nor_folder(
    nursery: Nursery, tmp_path: Path, *, whole: bool
) -> None:
    script, trained, home = tmp_path / "train.py", tmp_path / "trained", tmp_path / "home"
    script.write_text(ENDLESS)
    home.mkdir()
    run = start_script(nursery, script, str(trained), log=tmp_path / "train.log", TMPDIR=str(home))
    await_that(trained.exists, "a step", run.said)
    first, *others = reaping.descendants(run.pid)
    assert len(others) >= 3, "a second process, the keeper and the coordinator"
    assert list(home.glob("ebbtide-local-*"))

    if whole:
        os.killpg(run.pid, signal.SIGKILL)
    else:  # and before it the worker's first process, which on a laptop there is none of
        reaping.send(signal.SIGKILL, [run.pid, first])

    await_that(lambda: not list(home.iterdir()), "end of the folder")
    await_that(lambda: not any(is_running(pid) for pid in others), "end of the processes")


def is_running(pid: int) -> bool:
    """Tell whether a process is there and more than the memory of one."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
