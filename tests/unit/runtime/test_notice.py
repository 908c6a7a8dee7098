"""SIGTERM is noticed in whatever the main thread is stuck, and the end comes in time."""

import signal
import subprocess
import sys
import time

PROGRAM = """
import sys, time
from ebbtide.runtime.notice import Notice
told = []
def hear(reason, seconds):
    now = time.monotonic()
    print("told", reason, seconds, flush=True)
    told.append(now + seconds)  # last: from here on the program may end
Notice(seconds={seconds}, on_signal=hear, deadline=lambda: told[0] if told else None).start()
print("ready", flush=True)
{body}
"""


def start(body: str, *, seconds: float) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(body=body, seconds=seconds)],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": ":".join(sys.path)},
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_a_process_stuck_in_c_is_told_and_ends_with_82_within_the_notice() -> None:
    with start("import time; time.sleep(60)", seconds=1.0) as process:
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=20)

    assert process.returncode == 82
    assert said.startswith("told SIGTERM 1.0\n")
    assert "leaving at once: the notice is used up" in said
    assert time.monotonic() - began < 5


def test_a_second_signal_changes_nothing() -> None:
    with start("import time; time.sleep(60)", seconds=1.0) as process:
        for _ in range(3):
            process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=20)

    assert process.returncode == 82
    assert said.count("told") == 1


def test_the_scripts_own_handler_still_runs() -> None:
    body = "while not told: time.sleep(0.01)\nos.write(1, b'back ')"
    handler = "import os, signal; signal.signal(signal.SIGTERM, lambda *_: os.write(1, b'mine '))\n"
    program = handler + PROGRAM.format(body=body, seconds=30.0)

    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": ":".join(sys.path)},
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=20)

    assert process.returncode == 0
    assert sorted(said.split()) == ["30.0", "SIGTERM", "back", "mine", "told"]
