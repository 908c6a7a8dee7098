"""
Hazard by age: constant inside each of a fixed row of bins, and what follows from that.

With a constant hazard r in a bin, survival, mean remaining life and their inverses have closed
forms, and exposures and deaths by bin are all that a fit needs of the data.
"""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from ebbtide.core.models.forecast import Json
from ebbtide.core.models.table import Flags, Floats, Indices

_EARLY: Final = (0, 1 / 60, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2)
_LATE: Final = (26, 28, 32, 40, 48, 72, 96, 168, 336, 720, 1440, 2880, 8760)
EDGES: Final[Floats] = np.array([*_EARLY, *range(3, 26), *_LATE], dtype=np.float64)
"""
Where bins begin, in hours. Fine where nodes die early; hours up to a day, so that the hour of day
can be told; then about a third longer each. The last one has no end.
"""
WIDTHS: Final[Floats] = np.append(np.diff(EDGES), np.inf)
BINS: Final = len(EDGES)

LEAST_RATE: Final = 1e-7
"""Revocations per hour; one in a thousand years. No hazard is 0, so every life has an end."""
MOST_RATE: Final = 3600.0
"""Revocations per hour: a node that lasts a second."""


def exposure(hours: Floats) -> Floats:
    """Return the time that each life spent in each bin, shape (lives, BINS), in hours."""
    spent: Floats = np.clip(hours[:, None] - EDGES, 0.0, WIDTHS)
    return spent


def bin_of(hours: Floats) -> Indices:
    """Return the bin in which a life ended; at an edge it is the bin before."""
    found: Indices = np.maximum(np.searchsorted(EDGES, hours, side="left") - 1, 0)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What was seen by group and bin, shape (groups, BINS)."""

    deaths: Floats
    nodes: Floats
    """How many could have died: each that reached the bin, or as much of it as was seen of it."""
    hours: Floats
    """How long they were at risk."""

    @classmethod
    def of(cls, hours: Floats, revoked: Flags, group: Indices, *, groups: int) -> Self:
        """Count lives by group."""
        spent = exposure(hours)
        deaths, nodes, at_risk = (np.zeros((groups, BINS)) for _ in range(3))
        np.add.at(deaths, (group[revoked], bin_of(hours[revoked])), 1.0)
        part = spent / WIDTHS
        part[revoked, bin_of(hours[revoked])] = 1.0
        np.add.at(nodes, group, part)
        np.add.at(at_risk, group, spent)
        return cls(deaths=deaths, nodes=nodes, hours=at_risk)

    def merge(self, group: Indices, *, groups: int) -> "Counts":
        """Add up the rows that share a group."""

        def added(values: Floats) -> Floats:
            sums = np.zeros((groups, BINS))
            np.add.at(sums, group, values)
            return sums

        return Counts(deaths=added(self.deaths), nodes=added(self.nodes), hours=added(self.hours))


def mean_in_bin(rate: Floats, hours: Floats) -> Floats:
    """Return the expected time until death or the end of an interval, whichever is first."""
    found: Floats = -np.expm1(-rate * hours) / rate
    return found


def blend(rates: Floats, weights: Floats) -> Floats:
    """
    Return the hazards of an average of survivals; shape (ways, groups, BINS) without its first.

    With age the weight moves to the ways that foretold long lives, as it must: the others have
    said that hardly a node is left.
    """
    if len(rates) == 1:
        only: Floats = rates[0]
        return only
    steps = rates[:, :, :-1] * WIDTHS[:-1]
    sums = np.concatenate([np.zeros((*rates.shape[:2], 1)), np.cumsum(steps, axis=2)], axis=2)
    with np.errstate(divide="ignore"):  # a way without weight
        logs = np.log(weights)[:, None, None] - sums
    top = logs.max(axis=0)
    share = np.exp(logs - top)
    total = share.sum(axis=0)
    found = (share * rates).sum(axis=0) / total
    found[:, :-1] = -np.diff(np.log(total) + top, axis=1) / WIDTHS[:-1]
    clipped: Floats = np.clip(found, LEAST_RATE, MOST_RATE)
    return clipped


def rounded(values: Floats) -> Floats:
    """
    Return positive numbers with six digits.

    More say nothing of a fleet, and the last ones differ between versions of a library.
    """
    unit = 10.0 ** (5 - np.floor(np.log10(values)))
    found: Floats = np.round(values * unit) / unit
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """
    Hazards by group and age, in 1/h, shape (groups, BINS), and what follows from them.

    The arrays of a question have one value for each row: `group` says whose hazards, `age` how old
    the node is, `ahead` how many hours from then.
    """

    rates: Floats
    walls: Floats
    """The age that no node of a group outlives, in hours; infinite where there is none."""

    def cumulative(self) -> Floats:
        """Return the hazard summed up to the beginning of each bin."""
        steps = self.rates[:, :-1] * WIDTHS[:-1]
        return np.concatenate([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)], axis=1)

    def hazard_until(self, group: Indices, hours: Floats) -> Floats:
        """Return the hazard summed up to an age; no wall counts."""
        return self._until(self.cumulative(), group, hours)

    def survival(self, group: Indices, age: Floats, ahead: Floats) -> Floats:
        """Return the chance of living on for so long, from an age on; 0 from the wall on."""
        sums = self.cumulative()
        end = age + ahead
        left = self._until(sums, group, end) - self._until(sums, group, age)
        return np.where(end >= self.walls[group], 0.0, np.exp(-left))

    def _until(self, sums: Floats, group: Indices, hours: Floats) -> Floats:
        place = np.searchsorted(EDGES, hours, side="right") - 1
        found: Floats = sums[group, place] + self.rates[group, place] * (hours - EDGES[place])
        return found

    def mean_left(self, group: Indices, age: Floats) -> Floats:
        """
        Return the expected remaining life at an age, in hours; 0 from the wall on.

        From the last bin backwards, m = mean_in_bin + exp(-rate x width) x m of the next bin: no
        difference of large numbers, so it holds where hardly a node lives.
        """
        place = np.searchsorted(EDGES, age, side="right") - 1
        until = np.minimum(np.append(EDGES[1:], np.inf)[place], self.walls[group])
        rest = np.maximum(until - age, 0.0)
        rate = self.rates[group, place]
        later = np.append(self._means(), np.zeros((len(self.rates), 1)), axis=1)
        found: Floats = mean_in_bin(rate, rest) + np.exp(-rate * rest) * later[group, place + 1]
        return found

    def _means(self) -> Floats:
        widths = np.clip(self.walls[:, None] - EDGES, 0.0, WIDTHS)
        means = np.zeros_like(self.rates)
        after = np.zeros(len(self.rates))
        for place in range(BINS - 1, -1, -1):
            rate, width = self.rates[:, place], widths[:, place]
            means[:, place] = after = mean_in_bin(rate, width) + np.exp(-rate * width) * after
        return means

    def mean_within(self, group: Indices, age: Floats, ahead: Floats) -> Floats:
        """Return the expected remaining life, of which no more than `ahead` counts."""
        whole = self.mean_left(group, age)
        bounded = np.isfinite(ahead)
        ends = np.where(bounded, ahead, 0.0)
        beyond = self.survival(group, age, ends) * self.mean_left(group, age + ends)
        return np.where(bounded, np.clip(whole - beyond, 0.0, ends), whole)

    def quantile(self, group: Indices, age: Floats, share: Floats | float) -> Floats:
        """Return after how many hours from an age on a share of the nodes is gone."""
        sums = self.cumulative()
        target = self._until(sums, group, age) - np.log1p(-np.asarray(share))
        place = (sums[group] <= target[:, None]).sum(axis=1) - 1
        end = EDGES[place] + (target - sums[group, place]) / self.rates[group, place]
        left: Floats = np.maximum(np.minimum(end, self.walls[group]) - age, 0.0)
        return left

    def to_json(self) -> Json:
        """Return plain JSON."""
        walls = [wall if np.isfinite(wall) else None for wall in self.walls.tolist()]
        return {"rates_per_hour": self.rates.tolist(), "walls_h": walls}

    @classmethod
    def from_json(cls, stored: Json) -> Self:
        """Read what `to_json` wrote."""
        walls = [np.inf if wall is None else wall for wall in stored["walls_h"]]
        return cls(
            rates=np.array(stored["rates_per_hour"], dtype=np.float64).reshape(-1, BINS),
            walls=np.array(walls, dtype=np.float64),
        )
