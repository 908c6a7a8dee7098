"""The scripts of docs/training.md run as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import DIGITS

PAGE = DIGITS.parents[2] / "docs" / "training.md"
SCRIPTS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", range(len(SCRIPTS)))
def test_every_script_of_the_page_trains_to_its_end(number: int, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPTS[number])

    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "done: " in done.stdout
    assert "Warning" not in done.stderr, done.stderr


def test_the_page_names_every_word_of_a_job() -> None:
    from ebbtide.runtime.job import Job  # noqa: PLC0415 -- brings torch, which collecting needs not

    words = [name for name in vars(Job) if not name.startswith("_")]
    assert len(words) > 10
    assert [word for word in words if f"`job.{word}" not in PAGE.read_text("utf-8")] == []


def test_two_scripts_are_shown() -> None:
    assert len(SCRIPTS) == 2
