"""Measured steps of one workload: read, checked, and gathered by placement and batch."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from ebbtide.core.models.iteration.layout import (
    PLACEMENT,
    Layout,
    read_placements,
    write_placement,
)
from ebbtide.core.models.table import (
    Column,
    DataError,
    Flags,
    Floats,
    Indices,
    Labels,
    Table,
    Texts,
    check,
)

WORKLOAD: Final = Column(name="workload", unit="text")
BATCH: Final = Column(name="local_batch", unit="samples", least=1e-3, most=1e9)
STEP: Final = Column(name="step_time_s", unit="s", least=1e-9, most=3600.0)
SYNC: Final = Column(name="sync_time_s", unit="s", open_below=False, most=3600.0, optional=True)
"""The part of the step in which a rank waits for others; the default does without."""
INPUTS: Final = (WORKLOAD, PLACEMENT, BATCH)

TOO_FAR: Final = 100.0
"""Steps of one workload and batch that are so many times apart are in different units."""
MOST_CELLS: Final = 1500
"""Of more placements and batches than these an even selection is taken: time is cubic in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A table of samples as arrays; rows that repeat another exactly are left out."""

    workload: Texts
    placements: list[tuple[int, ...]]
    batch: Floats
    seconds: Floats
    sync: Floats
    """NaN where it is not known."""

    def take(self, chosen: Indices) -> "Rows":
        """Return rows by their index."""
        return Rows(
            workload=self.workload[chosen],
            placements=[self.placements[index] for index in chosen],
            batch=self.batch[chosen],
            seconds=self.seconds[chosen],
            sync=self.sync[chosen],
        )

    def by_workload(self) -> dict[str, "Rows"]:
        """Split, in order of name."""
        names = sorted(set(self.workload.tolist()))
        return {name: self.take(np.flatnonzero(self.workload == name)) for name in names}

    @property
    def names(self) -> Texts:
        """Placements as text, nodes in rising order: the groups that are held out."""
        known = {counts: write_placement(counts) for counts in set(self.placements)}
        return np.array([known[counts] for counts in self.placements], dtype=object)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """Means over the runs of one workload at one placement and batch."""

    layout: Layout
    places: Texts
    batch: Floats
    log_seconds: Floats
    runs: Floats
    """How many runs each is the mean of."""
    members: Indices
    """The cell of each row; -1 for rows that were not selected."""


def read_samples(table: Table) -> Rows:
    """Read and check samples; raises DataError."""
    check(table, (*INPUTS, STEP))
    workload, batch = table.texts(WORKLOAD), table.numbers(BATCH)
    seconds, sync = table.numbers(STEP), table.numbers(SYNC)
    placements = read_placements(table)
    _check_sync(table.rows, seconds, sync)
    _check_units(table.rows, workload=workload, batch=batch, seconds=seconds)
    raw = table.texts(PLACEMENT)
    unique = dict.fromkeys(range(0))
    seen: set[tuple[object, ...]] = set()
    for index, key in enumerate(zip(workload, raw, batch, seconds, strict=True)):
        if key not in seen:
            seen.add(key)
            unique[index] = None
    rows = Rows(workload=workload, placements=placements, batch=batch, seconds=seconds, sync=sync)
    return rows.take(np.array(list(unique), dtype=np.intp))


def gather(rows: Rows) -> Cells:
    """Gather rows of one workload: the mean of logarithms at each placement and batch."""
    found: dict[tuple[tuple[int, ...], float], list[int]] = {}
    for index, key in enumerate(zip(rows.placements, rows.batch.tolist(), strict=True)):
        found.setdefault(key, []).append(index)
    keys = sorted(found, key=lambda key: (len(key[0]), key))
    keys = [keys[index] for index in _selection(keys)]
    logs = np.log(rows.seconds)
    members = np.full(len(rows.batch), -1)
    for cell, key in enumerate(keys):
        members[found[key]] = cell
    return Cells(
        layout=Layout.of([counts for counts, _ in keys]),
        places=np.array([write_placement(counts) for counts, _ in keys], dtype=object),
        batch=np.array([batch for _, batch in keys]),
        log_seconds=np.array([float(logs[found[key]].mean()) for key in keys]),
        runs=np.array([float(len(found[key])) for key in keys]),
        members=members,
    )


def _selection(keys: list[tuple[tuple[int, ...], float]]) -> Indices:
    if len(keys) <= MOST_CELLS:
        return np.arange(len(keys))
    alone = np.array([sum(counts) == 1 for counts, _ in keys])
    single, several = np.flatnonzero(alone), np.flatnonzero(~alone)
    parts = [
        part[np.linspace(0, len(part) - 1, min(len(part), room)).astype(np.intp)]
        for part, room in ((single, MOST_CELLS // 5), (several, MOST_CELLS * 4 // 5))
        if len(part)
    ]
    return np.concatenate(parts)


def _check_sync(labels: Labels, seconds: Floats, sync: Floats) -> None:
    with np.errstate(invalid="ignore"):
        wrong: Flags = sync >= seconds
    for index in np.flatnonzero(wrong):
        raise DataError(
            f"column sync_time_s, row {labels[index]}: {sync[index]:g} s is not below"
            f" step_time_s, {seconds[index]:g} s, of which it is a part"
        )


def _check_units(labels: Labels, *, workload: Texts, batch: Floats, seconds: Floats) -> None:
    """Refuse a step far off the middle of its workload and batch: most likely other units."""
    _, place = np.unique(
        np.array([f"{name}\0{size!r}" for name, size in zip(workload, batch, strict=True)]),
        return_inverse=True,
    )
    logs = np.log(seconds)
    order = np.lexsort((logs, place))
    starts = np.flatnonzero(np.r_[True, np.diff(place[order]) > 0])
    counts = np.diff(np.r_[starts, len(order)])
    middle = logs[order[starts + (counts - 1) // 2]][place]
    off = np.abs(logs - middle)
    worst = int(np.argmax(off))
    if off[worst] > np.log(TOO_FAR):
        raise DataError(
            f"column step_time_s, row {labels[worst]}: {seconds[worst]:g} s is"
            f" {np.exp(off[worst]):.0f} times off the middle of workload {workload[worst]} at"
            f" batch {batch[worst]:g}, {np.exp(middle[worst]):g} s: give all in seconds"
        )
