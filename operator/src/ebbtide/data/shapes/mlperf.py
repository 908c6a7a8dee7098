"""
Minutes to train of MLPerf Training, one row for each run.

`read` takes `round,submitter,system,benchmark,n_nodes,...,minutes_to_train,status`. A benchmark
counts by the median of its runs that were not aborted. The global batch changes with the scale,
so speed-ups are those of training, not of a step.
"""

import csv
import io
from dataclasses import dataclass
from statistics import median

DONE = "success"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """All runs of one submission of one benchmark."""

    submitter: str
    system: str
    benchmark: str
    accelerators: int
    global_batch: int
    minutes: float
    """The median of its runs."""
    runs: int


def read(text: str) -> list[Scale]:
    """Read submissions in order of their first run; aborted runs are left out."""
    minutes: dict[tuple[str, str, str, int, int], list[float]] = {}
    for row in csv.DictReader(io.StringIO(text)):
        if row["status"] != DONE or not row["accel_total"]:
            continue
        key = (
            row["submitter"],
            row["system"],
            row["benchmark"],
            int(row["accel_total"]),
            int(row["global_batch_size"]),
        )
        minutes.setdefault(key, []).append(float(row["minutes_to_train"]))
    return [
        Scale(
            submitter=submitter,
            system=system,
            benchmark=benchmark,
            accelerators=accelerators,
            global_batch=batch,
            minutes=median(times),
            runs=len(times),
        )
        for (submitter, system, benchmark, accelerators, batch), times in minutes.items()
    ]
