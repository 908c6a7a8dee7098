"""Long commands say how far they are, on a terminal and elsewhere."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from ebbtide.cli import progress
from ebbtide.cli.progress import Progress

SCRIPT = """
import time
from ebbtide.cli.progress import Progress
with Progress() as shown:
    shown.say("searching")
    shown.tick()
    time.sleep(0.3)
print("result")
"""


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def test_elsewhere_each_thing_is_said_once_and_again_while_it_lasts(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress() as shown:
        shown.say("searching")
        for _ in range(12):
            clock.now += 1.0
            shown.tick()
        shown.say("measuring")

    said = capsys.readouterr()
    assert said.err.splitlines() == [
        "[   0 s] searching",
        "[   5 s] searching, 5 s",
        "[  10 s] searching, 10 s",
        "[  12 s] measuring",
    ]
    assert said.out == ""


def test_on_a_terminal_one_line_changes_and_nothing_of_it_is_data(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    out = tmp_path / "out"
    with out.open("wb") as data:
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm"},
            stdout=data,
            stderr=theirs,
            timeout=30,
            check=True,
        )
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)

    assert "searching" in shown
    assert "\x1b[" in shown, "it is drawn over"
    assert out.read_text() == "result\n"
