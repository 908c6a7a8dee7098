"""
Step time from physics: what one GPU computes, and what it takes to agree on the gradients.

T = (C^g + N^g)^(1/g): C is the compute time by local batch, N the time of synchronisation, and g
says how much they overlap (1: not at all). N is a constant and a slope in GPUs, one pair within
a node and one between nodes. The form is that of Qiao et al. 2021, OSDI, 1-18 (Pollux).
"""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from ebbtide.core.models.batch_curve import Curve, fit_line, merge
from ebbtide.core.models.forecast import Json
from ebbtide.core.models.iteration.layout import Layout
from ebbtide.core.models.table import Flags, Floats

LOCAL: Final = (0.05, 0.005)
"""Where nothing within a node was measured: synchronisation as shares of a typical step time,
a constant and a slope for each GPU after the second."""
BETWEEN: Final = (0.25, 0.02)
"""The same between nodes: cloud networks are some five times slower than links in a node."""
CERTAINTY: Final = 0.05
"""How strongly those are believed: a row of measurements weighs 1."""
OUTLIER: Final = 0.1
"""Residuals of more than 10 % count linearly, not squared."""
MOST_OVERLAP: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """Seconds of a step on one GPU: measured batches, and a line beyond them."""

    batches: tuple[float, ...]
    """Rising."""
    seconds: tuple[float, ...]
    line: Curve

    @classmethod
    def of(cls, batch: Floats, seconds: Floats) -> Self:
        """Take means at each batch; between them times are interpolated."""
        batches, means = merge(batch, seconds)
        return cls(
            batches=tuple(batches.tolist()),
            seconds=tuple(means.tolist()),
            line=fit_line(batches, means),
        )

    def at(self, batch: Floats) -> Floats:
        """Return seconds; beyond the batches measured they follow the line in proportion."""
        inside = np.clip(batch, self.batches[0], self.batches[-1])
        found: Floats = np.interp(inside, self.batches, self.seconds)
        return found * self.line.at(batch) / self.line.at(inside)

    def to_json(self) -> Json:
        """Return plain JSON."""
        return {
            "batches": list(self.batches),
            "seconds": list(self.seconds),
            "line": self.line.to_json(),
        }

    @classmethod
    def from_json(cls, stored: Json) -> Self:
        """Read what `to_json` wrote."""
        return cls(
            batches=tuple(map(float, stored["batches"])),
            seconds=tuple(map(float, stored["seconds"])),
            line=Curve.from_json(stored["line"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Physics:
    """Parameters of one workload."""

    compute: Compute
    local: tuple[float, float]
    """Seconds of synchronisation within a node: with two GPUs, and for each more."""
    between: tuple[float, float]
    """The same between nodes."""
    overlap: float

    def log_seconds(self, layout: Layout, batch: Floats) -> Floats:
        """Return logarithms of step times."""
        log_compute = np.log(self.compute.at(batch))
        return _join(log_compute, self._log_sync(layout), self.overlap)

    def share(self, layout: Layout, batch: Floats) -> Floats:
        """Return which part of the step does not go to computing, from 0 to 1."""
        spare = np.log(self.compute.at(batch)) - self.log_seconds(layout, batch)
        result: Floats = 1 - np.exp(np.minimum(spare, 0.0))
        return result

    def _log_sync(self, layout: Layout) -> Floats:
        return _log_sync(layout, np.log(np.array([*self.local, *self.between])))

    def to_json(self) -> Json:
        """Return plain JSON."""
        return {
            "compute": self.compute.to_json(),
            "local": list(self.local),
            "between": list(self.between),
            "overlap": self.overlap,
        }

    @classmethod
    def from_json(cls, stored: Json) -> Self:
        """Read what `to_json` wrote."""
        return cls(
            compute=Compute.from_json(stored["compute"]),
            local=(float(stored["local"][0]), float(stored["local"][1])),
            between=(float(stored["between"][0]), float(stored["between"][1])),
            overlap=float(stored["overlap"]),
        )


def fit_physics(compute: Compute, layout: Layout, batch: Floats, seconds: Floats) -> Physics:
    """Fit synchronisation and overlap to step times of any placements."""
    typical = float(np.median(seconds))
    start = np.log([*(typical * np.array(LOCAL)), *(typical * np.array(BETWEEN)), 1.0])
    measured = ~layout.alone
    if measured.any():
        start = _search(
            start,
            log_compute=np.log(compute.at(batch[measured])),
            layout=layout.take(measured),
            log_seconds=np.log(seconds[measured]),
        )
    times = np.exp(start[:4]).tolist()
    return Physics(
        compute=compute,
        local=(times[0], times[1]),
        between=(times[2], times[3]),
        overlap=_overlap(start[4]),
    )


def _search(start: Floats, *, log_compute: Floats, layout: Layout, log_seconds: Floats) -> Floats:
    from scipy.optimize import least_squares  # noqa: PLC0415 -- loads only where a fit needs it

    def residuals(logs: Floats) -> Floats:
        found = _join(log_compute, _log_sync(layout, logs[:4]), _overlap(logs[4]))
        return np.concatenate([found - log_seconds, CERTAINTY * (logs - start)])

    limits = (start - np.log(1e4), start + np.log(1e4))
    found: Floats = least_squares(
        residuals, start, bounds=limits, loss="soft_l1", f_scale=OUTLIER
    ).x
    return found


def _overlap(log_excess: float) -> float:
    return float(1 + np.minimum(np.exp(log_excess), MOST_OVERLAP - 1))


def _log_sync(layout: Layout, logs: Floats) -> Floats:
    more = np.maximum(layout.gpus - 2, 0.0)
    local = np.exp(logs[0]) + np.exp(logs[1]) * more
    between = np.exp(logs[2]) + np.exp(logs[3]) * more
    alone: Flags = layout.alone
    with np.errstate(divide="ignore"):
        result: Floats = np.where(alone, -np.inf, np.log(np.where(layout.spans, between, local)))
    return result


def _join(log_compute: Floats, log_sync: Floats, overlap: float) -> Floats:
    result: Floats = np.logaddexp(overlap * log_compute, overlap * log_sync) / overlap
    return result
