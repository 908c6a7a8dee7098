"""
The step time of a workload never seen, from three physical terms.

    seconds = constant + a * FLOPs of the step + b * tensors

The constant is what every step costs; FLOPs cost arithmetic; each tensor costs launches and
messages. All weights are at least zero, so more work is never faster. Weights of one GPU type are
fitted by least squares on relative errors, drawn towards the weights of all types together: a
type has its own scale, and shares its proportions as far as the data support that.
"""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from ebbtide.core.models.forecast import Json
from ebbtide.core.models.regression import fit_positive
from ebbtide.core.models.step_time.samples import Points
from ebbtide.core.models.table import Flags, Floats, Indices

LEAST_WORKLOADS: Final = 4
"""Workloads that three terms need, one more than they are; fewer give time by FLOPs alone."""
STRENGTHS: Final = (0.1, 1.0, 10.0, 100.0, 1_000.0)
"""
How many workloads the common proportions count for, in each term of a GPU type.

From hardly any to nearly nothing else; the data weigh them (`_evidence`), none is chosen.
"""
ROUNDS: Final = 8
"""Of fitting common proportions and scales in turn; the scales then stand to four digits."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shape:
    """Weights of the terms for each GPU type."""

    gpus: tuple[str, ...]
    weights: Floats
    """Shape (GPU types, 3): seconds, seconds per FLOP, seconds per tensor."""
    seen: Floats
    """Shape (2, 2): least and most FLOPs of a step, least and most tensors."""
    is_thin: bool
    """Whether there were too few workloads for terms: then all is beyond the data."""
    needs_tensors: bool

    def at(self, gpu: Indices, work: Floats, tensors: Floats) -> Floats:
        """Return seconds; NaN where a feature that is needed is absent."""
        counted = tensors if self.needs_tensors else np.zeros(len(work))
        terms = np.column_stack([np.ones(len(work)), work, counted])
        found: Floats = (terms * self.weights[gpu]).sum(axis=1)
        return found

    def is_beyond(self, work: Floats, tensors: Floats) -> Flags:
        """Tell which questions lie outside the range of what was seen."""
        outside: Flags = (work < self.seen[0, 0]) | (work > self.seen[0, 1])
        if self.needs_tensors:
            outside |= (tensors < self.seen[1, 0]) | (tensors > self.seen[1, 1])
        return outside | self.is_thin

    def to_json(self) -> Json:
        """Return plain JSON."""
        return {
            "weights": dict(zip(self.gpus, self.weights.tolist(), strict=True)),
            "seen": self.seen.tolist(),
            "is_thin": self.is_thin,
            "needs_tensors": self.needs_tensors,
        }

    @classmethod
    def from_json(cls, stored: Json) -> Self:
        """Read what `to_json` wrote."""
        return cls(
            gpus=tuple(stored["weights"]),
            weights=np.array(list(stored["weights"].values()), dtype=np.float64),
            seen=np.array(stored["seen"], dtype=np.float64),
            is_thin=bool(stored["is_thin"]),
            needs_tensors=bool(stored["needs_tensors"]),
        )


def fit_shape(points: Points, *, shares: bool = True) -> Shape | None:
    """
    Fit the terms from the points whose FLOPs are known; None where there are none.

    Points without tensors are left out, unless too few workloads are left; then the term is.
    Without `shares` each GPU type is fitted alone.
    """
    chosen = np.isfinite(points.work)
    full = chosen & np.isfinite(points.tensors)
    needs_tensors = _workloads(points, full) >= LEAST_WORKLOADS
    points = points.take(full if needs_tensors else chosen)
    if not len(points):
        return None
    is_thin = _workloads(points, np.ones(len(points), dtype=np.bool_)) < LEAST_WORKLOADS
    gpus = tuple(sorted(set(points.gpu.tolist())))
    columns = [not is_thin, True, needs_tensors]
    weights = np.zeros((len(gpus), len(columns)))
    weights[:, columns] = _fit_weights(points, gpus, np.array(columns), shares=shares)
    tensors = points.tensors if needs_tensors else np.zeros(len(points))
    return Shape(
        gpus=gpus,
        weights=weights,
        seen=np.array([[values.min(), values.max()] for values in (points.work, tensors)]),
        is_thin=is_thin,
        needs_tensors=needs_tensors,
    )


def _workloads(points: Points, chosen: Flags) -> int:
    return len(set(points.workload[chosen].tolist()))


def _fit_weights(points: Points, gpus: tuple[str, ...], columns: Flags, *, shares: bool) -> Floats:
    terms = np.column_stack([np.ones(len(points)), points.work, points.tensors])[:, columns]
    size = terms.mean(axis=0)
    root = np.sqrt(points.weight)[:, None]
    # Rows that a right weight vector maps to `root`: relative errors, each workload counting once.
    scaled = root * (terms / size) / points.seconds[:, None]
    parts = [(scaled[points.gpu == gpu], root[points.gpu == gpu, 0]) for gpu in gpus]
    if not shares or len(gpus) == 1:
        alone: Floats = np.array([fit_positive(*part) for part in parts]) / size
        return alone
    priors = _common(parts)
    evidence = np.array(
        [
            sum(
                _evidence(*part, prior, strength) for part, prior in zip(parts, priors, strict=True)
            )
            for strength in STRENGTHS
        ]
    )
    belief = np.exp(evidence - evidence.max())
    found = [
        [_drawn(*part, prior, strength) for part, prior in zip(parts, priors, strict=True)]
        for strength in STRENGTHS
    ]
    shared: Floats = np.average(np.array(found), axis=0, weights=belief) / size
    return shared


def _common(parts: list[tuple[Floats, Floats]]) -> list[Floats]:
    """Return for each GPU type the weights of all types together, at the type's own scale."""
    scales = np.ones(len(parts))
    target = np.concatenate([root for _, root in parts])
    weights = np.zeros(0)
    for _ in range(ROUNDS):
        stacked = [rows * scale for (rows, _), scale in zip(parts, scales, strict=True)]
        weights = fit_positive(np.vstack(stacked), target)
        reached = [rows @ weights for rows, _ in parts]
        scales = np.array(
            [(own @ root) / (own @ own) for own, (_, root) in zip(reached, parts, strict=True)]
        )
    return [weights * scale for scale in scales]


def _evidence(rows: Floats, root: Floats, prior: Floats, strength: float) -> float:
    """
    Return the log marginal likelihood of one GPU type under a strength of sharing.

    Relative errors are normal with an unknown deviation s (profiled); the share of each term in
    the step time is normal around the common one with deviation s / sqrt(strength). This is the
    evidence of a linear Gaussian model (Bishop 2006, Pattern Recognition, 3.5.1).
    """
    scaled = rows / (rows.mean(axis=0) / root.mean())
    left = root - rows @ prior
    inner = strength * np.eye(rows.shape[1]) + scaled.T @ scaled
    pull = scaled.T @ left
    square = max(float(left @ left - pull @ np.linalg.solve(inner, pull)), np.finfo(float).tiny)
    number = float(root @ root)
    determinant = np.linalg.slogdet(inner)[1] - rows.shape[1] * np.log(strength)
    return float(-number / 2 * np.log(square / number) - determinant / 2)


def _drawn(rows: Floats, root: Floats, prior: Floats, strength: float) -> Floats:
    """Return the weights of one GPU type, drawn towards the common ones."""
    pull = np.sqrt(strength) * rows.mean(axis=0) / root.mean()
    return fit_positive(np.vstack([rows, np.diag(pull)]), np.concatenate([root, pull * prior]))
