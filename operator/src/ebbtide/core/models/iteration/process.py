"""
What physics leaves over, as a Gaussian process over placements and batches.

Outliers get less weight (Student's t with four degrees of freedom, by reweighting).
Formulas: Rasmussen & Williams 2006, Gaussian Processes for Machine Learning, MIT Press.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from ebbtide.core.models.forecast import Json
from ebbtide.core.models.iteration.choosing import Sample, invert
from ebbtide.core.models.iteration.covariance import (
    Covariance,
    Measured,
    Points,
    features,
    lengths,
    likeness,
    noise,
)
from ebbtide.core.models.iteration.layout import Layout
from ebbtide.core.models.iteration.scales import Scales
from ebbtide.core.models.table import Floats, Texts

DEGREES: Final = 4.0
ROUNDS: Final = 2
CHUNK: Final = 256
"""Questions answered at once, so that what they need stays in the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process that has seen measurements."""

    scales: Scales
    points: Points
    weights: Floats
    mean: float

    def at(self, asked: Points) -> Floats:
        """Return the mean of the process at points."""
        scales, known = self.scales, self.points
        places, place = np.unique(features(asked.layout), axis=0, return_inverse=True)
        sizes, size = np.unique(asked.batch, return_inverse=True)
        length = lengths(scales)
        near = likeness(places / length, features(known.layout) / length)
        batches = scales.place_batch**2 * likeness(
            np.log(sizes)[:, None] / scales.batch, np.log(known.batch)[:, None] / scales.batch
        )
        batches += scales.jump**2 * np.equal.outer(sizes, known.batch)
        found = self.mean + scales.place_all**2 * (near @ self.weights)[place]
        found += scales.place_sync**2 * asked.share * (near @ (self.weights * known.share))[place]
        for start in range(0, len(asked.batch), CHUNK):
            part = slice(start, start + CHUNK)
            found[part] += (near[place[part]] * batches[size[part]]) @ self.weights
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
    def from_json(cls, stored: Json, scales: Scales) -> Self:
        """Read what `to_json` wrote; scales are stored once for all workloads."""
        names = ("nodes", "gpus", "most", "least", "batch", "share", "weights")
        columns = {name: np.array(stored[name], dtype=np.float64) for name in names}
        return cls(
            scales=scales,
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


def learn(measured: Measured, options: Sequence[Floats], *, scales: Scales) -> tuple[int, Learned]:
    """
    Condition on one of several sets of values: the one that is predicted best.

    What counts is the mean absolute residual of points with more than one GPU, had their
    placement not been seen.
    """
    known, own = Covariance(scales=scales, measured=measured).matrix, noise(scales, measured)
    inverse, _ = invert(known, own)
    best, mean = choose_mean(measured, options, inverse=inverse)
    values = options[best] - mean
    weights, trusted = inverse @ values, own
    for _ in range(ROUNDS):
        off = (trusted * weights) ** 2 / own
        trusted = own * (DEGREES + off) / (DEGREES + 1)
        inverse, _ = invert(known, trusted)
        weights = inverse @ values
    process = Process(scales=scales, points=measured.points, weights=weights, mean=mean)
    return best, Learned(process=process, residuals=_left_out(inverse, values, measured.places))


def first_look(measured: Measured, options: Sequence[Floats], *, scales: Scales) -> Sample:
    """Return what is left of the set of values that is predicted best by first scales."""
    known = Covariance(scales=scales, measured=measured).matrix
    inverse, _ = invert(known, noise(scales, measured))
    best, mean = choose_mean(measured, options, inverse=inverse)
    return Sample(measured=measured, values=options[best] - mean)


def choose_mean(
    measured: Measured, options: Sequence[Floats], *, inverse: Floats
) -> tuple[int, float]:
    """Return which set of values is predicted best, and what it is on the whole."""
    means = [float(np.average(values, weights=measured.runs)) for values in options]
    counted = measured.runs * ~measured.points.layout.alone
    scores = [
        counted @ np.abs(_left_out(inverse, values - mean, measured.places))
        for values, mean in zip(options, means, strict=True)
    ]
    best = int(np.argmin(scores))
    return best, means[best]


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
