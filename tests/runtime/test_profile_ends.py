"""`ebbtide profile` takes its script along, however it ends, and shows nothing that steers."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.processes import await_that

ENDLESS = """
import os, pathlib, signal, sys
told = pathlib.Path(sys.argv[1])
told.with_suffix(".new").write_text(str(os.getpid()))
told.with_suffix(".new").rename(told)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    signal.pause()
"""
STEERING = r"""
import sys
sys.stdout.write("first\n\x1b[2J\x1b]0;mine\x07 caf\u00e9\tend\n")
sys.exit(3)
"""


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    home = folder / "home"
    home.mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "ebbtide.cli", "profile", "--", "python", *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.timeout(90)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_the_script_ends_with_the_command(tmp_path: Path, number: signal.Signals) -> None:
    script, told = tmp_path / "endless.py", tmp_path / "told"
    script.write_text(ENDLESS)
    with start(tmp_path, str(script), str(told)) as command:
        await_that(told.exists, "script")

        command.send_signal(number)
        command.communicate(timeout=30)

        await_that(lambda: not is_running(int(told.read_text())), "end of the script")
        assert command.returncode != 0
        await_that(lambda: not list((tmp_path / "home").iterdir()), "end of the folder")


@pytest.mark.timeout(60)
def test_what_would_steer_a_terminal_is_written_out(tmp_path: Path) -> None:
    script = tmp_path / "steering.py"
    script.write_text(STEERING)

    with start(tmp_path, str(script)) as command:
        _, said = command.communicate(timeout=50)

    assert command.returncode == 1
    assert "  first\n" in said
    assert r"  \x1b[2J\x1b]0;mine\x07 caf" in said
    assert "\x1b" not in said
