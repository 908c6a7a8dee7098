"""Availability of zones as a table: time and, zone by zone, how many nodes can be had."""

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from ebbtide.core.models.table import Column, DataError, Floats, Table
from ebbtide.core.planner.policies.history import History

SECONDS: Final = Column(name="seconds", unit="s", open_below=False)
TOLERANCE: Final = 0.1
"""By which part of a tick probes may be late; beyond that a row is missing or stands twice."""


def read_history(table: Table, *, nodes: int = 1) -> History:
    """
    Read zones from a table with a column `seconds` and one of nodes for each zone.

    A zone is up where a job's number of nodes can be had. Times are since any midnight UTC and on
    a grid. Raises DataError.
    """
    zones = tuple(name for name in table.cells if name != SECONDS.name)
    seconds = table.numbers(SECONDS)
    if not zones:
        raise DataError("there is no zone: one column of nodes for each is needed beside seconds")
    tick_s = _tick(table, seconds)
    counts = [
        table.numbers(Column(name=zone, unit="", open_below=False, whole=True)) for zone in zones
    ]
    return History(
        zones=zones, up=np.column_stack(counts) >= nodes, tick_s=tick_s, start_s=float(seconds[0])
    )


def _tick(table: Table, seconds: Floats) -> float:
    if len(seconds) < 2:  # noqa: PLR2004 -- a tick lies between two rows
        raise DataError(f"column seconds: {len(seconds)} rows, at least 2 are needed for a tick")
    apart = np.diff(seconds)
    tick_s = float(np.median(apart))
    if tick_s < 1:
        raise DataError(f"{_place(table, seconds, int(np.argmin(apart)))}: at least 1 s is needed")
    wrong = np.flatnonzero(np.abs(apart - tick_s) > TOLERANCE * tick_s)
    if len(wrong):
        place = _place(table, seconds, int(wrong[0]))
        raise DataError(f"{place}, most are {tick_s:g} s apart: rows on one grid are needed")
    return tick_s


def _place(table: Table, seconds: Floats, before: int) -> str:
    row, value = table.rows[before + 1], seconds[before + 1]
    apart = value - seconds[before]
    return f"column seconds, row {row}: {value:.10g} is {apart:g} s after the row before"


def zone_sets(text: str, zones: Sequence[str]) -> list[tuple[int, ...]]:
    """Read "a,b;c" as sets of zones by number; raises DataError."""
    found = []
    for part in text.split(";"):
        names = [name.strip() for name in re.split(r"\s*,\s*", part.strip())]
        for name in names:
            if name not in zones:
                raise DataError(
                    f"zone {name!r}: there is no such column; zones are: {', '.join(zones)}"
                )
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise DataError(f"zone {twice[0]!r} stands twice in {part.strip()!r}; once is right")
        found.append(tuple(zones.index(name) for name in names))
    return found
