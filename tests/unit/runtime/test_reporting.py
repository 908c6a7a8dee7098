"""Progress of what takes long: lines where somebody reads a log, a bar on a terminal."""

import io
import re
import sys

import pytest
from typing_extensions import override

from ebbtide.runtime.reporting import Progress


class Terminal(io.StringIO):
    @override
    def isatty(self) -> bool:
        return True


def test_a_line_per_interval_says_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("reading step-7", total=4_000_000_000, interval=0.0) as progress:
        progress.add(1_000_000_000)
        progress.add(1_000_000_000)

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert re.fullmatch(
        r"ebbtide: reading step-7: 2\.00 of 4\.00 GB, \d+ MB/s, about \d+ s to go", lines[1]
    )


def test_what_is_quick_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("reading", total=100) as progress:
        progress.reach(50)
        progress.reach(100)

    assert capsys.readouterr().out == ""


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")

    with Progress("reading step-7", total=4_000_000, interval=0.0) as progress:
        progress.add(1_000_000)
        progress.add(2_000_000)

    assert "ebbtide: reading step-7" in terminal.getvalue()
    assert "MB" in terminal.getvalue()
