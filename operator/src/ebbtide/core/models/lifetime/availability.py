"""
When a pool can be had: spells of up and down, each with its age.

A spell that has lasted is likely to last longer, so what comes next hangs on how long the present
state has held: an alternating renewal process.
"""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from ebbtide.core.models.forecast import Json
from ebbtide.core.models.lifetime.ages import Counts, Curves
from ebbtide.core.models.lifetime.families import fit_law
from ebbtide.core.models.lifetime.pooling import mix
from ebbtide.core.models.table import DataError, Flags, Floats, Indices

STEPS: Final = 240
"""Parts into which the time ahead is cut."""
NODES: Final = 5.0
"""Imagined spells that follow a Weibull law, beside those seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """Hazards of the end of a spell: row 0 of spells of down, row 1 of up."""

    curves: Curves
    spells: int

    @classmethod
    def of(cls, hours: Floats, *, up: Flags, ended: Flags) -> Self:
        """Fit from spells; one that still holds has not ended, and counts for what it lasted."""
        for row, length in enumerate(hours):
            if not (np.isfinite(length) and length > 0):
                raise DataError(f"spell {row}: {length} is not a number of h above 0")
        counts = Counts.of(hours, ended, up.astype(np.intp), groups=2)
        law = np.array(
            [
                fit_law("weibull", deaths, lasted, wall=np.inf).rates
                for deaths, lasted in zip(counts.deaths, counts.hours, strict=True)
            ]
        )
        rates = mix(counts, law, NODES)
        return cls(curves=Curves(rates=rates, walls=np.full(2, np.inf)), spells=len(hours))

    def expected_left(self, *, up: bool, age: float) -> float:
        """Return for how many hours the present spell will hold on."""
        return float(self.curves.mean_left(_row(up=up), np.array([age]))[0])

    def long_run(self) -> float:
        """Return the share of time that the pool is up."""
        down, up = self.curves.mean_left(np.array([0, 1]), np.zeros(2))
        return float(up / (up + down))

    def chance_up(self, ahead: Floats, *, up: bool, age: float) -> Floats:
        """
        Return the chance that the pool is up so many hours from now.

        With U, V the chance to be up after a spell of up, down began and F their laws,
        U(t) = 1 - F_up(t) + integral of V(t - s) dF_up(s), V(t) = integral of U(t - s) dF_down(s).
        """
        if not (np.isfinite(ahead).all() and (ahead >= 0).all()):
            raise ValueError(f"ahead {ahead}: hours from 0 are needed")
        times = np.linspace(0.0, max(float(ahead.max()), 1e-6), STEPS + 1)
        after_up, after_down = self._after(times)
        alive = self.curves.survival(
            np.repeat(_row(up=up), len(times)), np.full(len(times), age), times
        )
        ends = -np.diff(alive)
        other = after_down if up else after_up
        middle = (other[1:] + other[:-1]) / 2
        later = np.convolve(ends, middle)[:STEPS]
        chance = np.concatenate([[0.0], later]) + (alive if up else 0.0)
        return np.clip(np.interp(ahead, times, chance), 0.0, 1.0)

    def _after(self, times: Floats) -> tuple[Floats, Floats]:
        rows = np.repeat(np.array([0, 1]), len(times))
        alive = self.curves.survival(rows, np.zeros(len(rows)), np.tile(times, 2)).reshape(2, -1)
        end_down, end_up = -np.diff(alive, axis=1)
        ups, downs = np.ones(len(times)), np.zeros(len(times))
        for step in range(1, len(times)):
            # The newest value of each is half of the middle of its newest part: two equations.
            ups[step] = downs[step] = 0.0
            from_up = alive[1, step] + _summed(end_up, downs, step)
            from_down = _summed(end_down, ups, step)
            first_up, first_down = end_up[0] / 2, end_down[0] / 2
            ups[step] = (from_up + first_up * from_down) / (1 - first_up * first_down)
            downs[step] = from_down + first_down * ups[step]
        return ups, downs

    def to_json(self) -> Json:
        """Return plain JSON."""
        return {**self.curves.to_json(), "spells": self.spells}

    @classmethod
    def from_json(cls, stored: Json) -> Self:
        """Read what `to_json` wrote."""
        return cls(curves=Curves.from_json(stored), spells=int(stored["spells"]))


def _row(*, up: bool) -> Indices:
    return np.array([int(up)])


def _summed(ends: Floats, values: Floats, step: int) -> float:
    middle = (values[1 : step + 1] + values[:step]) / 2
    return float(ends[:step] @ middle[::-1])
