"""
The default: measured steps smoothed by a Gaussian process, and physics beyond what was measured.

Within the data the process rules, over a mean that is either the curve of one GPU or physics:
whichever predicts placements that were left out better. Beyond the data the answer is that of
the nearest measured corner, times what physics says changes from there. No answer is faster
than the same rank alone: speed grows at most in proportion to GPUs.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from ebbtide.core.models.forecast import BEYOND, Forecast, Json, Spread
from ebbtide.core.models.iteration.covariance import Points
from ebbtide.core.models.iteration.layout import Layout, Limits, read_placements
from ebbtide.core.models.iteration.physics import Physics
from ebbtide.core.models.iteration.process import Process
from ebbtide.core.models.iteration.samples import (
    BATCH,
    INPUTS,
    WORKLOAD,
)
from ebbtide.core.models.iteration.scales import Scales
from ebbtide.core.models.quality import Quality
from ebbtide.core.models.table import DataError, Flags, Floats, Table, check


class Mean(enum.Enum):
    """What a process is a deviation from."""

    CURVE = "curve"
    PHYSICS = "physics"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is known of one workload."""

    physics: Physics
    mean: Mean
    process: Process | None
    """None: physics alone."""
    scales: Scales
    """Of the process; of physics alone it takes where measurements repeat best."""
    limits: Limits
    least_batch: float
    most_batch: float
    spread: Spread
    """Of residuals in standard deviations, as exponentials."""

    def seconds(self, layout: Layout, batch: Floats) -> Floats:
        """Return step times."""
        found: Floats = np.exp(self.log_seconds(layout, batch))
        return found

    def log_seconds(self, layout: Layout, batch: Floats) -> Floats:
        """Return logarithms of step times; never below those of one GPU."""
        found = self._unbounded(layout, batch)
        single = self._unbounded(Layout.single(len(layout)), batch)
        return np.maximum(found, single)

    def _unbounded(self, layout: Layout, batch: Floats) -> Floats:
        outer = self.physics.log_seconds(layout, batch)
        if self.process is None:
            return outer
        near, size = layout.within(self.limits), np.clip(batch, self.least_batch, self.most_batch)
        found: Floats = (
            outer
            - self.physics.log_seconds(near, size)
            + log_mean(self.physics, self.mean, near, size)
            + self.process.at(Points(layout=near, batch=size, share=self.physics.share(near, size)))
        )
        return found

    def deviation(self, layout: Layout, batch: Floats) -> Floats:
        """Return the standard deviation of the logarithm of one measurement, before scaling."""
        near = layout.within(self.limits)
        size = np.clip(batch, self.least_batch, self.most_batch)
        return self.scales.deviation(self.physics.share(near, size))

    def exclude(self, layout: Layout, batch: Floats) -> Flags:
        """Tell which questions lie beyond the data."""
        outside: Flags = (batch < self.least_batch) | (batch > self.most_batch)
        return outside | self.limits.exclude(layout)

    def to_json(self) -> Json:
        """Return plain JSON."""
        return {
            "physics": self.physics.to_json(),
            "mean": self.mean.value,
            "process": self.process.to_json() if self.process is not None else None,
            "limits": self.limits.to_json(),
            "batches": [self.least_batch, self.most_batch],
            "spread": self.spread.to_json(),
        }

    @classmethod
    def from_json(cls, stored: Json, scales: Scales) -> Self:
        """Read what `to_json` wrote; scales are stored once for all workloads."""
        process = stored["process"]
        return cls(
            physics=Physics.from_json(stored["physics"]),
            mean=Mean(stored["mean"]),
            process=Process.from_json(process, scales) if process is not None else None,
            scales=scales,
            limits=Limits.from_json(stored["limits"]),
            least_batch=float(stored["batches"][0]),
            most_batch=float(stored["batches"][1]),
            spread=Spread.from_json(stored["spread"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """A fitted model of several workloads."""

    method: str
    quality: Quality
    scales: Scales
    workloads: Mapping[str, Workload]

    def predict(self, table: Table) -> Forecast:
        """Seconds of a step of each row."""
        return answer(table, self.workloads)

    def parameters(self) -> Json:
        """Return what `from_json` needs."""
        return {
            "scales": self.scales.to_json(),
            "workloads": {name: item.to_json() for name, item in self.workloads.items()},
        }


def read_steps(method: str, quality: Quality, stored: Json) -> Steps:
    """Read the parameters that `Steps` wrote."""
    scales = Scales.from_json(stored["scales"])
    workloads = {
        name: Workload.from_json(item, scales) for name, item in stored["workloads"].items()
    }
    return Steps(method=method, quality=quality, scales=scales, workloads=workloads)


class Fitted(Protocol):
    """What answers for one workload, whatever it was fitted by."""

    @property
    def spread(self) -> Spread:
        """Of residuals; taken to the power of `deviation`."""

    def seconds(self, layout: Layout, batch: Floats) -> Floats:
        """Return step times."""

    def deviation(self, layout: Layout, batch: Floats) -> Floats:
        """Return how much wider or narrower the spread is at each question."""

    def exclude(self, layout: Layout, batch: Floats) -> Flags:
        """Tell which questions lie beyond the data."""


def answer(table: Table, workloads: Mapping[str, Fitted]) -> Forecast:
    """Answer each row by its workload; raises DataError for an unknown one."""
    check(table, INPUTS)
    batch, layout = table.numbers(BATCH), Layout.of(read_placements(table))
    value, low, high = (np.empty(len(table)) for _ in range(3))
    beyond = np.zeros(len(table), dtype=np.bool_)
    for name, here in rows_of(table, workloads):
        item, where, size = workloads[name], layout.take(here), batch[here]
        outside = item.exclude(where, size)
        power = item.deviation(where, size) * np.where(outside, BEYOND, 1.0)
        value[here] = item.seconds(where, size)
        low[here] = value[here] * item.spread.low**power
        high[here] = value[here] * item.spread.high**power
        beyond[here] = outside
    return Forecast(value=value, low=low, high=high, beyond=beyond)


def rows_of(table: Table, known: Iterable[str]) -> list[tuple[str, Flags]]:
    """Return workloads with the rows that ask for them; raises DataError for an unknown one."""
    names = table.texts(WORKLOAD)
    found = sorted(set(names.tolist()))
    for name in found:
        if name not in known:
            row = table.rows[np.flatnonzero(names == name)[0]]
            raise DataError(
                f"column workload, row {row}: {name!r} was never measured;"
                f" known are {', '.join(sorted(known))}"
            )
    return [(name, names == name) for name in found]


def log_mean(physics: Physics, mean: Mean, layout: Layout, batch: Floats) -> Floats:
    """Return what a process is a deviation from."""
    if mean is Mean.PHYSICS:
        return physics.log_seconds(layout, batch)
    found: Floats = np.log(physics.compute.at(batch))
    return found
