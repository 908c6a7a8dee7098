"""
How alike steps of placements and batches are, by scales, and how that moves with the scales.

Noise of a network moves a step in proportion to the share of it that goes to communication: large
at small batches, hardly any at large ones. So both noise and the effect of a placement are scaled
by that share. Measurements of one run (one placement) are off together, which counts as a common
term.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ebbtide.core.models.iteration.layout import Layout
from ebbtide.core.models.iteration.scales import Scales
from ebbtide.core.models.table import Floats, Indices, Texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Where a process is known or asked."""

    layout: Layout
    batch: Floats
    share: Floats
    """Part of the step that goes to communication."""

    def take(self, chosen: Indices) -> "Points":
        """Return points by their index."""
        return Points(
            layout=self.layout.take(chosen), batch=self.batch[chosen], share=self.share[chosen]
        )


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Points where steps were measured."""

    points: Points
    runs: Floats
    """How many runs each is the mean of."""
    places: Texts

    def take(self, chosen: Indices) -> "Measured":
        """Return some of them by their index."""
        return Measured(
            points=self.points.take(chosen), runs=self.runs[chosen], places=self.places[chosen]
        )

    @cached_property
    def logs(self) -> Floats:
        """A column for each thing that placements differ by."""
        return features(self.points.layout)

    @cached_property
    def log_batch(self) -> Floats:
        """Logarithms of batches."""
        return np.log(self.points.batch)

    @cached_property
    def shares(self) -> Floats:
        """Product of the shares of each two."""
        return np.outer(self.points.share, self.points.share)

    @cached_property
    def same_batch(self) -> Floats:
        """1 where two have the same batch."""
        return np.equal.outer(self.points.batch, self.points.batch).astype(np.float64)

    @cached_property
    def same_run(self) -> Floats:
        """How much of two was measured together."""
        _, place = np.unique(self.places.astype(str), return_inverse=True)
        found: Floats = np.equal.outer(place, place) / np.sqrt(np.outer(self.runs, self.runs))
        return found


def features(layout: Layout) -> Floats:
    """Return what placements differ by, as logarithms: GPUs, nodes, the fullest, the emptiest."""
    return np.log(np.stack([layout.gpus, layout.nodes, layout.most, layout.least], axis=1))


def lengths(scales: Scales) -> Floats:
    """Return the length for each of `features`."""
    return np.array([scales.gpus, scales.nodes, scales.uneven, scales.uneven])


def likeness(left: Floats, right: Floats) -> Floats:
    """Return how alike rows are, from 0 to 1; distances count in lengths."""
    squares = (left**2).sum(1)[:, None] + (right**2).sum(1)[None, :] - 2 * left @ right.T
    found: Floats = np.exp(-0.5 * np.maximum(squares, 0.0))
    return found


def noise(scales: Scales, measured: Measured) -> Floats:
    """Return the variance of each point that no other shares."""
    share = measured.points.share
    found: Floats = (scales.noise_sync**2 * share**2 + scales.noise_all**2) / measured.runs
    return found


@dataclass(frozen=True, kw_only=True)
class Covariance:
    """Covariance of measured points under scales, noise of their own aside."""

    scales: Scales
    measured: Measured

    @cached_property
    def near(self) -> Floats:
        """How alike placements are."""
        logs = self.measured.logs / lengths(self.scales)
        return likeness(logs, logs)

    @cached_property
    def near_batch(self) -> Floats:
        """How alike batches are."""
        logs = self.measured.log_batch[:, None] / self.scales.batch
        return likeness(logs, logs)

    @cached_property
    def effect(self) -> Floats:
        """What points of one placement share."""
        scales = self.scales
        found: Floats = scales.place_sync**2 * self.measured.shares + scales.place_all**2
        found += scales.place_batch**2 * self.near_batch
        found += scales.jump**2 * self.measured.same_batch
        return found

    @cached_property
    def matrix(self) -> Floats:
        """The covariance itself."""
        run = self.scales.run_sync**2 * self.measured.shares + self.scales.run_all**2
        found: Floats = self.near * self.effect + self.measured.same_run * run
        return found

    def slope(self, weights: Floats) -> Floats:
        """
        Return the sum of `weights` times the derivative of covariance and noise.

        By the logarithm of each scale, in the order of the fields of `Scales`; weights are
        symmetric.
        """
        scales, measured = self.scales, self.measured
        placed, run = weights * self.near, weights * measured.same_run
        moved = placed * self.effect
        at_batch = placed * self.near_batch
        own = np.diag(weights) / measured.runs
        by_column = [_spread(moved, column) for column in measured.logs.T]
        return np.array(
            [
                by_column[0] / scales.gpus**2,
                by_column[1] / scales.nodes**2,
                (by_column[2] + by_column[3]) / scales.uneven**2,
                scales.place_batch**2 * _spread(at_batch, measured.log_batch) / scales.batch**2,
                2 * scales.place_sync**2 * (placed * measured.shares).sum(),
                2 * scales.place_all**2 * placed.sum(),
                2 * scales.place_batch**2 * at_batch.sum(),
                2 * scales.jump**2 * (placed * measured.same_batch).sum(),
                2 * scales.noise_sync**2 * (own * measured.points.share**2).sum(),
                2 * scales.noise_all**2 * own.sum(),
                2 * scales.run_sync**2 * (run * measured.shares).sum(),
                2 * scales.run_all**2 * run.sum(),
            ]
        )


def _spread(weights: Floats, values: Floats) -> float:
    """Return the weighted sum of the squared difference of each two values."""
    return float(2 * (values**2 @ weights.sum(axis=1) - values @ weights @ values))
