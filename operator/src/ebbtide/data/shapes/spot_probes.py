"""
Probes of spot capacity on AWS (the SkyPilot authors, NSDI 2024): 1 says that there was NONE.

A probe tries to start one node and takes it back at once, so it tells capacity and not how long a
node lives.
"""

import csv
import io
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import numpy as np

from ebbtide.core.models.table import DataError
from ebbtide.core.planner.policies.history import History

PING_TICK_S: Final = 600.0
CODES: Final = {"0": True, "1": False}
"""What a cell says -> whether a node could be had."""


def read_ping(text: str, *, zone: str, num_ticks: int | None = None) -> History:
    """Read the probes of one zone, `tick,time_utc,unavailable`, ten minutes apart."""
    header, *rows = _rows(text)
    if header != ["tick", "time_utc", "unavailable"]:
        raise DataError(f"columns {','.join(header)}: tick,time_utc,unavailable are needed")
    rows = rows[:num_ticks]
    start = datetime.fromisoformat(rows[0][1]).timestamp()
    up = _availability([row[2:] for row in rows])
    return History(zones=(zone,), up=up, tick_s=PING_TICK_S, start_s=start)


def read_zones(text: str) -> History:
    """Read the probes of several zones: `epoch_s` and a column for each."""
    header, *rows = _rows(text)
    if header[0] != "epoch_s" or len(header) == 1:
        raise DataError(f"columns {','.join(header)}: epoch_s and one for each zone are needed")
    seconds = np.array([float(row[0]) for row in rows])
    apart = np.diff(seconds)
    if len(apart) == 0 or (apart != apart[0]).any():
        raise DataError("column epoch_s: rows at equal distance are needed")
    up = _availability([row[1:] for row in rows])
    return History(
        zones=tuple(header[1:]), up=up, tick_s=float(apart[0]), start_s=float(seconds[0])
    )


def _availability(
    cells: Sequence[Sequence[str]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    for number, row in enumerate(cells, start=2):
        for cell in row:
            if cell not in CODES:
                raise DataError(f"row {number}: {cell!r} is neither 0 (there is spot) nor 1 (none)")
    return np.array([[CODES[cell] for cell in row] for row in cells], dtype=np.bool_)


def _rows(text: str) -> list[list[str]]:
    rows = [row for row in csv.reader(io.StringIO(text)) if row]
    if len(rows) < 2:  # noqa: PLR2004 -- a header and one row
        raise DataError("a header and at least one row are needed")
    return rows
