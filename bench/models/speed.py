"""
How long fits and answers take: each method, on its full data set, on one core.

Seconds are those that the core works for this process: nothing here waits for anything but the
core, which others may use meanwhile. More threads would count more, not less.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from ebbtide.core.models.kinds import Kind
from ebbtide.core.models.table import Table
from models.full_data import SOURCES, Source, kind_of
from rows import Row

FIT_BAR_S: Final = 2.0
ASK_BAR_US: Final = 50.0
BATCH: Final = 10_000
TIMES: Final = 3
"""Each is timed so often, and the least counts: others use caches and memory too."""


def rows() -> list[Row]:
    """Time every method of every model."""
    return [row for name, source in SOURCES.items() for row in _rows_of(name, source)]


def _rows_of(name: str, source: Source) -> list[Row]:
    kind, table = kind_of(name), source.read()
    fits: dict[str, float] = {}
    asks: dict[str, float] = {}
    batch = _batch(kind, table)
    for method, fit in kind.methods.items():
        model = fit(table)  # what it needs is imported now
        fits[method] = _least(partial(fit, table))
        asks[method] = _least(partial(model.predict, batch)) / BATCH * 1e6
    return [
        _row(f"fit {kind.name}, {len(table)} rows", fits, unit="s", bar=FIT_BAR_S),
        _row(f"ask {kind.name}, {BATCH} rows at once", asks, unit="us/row", bar=ASK_BAR_US),
    ]


def _row(name: str, times: dict[str, float], *, unit: str, bar: float) -> Row:
    """The slowest method is judged; all are shown."""
    slowest = max(times, key=lambda method: times[method])
    return Row(f"{name} ({slowest})", times[slowest], unit, "lower", bar, times, of_machine=True)


def _batch(kind: Kind, table: Table) -> Table:
    """The rows that the model was fitted from, again and again, without what is asked for."""
    chosen = np.arange(BATCH) % len(table)
    names = [column.name for column in kind.inputs if table.has(column.name)]
    return Table({name: table.cells[name][chosen] for name in names}, np.arange(BATCH) + 2)


def _least(work: Callable[[], object]) -> float:
    times = []
    for _ in range(TIMES):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times)
