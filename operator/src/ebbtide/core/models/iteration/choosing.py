"""
Scales that make the samples of a fit most likely (Rasmussen & Williams 2006, section 5.4.1).

All workloads together: the logarithm of the marginal likelihood, summed, with a weak prior. Some
cells of each workload are enough: they are drawn without sense, and a dozen numbers follow from
some hundred cells.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.random import PCG64, Generator

from ebbtide.core.models.iteration.covariance import Covariance, Measured, noise
from ebbtide.core.models.iteration.scales import Scales
from ebbtide.core.models.table import Floats, Indices

CELLS: Final = 720
"""Cells of all workloads together; time is cubic in those of one."""
LEAST_CELLS: Final = 25
"""Of each workload, where there are many."""
DOUBT: Final = 1.0
"""Standard deviation of the prior of each scale's logarithm: a factor of e."""
FAR: Final = 4.0
"""No scale lies further from its centre, in the logarithm: samples without noise need an end."""
ROUNDS: Final = 20
"""Steps of the search; more change nothing that a prediction shows."""
DIGITS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Cells of one workload, and what a mean leaves over of each."""

    measured: Measured
    values: Floats


def draw(cells: int, workloads: int) -> Indices:
    """Return which of the cells of one of so many workloads are looked at, in rising order."""
    room = max(CELLS // workloads, LEAST_CELLS)
    order = Generator(PCG64(0)).permutation(cells)
    return np.sort(order[:room])


def choose_scales(samples: Sequence[Sample], *, centre: Scales) -> Scales:
    """Return the likeliest scales, sought from `centre`; their last digits mean nothing."""
    from scipy.optimize import minimize  # noqa: PLC0415 -- loads only where a fit needs it

    start = centre.logs()
    found: Floats = minimize(
        _unlikely,
        start,
        args=(start, samples),
        jac=True,
        method="L-BFGS-B",
        bounds=[(middle - FAR, middle + FAR) for middle in start],
        options={"maxiter": ROUNDS},
    ).x
    return Scales.of_logs(found).rounded(DIGITS)


def _unlikely(logs: Floats, centre: Floats, samples: Sequence[Sample]) -> tuple[float, Floats]:
    """Return how unlikely samples are under scales, and how that moves with their logarithms."""
    scales = Scales.of_logs(logs)
    off = (logs - centre) / DOUBT
    total, slope = float(off @ off) / 2, off / DOUBT
    for sample in samples:
        missing, moved = log_likelihood(scales, sample)
        total, slope = total - missing, slope - moved
    return total, slope


def log_likelihood(scales: Scales, sample: Sample) -> tuple[float, Floats]:
    """Return the logarithm of the density of a sample, a constant aside, and its slope."""
    covariance = Covariance(scales=scales, measured=sample.measured)
    inverse, log_determinant = invert(covariance.matrix, noise(scales, sample.measured))
    weights = inverse @ sample.values
    likely = -(float(sample.values @ weights) + log_determinant) / 2
    return likely, covariance.slope((np.outer(weights, weights) - inverse) / 2)


def invert(known: Floats, own: Floats) -> tuple[Floats, float]:
    """Return the inverse of a covariance with noise, and the logarithm of its determinant."""
    from scipy.linalg import lapack  # noqa: PLC0415 -- loads only where a fit needs it

    matrix = known.copy()
    matrix[np.diag_indices_from(matrix)] += own
    factor, failed = lapack.dpotrf(matrix, lower=1, clean=1)
    if failed:
        raise np.linalg.LinAlgError("steps are too alike for their noise: no covariance of them")
    half, _ = lapack.dpotri(factor, lower=1)  # above the diagonal stay the zeros of the factor
    inverse: Floats = half + half.T
    inverse[np.diag_indices_from(inverse)] /= 2
    return inverse, 2 * float(np.log(np.diag(factor)).sum())
