"""
How long to train between two checkpoints: the least expected time lost to saves and repeats.

For losses at a constant rate: Young 1974 (Commun. ACM 17, 530), Daly 2006 (Future Gener. Comput.
Syst. 22, 303-312), and the exact optimum. For any law of life: a dynamic program over the age of
the node and the work left. An interval is the work between two saves, in seconds, without the
save itself.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ebbtide.core.models.survival import Survival
from ebbtide.core.models.table import Floats

MOST_UNITS: Final = 240
"""Units of work that the dynamic program takes; its time grows with their square."""
MOST_AGES: Final = 720
"""Ages that it tells apart; older nodes are taken for the oldest of them."""
TINY: Final = 1e-10
"""Below this save/between-failures ratio the exact interval is Young's to five digits."""


def young(*, save_s: float, between_failures_s: float) -> float:
    """sqrt(2 save M): first order in save/M."""
    _need(save_s=save_s, between_failures_s=between_failures_s)
    return float(np.sqrt(2 * save_s * between_failures_s))


def daly(*, save_s: float, between_failures_s: float) -> float:
    """Daly's higher order; M itself where a save takes 2 M or more."""
    first = young(save_s=save_s, between_failures_s=between_failures_s)
    ratio = save_s / (2 * between_failures_s)
    if ratio >= 1:
        return between_failures_s
    return float(first * (1 + np.sqrt(ratio) / 3 + ratio / 9) - save_s)


def exact(*, save_s: float, between_failures_s: float) -> float:
    """
    The optimum where losses come at a constant rate r = 1/M: (1 + W(-exp(-r save - 1))) / r.

    W is Lambert's function: the derivative of (exp(r (interval + save)) - 1) / interval is 0.
    """
    from scipy.special import lambertw  # noqa: PLC0415 -- the operator starts without scipy

    first = young(save_s=save_s, between_failures_s=between_failures_s)
    ratio = save_s / between_failures_s
    if ratio < TINY:
        return first
    return float((1 + lambertw(-np.exp(-ratio - 1)).real) * between_failures_s)


# ---------------------------------------------------------------- any law of life


@dataclass(frozen=True, slots=True, kw_only=True)
class AgePlan:
    """What to do at each age of the node, with each amount of work left."""

    unit_s: float
    intervals: NDArray[np.intp]
    """Units to work before the next save, by age in units (rows) and units left (columns)."""
    expected: Floats
    """Expected seconds to the end by units left, on a new node."""

    def interval_s(self, *, age_s: float, left_s: float) -> float:
        """Seconds to work before the next save."""
        ages, units = self.intervals.shape
        age = min(max(int(age_s / self.unit_s), 0), ages - 1)
        left = min(max(int(np.ceil(left_s / self.unit_s)), 1), units - 1)
        return float(self.intervals[age, left]) * self.unit_s

    @property
    def expected_s(self) -> float:
        """Expected seconds of the whole work, begun on a new node."""
        return float(self.expected[-1])


def plan_by_age(law: Survival, *, work_s: float, save_s: float, restart_s: float) -> AgePlan:
    """
    The best interval for each age and amount of work left, in units of the grid of `law`.

    With s = interval + save and p = S(a + s) / S(a), time to the end from age a with work j is
    V(a, j) = min over the interval of p (s + V(a + s, j - interval)) + lost time
    + (1 - p) (restart + V(0, j)). Each segment ends with a save, the last one too; a restart
    brings a new node, which cannot be lost before it trains.
    """
    _need(work_s=work_s, save_s=save_s)
    if not restart_s >= 0:
        raise ValueError(f"restart_s {restart_s}: seconds from 0 upwards are needed")
    units = int(np.ceil(work_s / law.unit_s - 1e-9))
    if units > MOST_UNITS:
        raise ValueError(
            f"{work_s:g} s of work are {units} units of {law.unit_s:g} s:"
            f" at most {MOST_UNITS}, take a coarser grid"
        )
    segments = _Segments.of(law, units=units, save_s=save_s)
    values = np.zeros((segments.ages + 1, units + 1))
    intervals = np.zeros((segments.ages, units + 1), dtype=np.intp)
    for left in range(1, units + 1):
        before, failed = segments.until(left, values)
        # on a new node the value is on both sides of its equation
        with np.errstate(divide="ignore", invalid="ignore"):
            fresh = (before[0] + failed[0] * restart_s) / (1 - failed[0])
        new = float(np.min(np.where(failed[0] < 1, fresh, np.inf)))
        if not np.isfinite(new):
            raise ValueError(
                f"no node lives for {law.unit_s + save_s:g} s, one unit of work and its save"
            )
        whole = before + failed * (restart_s + new)
        best = np.argmin(whole, axis=1)
        intervals[:, left] = best + 1
        values[:-1, left] = np.take_along_axis(whole, best[:, None], axis=1)[:, 0]
        values[-1, left] = values[-2, left]
    return AgePlan(unit_s=law.unit_s, intervals=intervals, expected=values[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Segments:
    """For each age (rows) and interval of 1, 2, ... units (columns): how a segment ends."""

    ages: int
    spent: Floats
    """Seconds of a segment by its interval."""
    failed: Floats
    """The chance to be lost in it."""
    lost: Floats
    """Seconds trained in vain, times that chance."""
    next_age: NDArray[np.intp]
    """The age after it in units, rounded down."""
    rest: float
    """What was rounded off, a fraction of a unit."""

    @classmethod
    def of(cls, law: Survival, *, units: int, save_s: float) -> "_Segments":
        """Compute them once."""
        whole, rest = divmod(save_s / law.unit_s, 1.0)
        ages = min(len(law.alive), MOST_AGES)
        start: Floats = np.arange(ages, dtype=np.float64)[:, None] * law.unit_s
        spent: Floats = np.arange(1, units + 1, dtype=np.float64) * law.unit_s + save_s
        alive, later = law.at(start), law.at(start + spent)
        some = np.maximum(alive, 1e-300)
        lived = np.where(alive > 0, later / some, 0.0)
        lost = (law.area(start + spent) - law.area(start) - spent * later) / some
        following = np.arange(ages)[:, None] + np.arange(1, units + 1) + int(whole)
        return cls(
            ages=ages,
            spent=spent,
            failed=1 - lived,
            lost=np.where(alive > 0, np.maximum(lost, 0.0), 0.0),
            next_age=np.minimum(following, ages - 1),
            rest=rest,
        )

    def until(self, left: int, values: Floats) -> tuple[Floats, Floats]:
        """Expected seconds of each choice up to a restart, and the chance of one."""
        ages = self.next_age[:, :left]
        after = left - np.arange(1, left + 1)
        value = (1 - self.rest) * values[ages, after] + self.rest * values[ages + 1, after]
        failed = self.failed[:, :left]
        return (1 - failed) * (self.spent[:left] + value) + self.lost[:, :left], failed


def _need(**values: float) -> None:
    for name, value in values.items():
        if not 0 < value < np.inf:
            raise ValueError(f"{name} {value}: seconds above 0 are needed")
