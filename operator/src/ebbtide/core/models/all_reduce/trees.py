"""
Boosted trees for what the base leaves over, asked at the sizes that were measured.

Libraries change protocol with the size, which makes jumps that no smooth base has. Trees know the
measured sizes only and are flat between them; so they are asked there, and between two sizes the
logarithm of the time is a straight line. Times are made to rise with bytes. Beyond the sizes
measured the base says what changes.
"""

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from ebbtide.core.models import boosting
from ebbtide.core.models.all_reduce.base import Base
from ebbtide.core.models.all_reduce.calls import Calls
from ebbtide.core.models.forecast import Json
from ebbtide.core.models.table import Floats

EXACT: Final = "exact"
"""Exact splits: a table of a hundred rows has too few for histograms to pay."""
MOST_KNOTS: Final = 48
"""Of more sizes an even selection is taken."""


@dataclass(frozen=True)
class Trees:
    """Trees over systems, GPUs, nodes and bytes."""

    stored: str
    """In the library's own JSON."""
    systems: tuple[str, ...]

    @cached_property
    def booster(self) -> Any:  # noqa: ANN401 -- its type would load the library
        """The trees, ready to be asked."""
        return boosting.load(self.stored)

    def at(self, calls: Calls) -> Floats:
        """Return what the trees were grown for."""
        found: Floats = self.booster.inplace_predict(_features(calls, self.systems))
        return found.astype(np.float64)

    @classmethod
    def grow(cls, calls: Calls, values: Floats) -> "Trees":
        """Grow trees for values."""
        systems = tuple(sorted(set(calls.system.tolist())))
        stored = boosting.grow(_features(calls, systems), values, tree_method=EXACT)
        return cls(stored=stored, systems=systems)

    def to_json(self) -> Json:
        """Return plain JSON."""
        return {"trees": json.loads(self.stored), "systems": list(self.systems)}

    @classmethod
    def from_json(cls, stored: Json) -> "Trees":
        """Read what `to_json` wrote."""
        return cls(stored=json.dumps(stored["trees"]), systems=tuple(map(str, stored["systems"])))


def choose_knots(sizes: Floats) -> Floats:
    """Return the sizes at which trees are asked, rising."""
    found = np.unique(sizes)
    if len(found) > MOST_KNOTS:
        found = found[np.linspace(0, len(found) - 1, MOST_KNOTS).astype(np.intp)]
    return found


def refine(base: Base, trees: Trees, knots: Floats, calls: Calls) -> Floats:
    """Return times of one system: base and trees at the knots, a line in logarithms between."""
    keys = np.stack([calls.gpus, calls.nodes, np.nan_to_num(calls.nic_gbps)], axis=1)
    _, first, cluster = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    logs = _log_at_knots(base, trees, knots, calls.take(first))
    size = np.clip(calls.size, knots[0], knots[-1])
    right = np.clip(np.searchsorted(knots, size), 1, max(len(knots) - 1, 1))
    left = right - 1
    right = np.minimum(right, len(knots) - 1)
    across = np.log(knots[right] / knots[left])
    along = np.log(size / knots[left]) / np.where(across > 0, across, 1.0)
    line = np.exp(logs[cluster, left] * (1 - along) + logs[cluster, right] * along)
    inside = replace(calls, size=size)
    found: Floats = line * base.seconds(calls) / base.seconds(inside)
    return found


def _log_at_knots(base: Base, trees: Trees, knots: Floats, clusters: Calls) -> Floats:
    """Return logarithms of times, a row for each cluster, rising along the knots."""
    asked = clusters.take(np.repeat(np.arange(len(clusters)), len(knots)))
    asked = replace(asked, size=np.tile(knots, len(clusters)))
    logs = (np.log(base.seconds(asked)) + trees.at(asked)).reshape(len(clusters), len(knots))
    # The mean of the two rising curves that enclose it.
    above = np.maximum.accumulate(logs, axis=1)
    below = np.minimum.accumulate(logs[:, ::-1], axis=1)[:, ::-1]
    found: Floats = (above + below) / 2
    return found


def _features(calls: Calls, systems: tuple[str, ...]) -> Floats:
    codes = [(calls.system == name).astype(np.float64) for name in systems]
    return np.stack([calls.gpus, calls.nodes, np.log2(calls.size), *codes], axis=1)
