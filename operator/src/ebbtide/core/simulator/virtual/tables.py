"""Traces of pools as tables: what can be had, and what it costs, over time."""

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np

from ebbtide.core.models.table import Column, DataError, Floats, Table
from ebbtide.core.simulator.events import ADD, NOTICE, list_events
from ebbtide.core.simulator.prices import list_prices
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


def read_node_events(table: Table) -> tuple[Change, ...]:
    """
    Read how many nodes one pool gives from `seconds`, `event` and `node`.

    The first event is the moment at which the job is made. A node under notice is taken with
    notice; one that is removed without, without. Raises DataError.
    """
    start_s, without_notice = first_second(table), set[str]()
    found: list[Change] = []
    for event in list_events(table):
        before = len(without_notice)
        (without_notice.add if event.kind == ADD else without_notice.discard)(event.node)
        if len(without_notice) != before:
            found.append(
                Change(
                    at_s=event.at_s - start_s,
                    value=len(without_notice),
                    warned=event.kind == NOTICE,
                )
            )
    return tuple(found)


def read_pool_prices(
    table: Table, pools: Sequence[str], *, start_s: float
) -> dict[str, tuple[Change, ...]]:
    """
    Read what a node of each pool costs from `seconds`, `zone` (the pool) and `price`, in USD/h.

    Before its first row a pool costs what it says itself. Raises DataError.
    """
    return {
        pool: tuple(Change(at_s=max(at_s, 0.0), value=usd) for at_s, usd in known)
        for pool, known in list_prices(table, pools, start_s=start_s).items()
        if known
    }


def first_second(table: Table) -> float:
    """Return the moment at which a trace begins."""
    return float(table.numbers(SECONDS)[0])


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
