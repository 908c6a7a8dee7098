"""
How much of the time is kept for training while members are killed, one after the other.

Two members and a spare; every half minute one member's process is killed, its PID 1 survives to
tell how it ended, and the next attempt of that worker comes as the new spare. What is lost is the
time from each kill to the next step.
"""

import random
import sys
import time
from collections.abc import Sequence
from typing import Final

from rows import Row
from runtime import bed, recovery
from support.nursery import Nursery

WHOLE_S: Final = 600.0
EVERY_S: Final = 30.0
BAR: Final = 0.95


def rows() -> list[Row]:
    """Train for ten minutes."""
    with bed.open_nursery() as nursery:
        wall, lost = train(nursery, seconds=WHOLE_S, every=EVERY_S, chance=random.Random(3))
    return rows_of(wall, lost)


def rows_of(wall: float, lost: Sequence[float]) -> list[Row]:
    """Judge what was measured: seconds in all, and from each kill to the next step."""
    kept = 1 - sum(lost) / wall
    return [
        Row("training time kept under kills", kept, "of the time", "higher", BAR),
        Row("... members killed", len(lost), "", "higher", wall // EVERY_S - 1),
        Row("... slowest kill to next step", max(lost) * 1000, "ms", "lower"),
    ]


def train(
    nursery: Nursery, *, seconds: float, every: float, chance: random.Random
) -> tuple[float, list[float]]:
    """Train so long, with a kill every so often; return the time in all and what each kill cost."""
    lost: list[float] = []
    with bed.open_job(nursery, members=2) as job:
        run = recovery.Run(job, spares=1)
        run.await_whole()
        began = time.monotonic()
        while (due := began + (len(lost) + 0.5) * every) < began + seconds:
            time.sleep(max(0.0, due - time.monotonic()))
            lost.append(run.kill_member(chance).next_step)
            print(f" {lost[-1] * 1000:.0f}", end="", flush=True, file=sys.stderr)
        time.sleep(max(0.0, began + seconds - time.monotonic()))
        return time.monotonic() - began, lost
