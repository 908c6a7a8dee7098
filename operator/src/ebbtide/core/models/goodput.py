"""
Goodput: how much of the speed moves training forward.

Two losses. A larger batch learns less per sample: statistical efficiency, after Pollux (Qiao et
al., OSDI 2021) with the gradient noise scale of McCandlish et al. 2018 (arXiv 1812.06162).
Checkpoints, lost work and restarts take time: effective training time ratio (ETTR).
"""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from ebbtide.core.models.table import Floats

LEAST_RATIO: Final = 1e-6
"""Goodput never reads as nothing, nor as less: a job that hardly moves is still compared."""


def noise_scale(*, batch: float, squared_mean: float, variance: float) -> float:
    """
    Samples per batch at which noise and signal of the gradient are equal.

    `squared_mean` is the squared norm of the true gradient, `variance` the trace of the covariance
    of a gradient over `batch` samples, both as Pollux's profiles state them.
    """
    _need(batch=batch, squared_mean=squared_mean)
    if not variance >= 0:
        raise ValueError(f"variance {variance}: 0 or more is needed")
    return batch * variance / squared_mean


def efficiency(batch: ArrayLike, *, first_batch: float, noise: float | None) -> Floats:
    """
    Progress per sample of a batch, relative to that of `first_batch` samples.

    (noise + first_batch) / (noise + batch): Pollux's gain/scale, written with the noise scale.
    Without a noise scale every sample counts the same.
    """
    _need(first_batch=first_batch)
    batches = np.asarray(batch, dtype=np.float64)
    if not (batches > 0).all():
        raise ValueError("batch: samples above 0 are needed")
    if noise is None:
        return np.ones_like(batches)
    if not noise >= 0:
        raise ValueError(f"noise {noise}: samples from 0 upwards are needed")
    result: Floats = (noise + first_batch) / (noise + batches)
    return result


def overlapped(compute: Floats, network: Floats, *, exponent: float) -> Floats:
    """
    Seconds of a step whose computing and network times overlap in part (Pollux).

    (compute^g + network^g)^(1/g): g = 1 is one after the other, large g is full overlap.
    """
    if not exponent >= 1:
        raise ValueError(f"exponent {exponent}: 1 (no overlap) or more is needed")
    longest = np.maximum(compute, network)
    with np.errstate(under="ignore"):
        total = (compute / longest) ** exponent + (network / longest) ** exponent
    result: Floats = longest * total ** (1 / exponent)
    return result


def effective_ratio(
    *, save_s: float, interval_s: float, between_failures_s: float, restart_s: float
) -> float:
    """
    The share of time that trains: 1 - save/interval - interval/(2 M) - restart/M, at first order.

    M is the mean time between failures of the whole cluster. First order holds while the three
    losses are small; where they are not, the exact form of `training_time` says more.
    """
    _need(interval_s=interval_s, between_failures_s=between_failures_s)
    if not (save_s >= 0 and restart_s >= 0):
        raise ValueError(f"save_s {save_s}, restart_s {restart_s}: seconds from 0 are needed")
    lost = save_s / interval_s + (interval_s / 2 + restart_s) / between_failures_s
    return max(1 - lost, LEAST_RATIO)


def goodput(
    throughput: ArrayLike, *, batch: ArrayLike, first_batch: float, noise: float | None
) -> Floats:
    """Samples per second that count: throughput x efficiency."""
    result: Floats = np.asarray(throughput, dtype=np.float64) * efficiency(
        batch, first_batch=first_batch, noise=noise
    )
    return result


def goodput_net(goodput_: ArrayLike, *, ratio: float) -> Floats:
    """Samples per second that count and last: goodput x effective ratio."""
    if not 0 < ratio <= 1:
        raise ValueError(f"ratio {ratio}: a share above 0 and at most 1 is needed")
    result: Floats = np.asarray(goodput_, dtype=np.float64) * ratio
    return result


def _need(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} {value}: a number above 0 is needed")
