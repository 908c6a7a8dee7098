"""
Named alternatives: boosted trees on step times, or a curve of one GPU with trees on the rest.

The second is how Srifty puts compute and communication together (Luo et al. 2022, MLSys 4,
833-847). Trees know nothing beyond their data: there, an answer is only kept from being faster
than one GPU.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ebbtide.core.models import boosting
from ebbtide.core.models.forecast import Forecast, Json, Spread
from ebbtide.core.models.iteration.fitting import compute_of
from ebbtide.core.models.iteration.held import Held, deal, judge_held
from ebbtide.core.models.iteration.layout import Layout, Limits
from ebbtide.core.models.iteration.physics import Compute
from ebbtide.core.models.iteration.samples import Rows, read_samples
from ebbtide.core.models.iteration.steps import answer
from ebbtide.core.models.quality import Quality
from ebbtide.core.models.table import DataError, Flags, Floats, Table

if TYPE_CHECKING:
    from collections.abc import Callable

TREES: Final = "trees"
CURVE_AND_TREES: Final = "curve-and-trees"
SPLIT: Final = "fold:placement"

LEAST_SYNC: Final = 1e-6
"""Seconds: what stands for none at all, which has no logarithm."""


@dataclass(frozen=True)
class Forest:
    """Trees for one workload, and the curve that they add to, if any."""

    stored: str
    """The trees in the library's own JSON."""
    compute: Compute
    adds: bool
    """Whether trees give the time beside the curve, or all of it."""
    limits: Limits
    least_batch: float
    most_batch: float
    spread: Spread

    @cached_property
    def booster(self) -> Any:  # noqa: ANN401 -- its type would load the library
        """The trees, ready to be asked."""
        return boosting.load(self.stored)

    def seconds(self, layout: Layout, batch: Floats) -> Floats:
        """Return step times."""
        found = np.exp(self.booster.inplace_predict(_features(layout, batch)).astype(np.float64))
        alone = self.compute.at(batch)
        if self.adds:
            found = np.where(layout.alone, alone, alone + found)
        outside = self.limits.exclude(layout)
        result: Floats = np.where(outside, np.maximum(found, alone), found)
        return result

    def deviation(self, layout: Layout, batch: Floats) -> Floats:
        """Return 1 for each question: trees are as wrong everywhere."""
        del layout
        return np.ones(len(batch))

    def exclude(self, layout: Layout, batch: Floats) -> Flags:
        """Tell which questions lie beyond the data."""
        outside: Flags = (batch < self.least_batch) | (batch > self.most_batch)
        return outside | self.limits.exclude(layout)

    def to_json(self) -> Json:
        """Return plain JSON."""
        return {
            "trees": json.loads(self.stored),
            "compute": self.compute.to_json(),
            "adds": self.adds,
            "limits": self.limits.to_json(),
            "range": [self.least_batch, self.most_batch],
            "spread": self.spread.to_json(),
        }

    @classmethod
    def from_json(cls, stored: Json) -> "Forest":
        """Read what `to_json` wrote."""
        return cls(
            stored=json.dumps(stored["trees"]),
            compute=Compute.from_json(stored["compute"]),
            adds=bool(stored["adds"]),
            limits=Limits.from_json(stored["limits"]),
            least_batch=float(stored["range"][0]),
            most_batch=float(stored["range"][1]),
            spread=Spread.from_json(stored["spread"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Forests:
    """A fitted model of several workloads."""

    method: str
    quality: Quality
    workloads: Mapping[str, Forest]

    def predict(self, table: Table) -> Forecast:
        """Seconds of a step of each row."""
        return answer(table, self.workloads)

    def parameters(self) -> Json:
        """Return what `from_json` needs."""
        return {"workloads": {name: item.to_json() for name, item in self.workloads.items()}}


def read_forests(method: str, quality: Quality, stored: Json) -> Forests:
    """Read the parameters that `Forests` wrote."""
    workloads = {name: Forest.from_json(item) for name, item in stored["workloads"].items()}
    return Forests(method=method, quality=quality, workloads=workloads)


def _fit(table: Table, *, adds: bool) -> Forests:
    rows = read_samples(table)
    if adds and not np.isfinite(rows.sync).all():
        raise DataError(
            f"column sync_time_s: {CURVE_AND_TREES} needs it in every row; the default does without"
        )
    found = {name: _fit_workload(part, adds=adds) for name, part in rows.by_workload().items()}
    return Forests(
        method=CURVE_AND_TREES if adds else TREES,
        quality=judge_held(
            {name: held for name, (_, held) in found.items()},
            split=SPLIT,
            samples=len(rows.batch),
        ),
        workloads={name: forest for name, (forest, _) in found.items()},
    )


fit_trees: "Callable[[Table], Forests]" = partial(_fit, adds=False)
fit_curve_and_trees: "Callable[[Table], Forests]" = partial(_fit, adds=True)


def _fit_workload(rows: Rows, *, adds: bool) -> tuple[Forest, Held]:
    held = _hold_out(rows, adds=adds)
    return _grow(rows, adds=adds, spread=held.spread()), held


def _hold_out(rows: Rows, *, adds: bool) -> Held:
    """Fit without each fold of placements; one GPU is always known."""
    layout = Layout.of(rows.placements)
    fold = np.where(layout.alone, -1, deal(rows.names))
    residuals = np.full(len(fold), np.nan)
    logs = np.log(rows.seconds)
    for number in range(int(fold.max()) + 1):
        here = fold == number
        if here.any() and not here.all():
            forest = _grow(
                rows.take(np.flatnonzero(~here)), adds=adds, spread=Spread(low=1, high=1)
            )
            residuals[here] = logs[here] - np.log(
                forest.seconds(layout.take(here), rows.batch[here])
            )
    known = np.isfinite(residuals)
    return Held(
        places=rows.names[known],
        log_seconds=logs[known],
        residuals=residuals[known],
        deviation=np.ones(int(known.sum())),
    )


def _grow(rows: Rows, *, adds: bool, spread: Spread) -> Forest:
    layout = Layout.of(rows.placements)
    used = ~layout.alone if adds and not layout.alone.all() else np.ones(len(layout), dtype=bool)
    target = np.maximum(rows.sync, LEAST_SYNC) if adds else rows.seconds
    features = _features(layout.take(used), rows.batch[used])
    return Forest(
        stored=boosting.grow(features, np.log(target[used]), tree_method="hist"),
        compute=compute_of(rows, bare=adds),
        adds=adds,
        limits=Limits.of(layout),
        least_batch=float(rows.batch.min()),
        most_batch=float(rows.batch.max()),
        spread=spread,
    )


def _features(layout: Layout, batch: Floats) -> Floats:
    return np.stack([layout.nodes, layout.gpus, layout.most, layout.least, batch], axis=1)
