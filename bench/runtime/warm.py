"""
From nothing to the first step: a fork of a worker's warm PID 1, and the same script from cold.

Both run the very same script against a coordinator that stands. Cold is a fresh interpreter that
imports what it needs, as a worker does that another program starts.
"""

import statistics
import sys
import time
from collections.abc import Sequence
from typing import Final

from ebbtide.wire import names
from rows import Row
from runtime import bed, small
from support.nursery import Nursery
from support.processes import Gone, Job

ROUNDS: Final = 5
FORKS_EACH: Final = 4
BAR_RATIO: Final = 60.0


def rows() -> list[Row]:
    """Start cold and warm, in turn."""
    cold: list[float] = []
    warm: list[float] = []
    with bed.open_nursery() as nursery:
        for _ in range(ROUNDS):
            cold.append(start_cold(nursery))
            warm += [start_warm(nursery) for _ in range(FORKS_EACH)]
    return rows_of(cold, warm)


def rows_of(cold: Sequence[float], warm: Sequence[float]) -> list[Row]:
    """Judge what was measured, in seconds."""
    mine, theirs = statistics.median(warm) * 1000, statistics.median(cold) * 1000
    return [
        Row("warm start to first step, times cold", theirs / mine, "x", "higher", BAR_RATIO),
        Row("... median", mine, "ms", "lower", peers={"cold": theirs}),
        Row("... quickest", min(warm) * 1000, "ms", "lower", peers={"cold": min(cold) * 1000}),
    ]


def start_warm(nursery: Nursery) -> float:
    """Fork a worker; return the seconds to its first step."""
    with bed.open_job(nursery, members=1) as job:
        bed.await_some(lambda: _answers(job), "coordinator")
        begun = time.monotonic()
        bed.start_worker(job, 0)
        return _first_step(job) - begun


def start_cold(nursery: Nursery) -> float:
    """Start the script in a fresh interpreter; return the seconds to its first step."""
    with bed.open_job(nursery, members=1) as job:
        bed.await_some(lambda: _answers(job), "coordinator")
        words = [sys.executable, str(bed.OURS)]
        environment = {**job.environment_of(0), names.ENV_LOCAL_RANK: "0"}
        begun = time.monotonic()
        with bed.running(words, folder=job.folder, environment=environment):
            return _first_step(job) - begun


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
