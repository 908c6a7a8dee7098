"""
The bound: one price for rate, everything else is exact greedy.

At a price p of rate a node of pool i weighs w_i = cost_i - p rate_i. The n lightest nodes (after
those that any plan has) give h_n(p) = p demand_n + V_n(p) <= the least cost at size n. The
least of scale_n h_n(p) over the sizes is concave in p and made of lines; two lines that bracket
its top are crossed until the crossing lies on it. Each evaluation is one sort, bounds every size,
and is a legal plan wherever its rate suffices.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from ebbtide.core.planner.solver.cover import Cover, Floats, Incumbent, Places

EVALUATIONS: Final = 100
FLAT: Final = 1e-12
"""Relative: a crossing so little above the function is on it."""


@dataclass(frozen=True, slots=True)
class Filling:
    """Nodes in one order: first what any plan has, then whatever comes."""

    order: Places
    forced: Floats
    """Of each pool, in the order of pools: what any plan has, and what the floor adds to it."""
    ends: Floats
    """Free nodes up to each pool of the order, itself included."""
    cost: Floats
    """Of each size."""
    rate: Floats

    def plan(self, cover: Cover, place: int) -> Floats:
        """Return the nodes of each pool at one size."""
        plan = self.forced.copy()
        filled = np.minimum(self.ends, cover.sizes[place] - self.forced.sum())
        plan[self.order] += np.diff(filled, prepend=0.0)
        return plan


@dataclass(frozen=True, slots=True)
class Bound:
    """The best price of rate, and what it proves of each size."""

    price: float
    bounds: Floats
    """On scale times cost; infinite where the size is not possible."""
    place: int
    """The size with the least bound at that price."""
    sides: tuple["Side", "Side"] | None = None
    """Two plans that are equally good at that price: one of too little rate, one of enough."""

    def mix(self, cover: Cover) -> Floats | None:
        """Return the mixture of the two plans that just meets the demand."""
        if self.sides is None:
            return None
        low, high = self.sides
        if low.place != high.place or low.missing <= high.missing:
            return None
        share = low.missing / (low.missing - high.missing)
        first, second = low.plan(cover), high.plan(cover)
        mixed: Floats = first + share * (second - first)
        return mixed


@dataclass(frozen=True, slots=True)
class Side:
    """A plan as a line: what it comes to at each price of rate."""

    order: Places | list[int]
    place: int
    cost: float
    missing: float

    def plan(self, cover: Cover) -> Floats:
        """Return the nodes of each pool."""
        return fill(cover, np.asarray(self.order)).plan(cover, self.place)

    def at(self, price: float) -> float:
        """Return the value of the line."""
        return self.cost + price * self.missing


def fill(cover: Cover, order: Places) -> Filling:
    """Fill every size in an order of pools."""
    if cover.floor > 0:
        forced, free = force(cover, order)
        sums = np.array([free, free * cover.cost[order], free * cover.rate[order]]).cumsum(axis=1)
        nodes = float(forced.sum())
        cost, rate = float(cover.cost @ forced), float(cover.rate @ forced)
    else:
        forced = cover.least
        sums = cover.columns[:, order].cumsum(axis=1)
        nodes, cost, rate = cover.start
    ends = sums[0]
    left = cover.sizes - nodes
    at = np.minimum(ends.searchsorted(left), len(ends) - 1)
    back = left - ends[at]
    pools = order[at]
    return Filling(
        order,
        forced,
        ends,
        cost + sums[1, at] + back * cover.cost[pools],
        rate + sums[2, at] + back * cover.rate[pools],
    )


def fill_ends(cover: Cover) -> tuple[Filling, Filling]:
    """
    Fill every size with the cheapest nodes, and with the fastest.

    Ties by rate and by cost, or the bounds that start from these stay far off.
    """
    cheapest = fill(cover, np.lexsort((-cover.rate, cover.cost)))
    return cheapest, fill(cover, np.lexsort((cover.cost, -cover.rate)))


def force(cover: Cover, order: Places) -> tuple[Floats, Floats]:
    """Return what any plan has with the first on-demand nodes up to the floor; what is left."""
    forced = cover.least.copy()
    free = (cover.most - cover.least)[order]
    missing = cover.floor - forced[cover.is_on_demand].sum() if cover.floor > 0 else 0.0
    if missing > 0:
        room = np.where(cover.is_on_demand[order], free, 0.0)
        taken = np.clip(missing - (np.cumsum(room) - room), 0, room)
        forced[order] += taken
        free = free - taken
    return forced, free


def bound(cover: Cover, best: Incumbent, *, start: float | None = None) -> Bound | None:
    """Return the best bound and offer the plans on the way; None when no size can be met."""
    return _Climb(cover, best).run(start)


def close_in(
    low: Side, high: Side, look: Callable[[float], Side], *, start: float | None
) -> tuple[float, int, tuple[Side, Side]]:
    """
    Cross two lines until their crossing is the top; return its price, its size and the two.

    Args:
        low: a plan of too little rate.
        high: a plan of enough.
        look: gives the least line at a price of rate.
        start: a price to look at first.

    """
    price, place = 0.0, low.place
    for _ in range(EVALUATIONS):
        if low.missing <= high.missing:
            break
        crossing = (high.cost - low.cost) / (low.missing - high.missing)
        price, start = (crossing, None) if start is None else (start, None)
        line = look(price)
        place = line.place
        if price == crossing and line.at(price) >= flatten(low.at(price)):
            break
        if line.missing > 0:
            low = line
        else:
            high = line
    return price, place, (low, high)


class _Climb:
    """From both ends towards the top of the bound."""

    def __init__(self, cover: Cover, best: Incumbent) -> None:
        self.cover = cover
        self.best = best
        self.bounds = np.full(len(cover.sizes), -np.inf)
        self.lowest = best.value
        self.found: tuple[Filling, int] | None = None
        """The best legal plan on the way."""

    def run(self, start: float | None) -> Bound | None:
        cover = self.cover
        first, last = fill_ends(cover)
        possible = last.rate >= cover.demand - cover.slack
        if not possible.any():
            return None
        self._offer(last)
        missing = np.where(possible, cover.scale * (cover.demand - last.rate), np.inf)
        high = self._line(last, int(missing.argmin()))
        self._offer(first)
        place = self._take(first, 0.0)
        low = self._line(first, place)
        price, sides = 0.0, None
        if low.missing > 0:
            price, place, sides = close_in(low, high, self._look, start=start)
        if self.found is not None:
            self.best.offer(cover, self.found[0].plan(cover, self.found[1]))
        return Bound(price, np.where(possible, self.bounds, np.inf), place, sides)

    def _look(self, price: float) -> Side:
        """Fill every size at a price of rate; return the least as a line."""
        cover = self.cover
        filling = fill(cover, (cover.cost - price * cover.rate).argsort(kind="stable"))
        self._offer(filling)
        return self._line(filling, self._take(filling, price))

    def _line(self, filling: Filling, place: int) -> Side:
        scale = float(self.cover.scale[place])
        missing = scale * float(self.cover.demand[place] - filling.rate[place])
        return Side(filling.order, place, scale * float(filling.cost[place]), missing)

    def _take(self, filling: Filling, price: float) -> int:
        """Raise the bound of every size; return the place of the least one."""
        cover = self.cover
        found = filling.cost
        if price:  # at 0 the demand may be infinite
            found = found + price * (cover.demand - filling.rate)
        found = cover.scale * found
        np.maximum(self.bounds, found, out=self.bounds)
        return int(found.argmin())

    def _offer(self, filling: Filling) -> None:
        cover = self.cover
        legal = (filling.rate >= cover.demand - cover.slack) & (
            filling.rate <= cover.top + cover.slack
        )
        values = np.where(legal, cover.scale * filling.cost, np.inf)
        place = int(values.argmin())
        if values[place] < self.lowest:
            self.lowest, self.found = float(values[place]), (filling, place)


def flatten(value: float) -> float:
    """Return what a crossing must lie above to be above the function."""
    return value - FLAT * abs(value)
