"""The first process of a worker: signals, exit codes, the script as Python would run it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ebbtide.wire import names

TRAINER = """
import signal, sys, time, pathlib
def leave(number, frame):
    pathlib.Path(sys.argv[1] + "/saved").write_text("saved")
    sys.exit(82)
signal.signal(signal.SIGTERM, leave)
pathlib.Path(sys.argv[1] + "/ready").write_text("ready")
while True:
    time.sleep(0.05)
"""
LIMIT = 55


def environment(**extra: str) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        names.ENV_JOB: "tests/first",
        names.ENV_WORKER: "first-worker-0-1",
        names.ENV_INDEX: "0",
        names.ENV_ADDRESS: "127.0.0.1",
        names.ENV_COORDINATOR: "127.0.0.1:9",
        names.ENV_CHECKPOINT_PATH: "/nowhere",
        **extra,
    }


def start(*command: str, **extra: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ebbtide.runtime.worker", *command],
        env=environment(**extra),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(*command: str, **extra: str) -> tuple[int, str]:
    with start(*command, **extra) as process:
        said, _ = process.communicate(timeout=LIMIT)
        return process.returncode, said


def await_file(path: Path) -> None:
    until = time.monotonic() + LIMIT
    while not path.exists():
        assert time.monotonic() < until, f"{path} did not appear"
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("script", "code"),
    [
        pytest.param("exit 0", 0, id="done"),
        pytest.param("exit 7", 7, id="failed"),
        pytest.param("exit 82", 82, id="left"),
        pytest.param("kill -9 $$", 137, id="killed"),
    ],
)
def test_ends_with_the_commands_own_code(script: str, code: int) -> None:
    assert run("--", "sh", "-c", script)[0] == code


def test_says_that_another_program_has_no_warm_start() -> None:
    _, said = run("--", "sh", "-c", "exit 0")

    assert "sh is not this Python interpreter" in said


def test_says_what_is_wrong_with_the_environment() -> None:
    code, said = run("--", "true", **{names.ENV_INDEX: "one", names.ENV_COORDINATOR: ""})

    assert code == 64
    assert "EBBTIDE_INDEX is 'one'" in said
    assert "EBBTIDE_COORDINATOR is not set" in said


@pytest.mark.parametrize("command", [(), ("--",), ("python", "x.py")])
def test_refuses_what_is_no_command(command: tuple[str, ...]) -> None:
    code, said = run(*command)

    assert code == 64
    assert "usage:" in said


def test_says_which_script_is_missing() -> None:
    code, said = run("--", "python", "missing.py")

    assert code == 64
    assert "there is no missing.py in" in said


def test_a_program_that_is_not_there_ends_with_127() -> None:
    code, said = run("--", "no-such-program")

    assert code == 127
    assert "no-such-program: not found" in said


@pytest.mark.parametrize("shape", ["list", "shell", "background"])
def test_sigterm_reaches_the_trainer_however_it_was_started(shape: str, tmp_path: Path) -> None:
    """B058: a shell between the container's first process and the trainer passes nothing on."""
    trainer = tmp_path / "trainer.py"
    trainer.write_text(TRAINER)
    line = f"{sys.executable} {trainer} {tmp_path}"
    command = {
        "list": ["env", sys.executable, str(trainer), str(tmp_path)],
        "shell": ["sh", "-c", f"{line}; exit $?"],
        "background": ["sh", "-c", f"{line} &"],
    }[shape]

    with start("--", *command) as process:
        await_file(tmp_path / "ready")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT)

    assert (tmp_path / "saved").exists()
    assert process.returncode == 82


def test_a_trainer_that_catches_nothing_counts_as_left_when_it_was_told_to_go(
    tmp_path: Path,
) -> None:
    with start("--", "sh", "-c", f"touch {tmp_path}/ready; sleep 60") as process:
        await_file(tmp_path / "ready")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT)

    assert process.returncode == 82


def test_one_dead_process_ends_the_others_of_its_worker(tmp_path: Path) -> None:
    script = 'if [ "$EBBTIDE_LOCAL_RANK" = 1 ]; then exit 9; fi; sleep 300'
    began = time.monotonic()

    code, said = run("--", "sh", "-c", script, **{names.ENV_PROCESSES: "3"})

    assert code == 9
    assert "ending the others" in said
    assert time.monotonic() - began < LIMIT


def test_a_script_runs_in_the_fork_as_python_would_run_it(tmp_path: Path) -> None:
    script = tmp_path / "shown.py"
    script.write_text(
        "import json, os, sys, torch\n"
        "print(json.dumps([__name__, sys.argv, sys.path[0], os.environ['EBBTIDE_LOCAL_RANK'],\n"
        "                  '__main__' in sys.modules, torch.get_num_threads()]))\n"
        "sys.exit(5)\n"
    )

    code, said = run("--", "python", "-u", str(script), "--x", "1", OMP_NUM_THREADS="1")

    shown = json.loads(next(line for line in said.splitlines() if line.startswith("[")))
    assert code == 5
    assert shown == ["__main__", [str(script), "--x", "1"], str(tmp_path), "0", True, 1]


def test_a_module_runs_in_the_fork_and_an_error_is_shown(tmp_path: Path) -> None:
    (tmp_path / "trainer_module.py").write_text("raise ValueError('no data')\n")
    path = os.pathsep.join([str(tmp_path), *sys.path])

    code, said = run("--", "python", "-m", "trainer_module", PYTHONPATH=path)

    assert code == 1
    assert "ValueError: no data" in said
