"""
How good a forecast of survival is: integrated Brier score and Kolmogorov-Smirnov distance.

A life that was still going on says nothing of what came after. So each life that is known counts
for those that were lost from sight before it, by the inverse of the chance of being still seen
(Graf et al. 1999, Statistics in Medicine 18, 2529-2545).
"""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from ebbtide.core.models.quality import Split
from ebbtide.core.models.table import Flags, Floats, Texts

DAY: Final = 24.0
LEAST_SEEN: Final = 0.02
"""A chance of being seen below this counts as this: no life may stand for more than fifty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """A falling step function of time: Kaplan and Meier's estimate of survival."""

    times: Floats
    left: Floats

    @classmethod
    def of(cls, hours: Floats, ended: Flags) -> Self:
        """Estimate how many live on, where some ends were not seen."""
        times, place, number = np.unique(hours, return_inverse=True, return_counts=True)
        deaths = np.bincount(place, weights=ended)
        at_risk = number[::-1].cumsum()[::-1]
        return cls(times=times, left=np.cumprod(1 - deaths / at_risk))

    def at(self, hours: Floats, *, before: bool = False) -> Floats:
        """Return what is left at (or just before) given times."""
        place = np.searchsorted(self.times, hours, side="left" if before else "right")
        found: Floats = np.append(1.0, self.left)[place]
        return found


def halves(strata: Texts, *, chance: np.random.Generator) -> Split:
    """Split rows in two by chance, each stratum in both; an odd row falls to either side."""
    known = np.zeros(len(strata), dtype=np.bool_)
    for name in sorted(set(strata.tolist())):
        rows = chance.permutation(np.flatnonzero(strata == name))
        known[rows[: (len(rows) + int(chance.integers(2))) // 2]] = True
    return np.flatnonzero(known), np.flatnonzero(~known)


def grid_to(horizon: float, *, steps: int = 240) -> Floats:
    """Return evenly spaced times from the first step to the horizon."""
    found: Floats = np.arange(1, steps + 1, dtype=np.float64) * (horizon / steps)
    return found


def brier(survival: Floats, hours: Floats, revoked: Flags, *, seen: Steps, grid: Floats) -> float:
    """
    Return the mean squared error of survival, shape (lives, grid), over time from 0 to its end.

    `seen` is the estimate of being not yet lost from sight.
    """
    dead = (hours[:, None] <= grid) & revoked[:, None]
    alive = hours[:, None] > grid
    weight_dead = 1 / np.maximum(seen.at(hours, before=True), LEAST_SEEN)
    weight_alive = 1 / np.maximum(seen.at(grid), LEAST_SEEN)
    off = survival**2 * dead * weight_dead[:, None] + (1 - survival) ** 2 * alive * weight_alive
    at = np.concatenate([[0.0], off.mean(axis=0)])  # at time 0 all live, and all say so
    return float(np.trapezoid(at, np.concatenate([[0.0], grid])) / grid[-1])


def distance(survival: Floats, hours: Floats, revoked: Flags, *, grid: Floats) -> float:
    """Return the largest gap between the mean forecast and what Kaplan and Meier say."""
    told = grid < hours.max()  # at the last of all lives nothing is known of what comes after
    gaps = np.abs(Steps.of(hours, revoked).at(grid) - survival.mean(axis=0))
    return float(gaps[told].max(initial=0.0))
