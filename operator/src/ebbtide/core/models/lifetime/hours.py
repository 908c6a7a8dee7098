"""The hour of day: at some hours a provider takes more nodes back than at others."""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from ebbtide.core.models.lifetime.ages import EDGES, WIDTHS, bin_of, exposure
from ebbtide.core.models.lifetime.families import CAP
from ebbtide.core.models.lifetime.lives import Lives
from ebbtide.core.models.table import Floats

HOURS: Final = 24
TOLD: Final = (WIDTHS <= 1) & (EDGES < CAP)
"""Bins short enough to lie in one hour of the day. Ends at the cap are no matter of the hour."""
MIDDLES: Final[Floats] = EDGES[TOLD] + WIDTHS[TOLD] / 2
NEIGHBOURS: Final = (0.5, 1.0, 0.5)
"""An hour counts itself in full and its neighbours by half."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ByHour:
    """Deaths, and deaths that were expected, by hour of day, shape (24,)."""

    seen: Floats
    expected: Floats

    @classmethod
    def of(cls, lives: Lives, rates: Floats) -> Self:
        """Count lives under the hazards of their pools, shape (pools, BINS)."""
        known = lives.take(np.isfinite(lives.start))
        hour = ((known.start[:, None] + MIDDLES) % HOURS).astype(np.intp)
        chance = exposure(known.hours)[:, TOLD] * rates[known.pool][:, TOLD]
        last = bin_of(known.hours)
        died = known.revoked & TOLD[last]
        when = ((known.start + known.hours)[died] % HOURS).astype(np.intp)
        expected: Floats = np.zeros(HOURS)
        np.add.at(expected, hour, chance)
        return cls(
            seen=np.bincount(when, minlength=HOURS).astype(np.float64),
            expected=expected,
        )

    def factors(self, deaths: float) -> Floats:
        """Return a factor on the hazard for each hour; so many imagined deaths draw it to 1."""
        seen, expected = _blur(self.seen), _blur(self.expected)
        found: Floats = (seen + deaths) / (expected + deaths)
        return found

    def gain(self, factors: Floats) -> float:
        """Return by how much factors raise the logarithm of the likelihood."""
        return float(self.seen @ np.log(factors) - self.expected @ (factors - 1))


def _blur(counts: Floats) -> Floats:
    before, own, after = NEIGHBOURS
    return before * np.roll(counts, 1) + own * counts + after * np.roll(counts, -1)


def spread_over_ages(factors: Floats, start: Floats) -> Floats:
    """Return the factor of each age bin for nodes that start at given hours of day."""
    found = np.ones((len(start), len(EDGES)))
    known = np.isfinite(start)
    hour = ((start[known, None] + MIDDLES) % HOURS).astype(np.intp)
    found[np.ix_(known, TOLD)] = factors[hour]
    return found
