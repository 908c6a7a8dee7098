"""Samples of step times: checked, and the rows of one set-up made one point."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ebbtide.core.models.step_time.setups import FLOPS, STEP_TIME, TENSORS, Setups, read_setups
from ebbtide.core.models.step_time.units import check_units
from ebbtide.core.models.table import Column, DataError, Flags, Floats, Table, Texts

SAME: Final = 0.05
"""By how much the rows of one workload may differ in FLOPs or tensors."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Points:
    """Each GPU type, workload and batch once, with the mean of its step times."""

    gpu: Texts
    workload: Texts
    flops: Floats
    tensors: Floats
    batch: Floats
    """1 where none is given."""
    seconds: Floats
    noise: Floats
    """Log residuals of repeats, each from the mean of the others of its point."""

    def __len__(self) -> int:
        return len(self.gpu)

    @property
    def work(self) -> Floats:
        """FLOPs of one step."""
        return self.flops * self.batch

    @property
    def weight(self) -> Floats:
        """Weights that make each workload count once on each GPU type, however many batches."""
        pairs = list(zip(self.gpu.tolist(), self.workload.tolist(), strict=True))
        count = dict.fromkeys(pairs, 0)
        for pair in pairs:
            count[pair] += 1
        return np.array([1 / count[pair] for pair in pairs])

    def take(self, chosen: Flags) -> "Points":
        """Return the points of a mask."""
        return Points(
            gpu=self.gpu[chosen],
            workload=self.workload[chosen],
            flops=self.flops[chosen],
            tensors=self.tensors[chosen],
            batch=self.batch[chosen],
            seconds=self.seconds[chosen],
            noise=self.noise,
        )


def read_samples(table: Table) -> tuple[Setups, Floats]:
    """Read set-ups and their seconds; raises DataError, also for mixed units."""
    setups = read_setups(table)
    seconds = table.numbers(STEP_TIME)
    check_units(setups, seconds)
    for workload in dict.fromkeys(setups.workload.tolist()):
        here = setups.workload == workload
        for column, values in ((FLOPS, setups.flops), (TENSORS, setups.tensors)):
            _check_same(setups, column, values, here & np.isfinite(values))
    return _filled(setups), seconds


def merge(setups: Setups, seconds: Floats) -> Points:
    """Make one point of the rows of each GPU type, workload and batch."""
    batch = np.where(np.isnan(setups.batch), 1.0, setups.batch)
    keys = zip(setups.gpu.tolist(), setups.workload.tolist(), batch.tolist(), strict=True)
    places: dict[tuple[str, str, float], list[int]] = {}
    for index, key in enumerate(keys):
        places.setdefault(key, []).append(index)
    gpu, workload, batches = zip(*places, strict=True)
    first = np.array([found[0] for found in places.values()], dtype=np.intp)
    # a row that was written twice is no proof that the time is always the same
    noise = [_repeats(np.unique(seconds[found])) for found in places.values()]
    return Points(
        gpu=np.array(gpu, dtype=object),
        workload=np.array(workload, dtype=object),
        flops=setups.flops[first],
        tensors=setups.tensors[first],
        batch=np.array(batches),
        seconds=np.array([seconds[found].mean() for found in places.values()]),
        noise=np.concatenate(noise),
    )


def _repeats(seconds: Floats) -> Floats:
    number = len(seconds)
    if number == 1:
        return np.zeros(0)
    others: Floats = (seconds.sum() - seconds) / (number - 1)
    return np.log(seconds / others)


def _filled(setups: Setups) -> Setups:
    """Give each row what another row of its workload says, where it says nothing itself."""
    return replace(
        setups,
        flops=_of_workload(setups, setups.flops),
        params=_of_workload(setups, setups.params),
        tensors=_of_workload(setups, setups.tensors),
    )


def _of_workload(setups: Setups, values: Floats) -> Floats:
    names = setups.workload.tolist()
    known = {
        name: value
        for name, value in zip(reversed(names), reversed(values.tolist()), strict=True)
        if np.isfinite(value)
    }
    absent = np.isnan(values)
    return np.where(absent, np.array([known.get(name, np.nan) for name in names]), values)


def _check_same(setups: Setups, column: Column, values: Floats, chosen: Flags) -> None:
    found = np.flatnonzero(chosen)
    if not len(found):
        return
    first = values[found[0]]
    for index in found[np.abs(values[found] / first - 1) > SAME]:
        raise DataError(
            f"column {column.name}, row {setups.rows[index]}: {values[index]:g}, but row "
            f"{setups.rows[found[0]]} says {first:g} of workload {setups.workload[index]}: one "
            "workload has one value; give a changed one another name"
        )
