"""B064: a writer killed at any moment of a save leaves a whole checkpoint behind."""

import random
import time
from pathlib import Path

import torch

from ebbtide.runtime.checkpoint import Shelf
from support.nursery import Nursery
from support.processes import await_that, start_script
from support.saving_run import SIZE

SCRIPT = Path(__file__).parents[1] / "support" / "saving_run.py"
ROUNDS = 30  # a tenth of the full number


def await_save(shelf: Shelf, step: int) -> None:
    def is_saved() -> bool:
        return max((manifest.step for _, manifest in shelf.entries()), default=0) >= step

    await_that(is_saved, f"save of step {step}", look=0.001)


def await_draft(folder: Path, pattern: str) -> None:
    await_that(lambda: any(folder.glob(pattern)), "beginning of a save", look=0.001)


def test_b064_a_killed_writer_never_spoils_what_was_saved(nursery: Nursery, tmp_path: Path) -> None:
    chance = random.Random(64)
    folder = tmp_path / "kept"
    shelf = Shelf(str(folder), owner="reader")
    newest, unfinished = 0, 0

    for number in range(ROUNDS):
        writer = start_script(
            nursery, SCRIPT, str(folder), f"saves-{number}", log=tmp_path / f"saves-{number}.log"
        )
        await_save(shelf, newest + 1)
        await_draft(folder, f".saving-saves-{number}-*")
        time.sleep(chance.uniform(0, 0.03))  # the moment of the kill is what is drawn here
        writer.kill()
        writer.await_code()
        unfinished += any(folder.glob(f".saving-saves-{number}-*"))
        loaded = Shelf(str(folder), owner="again").load()
        assert loaded is not None
        assert loaded.manifest.step > newest
        newest = loaded.manifest.step
        assert torch.equal(loaded.tree["weight"], torch.full((SIZE,), float(newest)))

    assert unfinished > ROUNDS / 4, "the kills did not hit saves"
