"""
What physics leaves over, as a Gaussian process over placements and batches.

Noise of a network moves a step in proportion to the share of it that goes to communication: large
at small batches, hardly any at large ones. So both noise and the effect of a placement are scaled
by that share. Measurements of one run (one placement) are off together, which counts as a common
term. Outliers get less weight (Student's t with four degrees of freedom, by reweighting).
Formulas: Rasmussen & Williams 2006, Gaussian Processes for Machine Learning, MIT Press.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from ebbtide.core.models.forecast import Json
from ebbtide.core.models.iteration.layout import Layout
from ebbtide.core.models.table import Floats, Texts

# Scales are the same for all workloads. They are logarithms, so 1 is a factor of e.
GPUS: Final = 2.0
"""Placements differ once GPUs differ by a factor of seven ..."""
NODES: Final = 0.6
"""... or nodes by a factor of two: one more node matters most where there are few ..."""
SPANS: Final = 1.0
"""... and one node differs from several."""
UNEVEN: Final = 50.0
"""GPUs of the fullest and emptiest node: hardly matters; the slowest link rules anyway."""
BATCH: Final = 1.0
JUMP: Final = 0.05
"""The part of a batch's effect that its neighbours do not share: libraries change kernels."""
PLACE_SYNC: Final = 1.0
"""Effect of a placement on the communication, whatever the batch: a factor of e is not odd ..."""
PLACE_ALL: Final = 0.15
"""... on everything ..."""
PLACE_BATCH_SYNC: Final = 0.3
PLACE_BATCH_ALL: Final = 0.2
"""... and where placement and batch work together."""
ALONE_BATCH: Final = 0.5
NOISE_ALL: Final = 0.03
"""Compute repeats within 3 % (Azure's virtual machines: 2.5 to 2.9 %) ..."""
NOISE_SYNC: Final = 0.07
RUN_SYNC: Final = 0.05
RUN_ALL: Final = 0.01
"""... communication within some 9 %, of which more than a half is common to a run."""
DEGREES: Final = 4.0
ROUNDS: Final = 2
CHUNK: Final = 256
"""Questions answered at once, so that what they need stays in the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Where a process is known or asked."""

    layout: Layout
    batch: Floats
    share: Floats
    """Part of the step that goes to communication."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process that has seen measurements."""

    points: Points
    weights: Floats
    mean: float

    def at(self, asked: Points) -> Floats:
        """Return the mean of the process at points."""
        places, place = np.unique(_features(asked.layout), axis=0, return_inverse=True)
        sizes, size = np.unique(asked.batch, return_inverse=True)
        near = _likeness(places, _features(self.points.layout))
        batches = _batches(sizes, self.points.batch)
        plain, scaled = self.weights, self.weights * self.points.share
        alone = self.mean + ALONE_BATCH**2 * (batches @ plain)[size]
        found = alone + PLACE_ALL**2 * (near @ plain)[place]
        found += PLACE_SYNC**2 * asked.share * (near @ scaled)[place]
        for start in range(0, len(asked.batch), CHUNK):
            part = slice(start, start + CHUNK)
            together = near[place[part]] * batches[size[part]]
            found[part] += PLACE_BATCH_ALL**2 * (together @ plain)
            found[part] += PLACE_BATCH_SYNC**2 * asked.share[part] * (together @ scaled)
        return found

    def to_json(self) -> Json:
        """Return plain JSON."""
        layout = self.points.layout
        return {
            "mean": self.mean,
            "nodes": layout.nodes.tolist(),
            "gpus": layout.gpus.tolist(),
            "most": layout.most.tolist(),
            "least": layout.least.tolist(),
            "batch": self.points.batch.tolist(),
            "share": self.points.share.tolist(),
            "weights": self.weights.tolist(),
        }

    @classmethod
    def from_json(cls, stored: Json) -> Self:
        """Read what `to_json` wrote."""
        names = ("nodes", "gpus", "most", "least", "batch", "share", "weights")
        columns = {name: np.array(stored[name], dtype=np.float64) for name in names}
        return cls(
            points=Points(
                layout=Layout(**{name: columns[name] for name in names[:4]}),
                batch=columns["batch"],
                share=columns["share"],
            ),
            weights=columns["weights"],
            mean=float(stored["mean"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """A process, and what it would have been wrong by."""

    process: Process
    residuals: Floats
    """Of each point, had its whole placement not been seen."""


def learn(
    points: Points, options: Sequence[Floats], *, runs: Floats, places: Texts
) -> tuple[int, Learned]:
    """
    Condition on one of several sets of values: the one that is predicted best.

    `runs` says how many runs each point is the mean of, `places` its placement. What counts is
    the mean absolute residual of points with more than one GPU, had their placement not been
    seen.
    """
    known = _measured(points, runs=runs, places=places)
    noise = spread(points.share, run=False) ** 2 / runs
    means = [float(np.average(values, weights=runs)) for values in options]
    centred = [values - mean for values, mean in zip(options, means, strict=True)]
    counted = runs * ~points.layout.alone
    inverse = _invert(known, noise)
    scores = [counted @ np.abs(_left_out(inverse, values, places)) for values in centred]
    best = int(np.argmin(scores))
    weights, trusted = inverse @ centred[best], noise
    for _ in range(ROUNDS):
        off = (trusted * weights) ** 2 / noise
        trusted = noise * (DEGREES + off) / (DEGREES + 1)
        inverse = _invert(known, trusted)
        weights = inverse @ centred[best]
    process = Process(points=points, weights=weights, mean=means[best])
    return best, Learned(process=process, residuals=_left_out(inverse, centred[best], places))


def _measured(points: Points, *, runs: Floats, places: Texts) -> Floats:
    """Return the covariance of measurements, noise of their own aside."""
    features = _features(points.layout)
    near = _likeness(features, features)
    batches = _batches(points.batch, points.batch)
    shares = points.share[:, None] * points.share[None, :]
    found: Floats = near * (
        (PLACE_SYNC**2 + PLACE_BATCH_SYNC**2 * batches) * shares
        + PLACE_ALL**2
        + PLACE_BATCH_ALL**2 * batches
    )
    found += ALONE_BATCH**2 * batches
    _, place = np.unique(places.astype(str), return_inverse=True)
    common = (place[:, None] == place[None, :]) / np.sqrt(runs[:, None] * runs[None, :])
    found += common * (RUN_SYNC**2 * shares + RUN_ALL**2)
    return found


def _invert(known: Floats, noise: Floats) -> Floats:
    from scipy.linalg import lapack  # noqa: PLC0415 -- loads only where a fit needs it

    matrix = known.copy()
    matrix[np.diag_indices_from(matrix)] += noise
    factor, _ = lapack.dpotrf(matrix, lower=1, clean=1)
    lower, _ = lapack.dpotri(factor, lower=1)
    inverse: Floats = np.tril(lower) + np.tril(lower, -1).T
    return inverse


def _left_out(inverse: Floats, values: Floats, places: Texts) -> Floats:
    """
    Return residuals of each placement from all others, without fitting anew.

    Those of a block G solve inverse[G, G] r = (inverse values)[G] (Rasmussen & Williams 2006,
    section 5.4.2, for blocks).
    """
    weights = inverse @ values
    residuals = np.empty(len(values))
    for place in dict.fromkeys(places.tolist()):
        block = np.flatnonzero(places == place)
        residuals[block] = np.linalg.solve(inverse[np.ix_(block, block)], weights[block])
    return residuals


def spread(share: Floats, *, run: bool = True) -> Floats:
    """Return the standard deviation of the logarithm of one measurement."""
    sync = NOISE_SYNC**2 + run * RUN_SYNC**2
    found: Floats = np.sqrt(sync * share**2 + NOISE_ALL**2 + run * RUN_ALL**2)
    return found


def _features(layout: Layout) -> Floats:
    return np.stack(
        [
            np.log(layout.gpus) / GPUS,
            np.log(layout.nodes) / NODES,
            layout.spans / SPANS,
            layout.most / UNEVEN,
            layout.least / UNEVEN,
        ],
        axis=1,
    )


def _batches(left: Floats, right: Floats) -> Floats:
    """Return how alike batches are; the same one a little more than its neighbours."""
    found = _likeness(np.log(left)[:, None] / BATCH, np.log(right)[:, None] / BATCH)
    found *= 1 - JUMP
    found += JUMP * (left[:, None] == right[None, :])
    return found


def _likeness(left: Floats, right: Floats) -> Floats:
    squares = (left**2).sum(1)[:, None] + (right**2).sum(1)[None, :] - 2 * left @ right.T
    found: Floats = np.exp(-0.5 * np.maximum(squares, 0.0))
    return found
