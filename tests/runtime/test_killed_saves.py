"""B064: a writer killed at any moment of a save leaves a whole checkpoint behind."""

import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from ebbtide.runtime.checkpoint import Shelf
from ebbtide.wire import names
from support.nursery import Nursery
from support.saving_run import SIZE

SCRIPT = Path(__file__).parents[1] / "support" / "saving_run.py"
ROUNDS = 30  # a tenth of the full number
LIMIT = 20


def await_step(shelf: Shelf, step: int) -> None:
    until = time.monotonic() + LIMIT
    while max((manifest.step for _, manifest in shelf.entries()), default=0) < step:
        assert time.monotonic() < until, "nothing is saved"
        time.sleep(0.001)


def await_draft(folder: Path, pattern: str) -> None:
    until = time.monotonic() + LIMIT
    while not any(folder.glob(pattern)):
        assert time.monotonic() < until, "no save begins"
        time.sleep(0.001)


def test_b064_a_killed_writer_never_spoils_what_was_saved(nursery: Nursery, tmp_path: Path) -> None:
    chance = random.Random(64)
    folder = tmp_path / "kept"
    shelf = Shelf(str(folder), owner="reader")
    newest, unfinished = 0, 0

    for number in range(ROUNDS):
        pid = nursery.start(
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "PYTHONPATH": os.pathsep.join(sys.path),
                names.ENV_JOB: "tests/saves",
                names.ENV_WORKER: f"saves-{number}",
                names.ENV_INDEX: "0",
                names.ENV_ADDRESS: "127.0.0.1",
                names.ENV_COORDINATOR: "127.0.0.1:9",
                names.ENV_CHECKPOINT_PATH: str(folder),
            },
            arguments=["--", "python", str(SCRIPT), str(folder), f"saves-{number}"],
            log=tmp_path / "log",
        )
        await_step(shelf, newest + 1)
        await_draft(folder, f".saving-saves-{number}-*")
        time.sleep(chance.uniform(0, 0.03))  # the moment of the kill is what is drawn here
        os.killpg(pid, signal.SIGKILL)
        while nursery.poll(pid) is None:
            time.sleep(0.001)
        unfinished += any(folder.glob(f".saving-saves-{number}-*"))
        loaded = Shelf(str(folder), owner="again").load()
        assert loaded is not None
        assert loaded.manifest.step > newest
        newest = loaded.manifest.step
        assert torch.equal(loaded.tree["weight"], torch.full((SIZE,), float(newest)))

    assert unfinished > ROUNDS / 4, "the kills did not hit saves"
