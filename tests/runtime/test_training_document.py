"""The scripts of docs/training.md run as they stand."""

import re
from pathlib import Path

import pytest

from support.nursery import Nursery
from support.processes import start_script

from .conftest import DIGITS

PAGE = DIGITS.parents[2] / "docs" / "training.md"
SCRIPTS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", range(len(SCRIPTS)))
def test_every_script_of_the_page_trains_to_its_end(
    nursery: Nursery, number: int, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPTS[number])

    run = start_script(nursery, script, log=tmp_path / "train.log")

    assert run.await_code(patience=110) == 0, run.said()
    assert "done: " in run.said()
    assert "Warning" not in run.said(), run.said()


def test_the_page_names_every_word_of_a_job() -> None:
    from ebbtide.runtime.job import Job  # noqa: PLC0415 -- brings torch, which collecting needs not

    words = [name for name in vars(Job) if not name.startswith("_")]
    assert len(words) > 10
    assert [word for word in words if f"`job.{word}" not in PAGE.read_text("utf-8")] == []


def test_three_scripts_are_shown() -> None:
    assert len(SCRIPTS) == 3
