"""
From nothing to the first step: a fork of a worker's warm PID 1, and the same script from cold.

Both run the very same script against a coordinator that stands. Cold is a fresh interpreter that
imports what it needs, as a worker does that another program starts.
"""

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from ebbtide.wire import names
from rows import Row
from runtime import bed, small
from support.nursery import Nursery
from support.processes import Gone, Job

ROUNDS: Final = 5
FORKS_EACH: Final = 4
BAR_RATIO: Final = 60.0
_PARENT: Final = Path(__file__).parent / "warm_parent.py"


def rows() -> list[Row]:
    """Start cold and warm, in turn."""
    cold: list[float] = []
    warm: list[float] = []
    with bed.open_nursery() as nursery, open_parent() as parent:
        for _ in range(ROUNDS):
            cold.append(start_cold(nursery))
            warm += [start_warm(nursery, parent) for _ in range(FORKS_EACH)]
    return rows_of(cold, warm)


def rows_of(cold: Sequence[float], warm: Sequence[float]) -> list[Row]:
    """Judge what was measured, in seconds."""
    mine, theirs = statistics.median(warm) * 1000, statistics.median(cold) * 1000
    return [
        Row("warm start to first step, times cold", theirs / mine, "x", "higher", BAR_RATIO),
        Row("... median", mine, "ms", "lower", peers={"cold": theirs}),
        Row("... quickest", min(warm) * 1000, "ms", "lower", peers={"cold": min(cold) * 1000}),
    ]


@contextlib.contextmanager
def open_parent() -> Iterator["subprocess.Popen[str]"]:
    """Give a PID 1 that has imported all."""
    words = [sys.executable, str(_PARENT), str(bed.OURS)]
    path = os.pathsep.join(sys.path)
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "OMP_NUM_THREADS": "1",
        names.ENV_ALLOCATOR: names.HUGE_PAGES,  # as in every worker's container
    }
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as parent:
        _hear(parent)
        try:
            yield parent
        finally:
            parent.kill()


def start_warm(nursery: Nursery, parent: "subprocess.Popen[str]") -> float:
    """Let the PID 1 fork a rank; return the seconds from the fork to its first step."""
    with bed.open_job(nursery, members=1) as job:
        bed.await_some(lambda: _answers(job), "coordinator")
        if parent.stdin is None:
            raise RuntimeError("the parent hears nothing")
        parent.stdin.write(json.dumps({"HOME": str(job.folder), **_environment(job)}) + "\n")
        parent.stdin.flush()
        begun, pid = _hear(parent).split()
        try:
            return _first_step(job) - float(begun)
        finally:
            os.kill(int(pid), signal.SIGKILL)


def start_cold(nursery: Nursery) -> float:
    """Start the script in a fresh interpreter; return the seconds to its first step."""
    with bed.open_job(nursery, members=1) as job:
        bed.await_some(lambda: _answers(job), "coordinator")
        words = [sys.executable, str(bed.OURS)]
        begun = time.monotonic()
        with bed.running(words, folder=job.folder, environment=_environment(job)):
            return _first_step(job) - begun


def _environment(job: Job) -> dict[str, str]:
    """Return what a rank finds, both ways; a step takes no time but its own."""
    return {
        **job.environment_of(0),
        names.ENV_LOCAL_RANK: "0",
        small.ENV_MARKS: str(bed.marks_of(job.folder)),
        small.ENV_COMPUTE: "0",
    }


def _hear(parent: "subprocess.Popen[str]") -> str:
    line = parent.stdout.readline() if parent.stdout else ""
    if not line:
        raise RuntimeError(f"the parent ended with {parent.poll()}")
    return line


def _answers(job: Job) -> bool | None:
    try:
        job.report()
    except Gone:
        return None
    return True


def _first_step(job: Job) -> float:
    """Wait for the first step of any process; return when it was."""

    def look() -> small.Mark | None:
        return next(iter(small.read_marks(bed.marks_of(job.folder))), None)

    return bed.await_some(look, "first step").at
