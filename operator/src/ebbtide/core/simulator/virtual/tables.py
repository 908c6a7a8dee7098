"""Traces of pools as tables: what can be had, and what it costs, over time."""

from collections.abc import Collection
from typing import Final

import numpy as np

from ebbtide.core.models.table import Column, DataError, Floats, Table
from ebbtide.core.simulator.virtual.timing import Change

SECONDS: Final = Column(name="seconds", unit="s", open_below=False)
MOST_NODES: Final = 100_000
"""As CapacityPool has it: more is a number of something else."""


def read_availability(table: Table, pools: Collection[str]) -> dict[str, tuple[Change, ...]]:
    """
    Read how many nodes each pool gives from a table of `seconds` and one column for each pool.

    The first row is the moment at which the job is made; each holds until the next, the last for
    ever. Raises DataError.
    """
    seconds = _read_seconds(table)
    named = [name for name in table.cells if name != SECONDS.name]
    unknown = [name for name in named if name not in pools]
    if unknown:
        known = ", ".join(sorted(pools)) or "none"
        raise DataError(f"column {unknown[0]}: there is no such pool; pools are: {known}")
    if not named:
        raise DataError("there is no pool: one column of nodes for each is needed beside seconds")
    found = {}
    for name in named:
        column = Column(name=name, unit="", open_below=False, whole=True, most=MOST_NODES)
        found[name] = _changes(seconds, table.numbers(column))
    return found


def _read_seconds(table: Table) -> Floats:
    seconds = table.numbers(SECONDS)
    late = np.flatnonzero(np.diff(seconds) <= 0)
    if len(late):
        row = int(late[0]) + 1
        raise DataError(
            f"column {SECONDS.name}, row {table.rows[row]}: {seconds[row]:.10g} is not after "
            f"{seconds[row - 1]:.10g} of the row before; rows in the order of time are needed"
        )
    since_start: Floats = seconds - seconds[0]
    return since_start


def _changes(seconds: Floats, values: Floats) -> tuple[Change, ...]:
    """Leave out rows that change nothing."""
    is_new = np.concatenate([[True], np.diff(values) != 0])
    pairs = zip(seconds[is_new].tolist(), values[is_new].tolist(), strict=True)
    return tuple(Change(at_s=at_s, value=value) for at_s, value in pairs)
