"""
The bound of `dual` in plain numbers, where pools and sizes are few.

A call of numpy costs as much as a loop over some fifty numbers: below that, loops are several times
faster. What is computed is the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final

import numpy as np

from ebbtide.core.planner.solver import dual
from ebbtide.core.planner.solver.cover import Cover, Floats, Incumbent
from ebbtide.core.planner.solver.dual import Bound, Side, close_in

MOST_POOLS: Final = 128
MOST_SIZES: Final = 24
"""Above these, tables are faster."""


def bound(cover: Cover, best: Incumbent, *, start: float | None = None) -> Bound | None:
    """Return the best bound and offer the plans on the way; None when no size can be met."""
    if len(cover.cost) > MOST_POOLS or len(cover.sizes) > MOST_SIZES:
        return dual.bound(cover, best, start=start)
    return _Climb(cover, best).run(start)


@dataclass(slots=True)
class _Filled:
    """Every size filled in one order: cost and rate of each."""

    order: list[int]
    cost: list[float]
    rate: list[float]


class _Climb:
    """From both ends towards the top of the bound."""

    def __init__(self, cover: Cover, best: Incumbent) -> None:
        self.cover = cover
        self.best = best
        self.cost, self.rate = cover.cost.tolist(), cover.rate.tolist()
        self.free = cover.columns[0].tolist()
        self.sizes, self.demand = cover.sizes.tolist(), cover.demand.tolist()
        self.scale = cover.scale.tolist()
        self.enough = (cover.demand - cover.slack).tolist()
        self.much = (cover.top + cover.slack).tolist()
        self.bounds = [-np.inf] * len(self.sizes)
        self.lowest = best.value
        self.found: tuple[list[int], int] | None = None
        """The best legal plan on the way."""
        self.on_demand: list[bool] = []
        self.missing = 0.0
        if cover.floor > 0:
            self.on_demand = cover.is_on_demand.tolist()
            self.missing = cover.floor - float(cover.least[cover.is_on_demand].sum())

    def run(self, start: float | None) -> Bound | None:
        usd, rate = self.cost, self.rate
        pools = range(len(usd))
        last = self._fill(sorted(pools, key=lambda pool: (-rate[pool], usd[pool])))
        possible = [
            have >= need and cost < np.inf
            for have, need, cost in zip(last.rate, self.enough, last.cost, strict=True)
        ]
        if not any(possible):
            return None
        self._offer(last)
        missing = [
            scale * (demand - have) if able else np.inf
            for scale, demand, have, able in zip(
                self.scale, self.demand, last.rate, possible, strict=True
            )
        ]
        high = self._line(last, missing.index(min(missing)))
        first = self._fill(sorted(pools, key=lambda pool: (usd[pool], -rate[pool])))
        self._offer(first)
        place = self._take(first, 0.0)
        low = self._line(first, place)
        price, sides = 0.0, None
        if low.missing > 0:
            price, place, sides = close_in(low, high, self._look, start=start)
        if self.found is not None:
            self.best.offer(self.cover, self._plan(*self.found))
        bounds = np.where(possible, self.bounds, np.inf)
        return Bound(price, bounds, place, sides)

    def _look(self, price: float) -> Side:
        """Fill every size at a price of rate; return the least as a line."""
        weights = [c - price * r for c, r in zip(self.cost, self.rate, strict=True)]
        filled = self._fill(sorted(range(len(weights)), key=weights.__getitem__))
        self._offer(filled)
        return self._line(filled, self._take(filled, price))

    def _line(self, filled: _Filled, place: int) -> Side:
        scale = self.scale[place]
        missing = scale * (self.demand[place] - filled.rate[place])
        return Side(filled.order, place, scale * filled.cost[place], missing)

    def _take(self, filled: _Filled, price: float) -> int:
        """Raise the bound of every size; return the place of the least one."""
        found = filled.cost
        if price:  # at 0 the demand may be infinite
            found = [
                cost + price * (demand - rate)
                for cost, demand, rate in zip(found, self.demand, filled.rate, strict=True)
            ]
        found = [scale * value for scale, value in zip(self.scale, found, strict=True)]
        self.bounds = list(map(max, self.bounds, found))
        return found.index(min(found))

    def _offer(self, filled: _Filled) -> None:
        for place, (cost, rate) in enumerate(zip(filled.cost, filled.rate, strict=True)):
            if self.enough[place] <= rate <= self.much[place]:
                value = self.scale[place] * cost
                if value < self.lowest:
                    self.lowest, self.found = value, (filled.order, place)

    # ------------------------------------------------------------------------- filling

    def _fill(self, order: list[int]) -> _Filled:
        """Fill every size in an order of pools; infinite cost where that cannot be."""
        cost, rate, free, sizes = self.cost, self.rate, self.free, self.sizes
        nodes, usd, speed = self.cover.start
        costs: list[float] = []
        rates: list[float] = []
        if self.missing > 0:
            free = free.copy()
            for pool, count in self._force(order):
                free[pool] -= count
                nodes += count
                usd += count * cost[pool]
                speed += count * rate[pool]
        self._give_up(costs, rates, sum(size < nodes for size in sizes))
        if len(costs) == len(sizes):
            return _Filled(order, costs, rates)
        size = sizes[len(costs)]
        for pool in order:
            count = free[pool]
            while nodes + count >= size:
                back = size - nodes
                costs.append(usd + back * cost[pool])
                rates.append(speed + back * rate[pool])
                if len(costs) == len(sizes):
                    return _Filled(order, costs, rates)
                size = sizes[len(costs)]
            nodes += count
            usd += count * cost[pool]
            speed += count * rate[pool]
        self._give_up(costs, rates, len(sizes) - len(costs))
        return _Filled(order, costs, rates)

    @staticmethod
    def _give_up(costs: list[float], rates: list[float], num: int) -> None:
        costs.extend(repeat(np.inf, num))
        rates.extend(repeat(-np.inf, num))

    def _force(self, order: Sequence[int]) -> list[tuple[int, float]]:
        """Return the first on-demand nodes in an order, up to the floor."""
        left, found = self.missing, []
        for pool in order:
            if self.on_demand[pool] and self.free[pool]:
                count = min(left, self.free[pool])
                found.append((pool, count))
                left -= count
                if left <= 0:
                    break
        return found

    def _plan(self, order: list[int], place: int) -> Floats:
        """Return the nodes of each pool when one size is filled in an order."""
        plan = self.cover.least.copy()
        left = self.sizes[place] - self.cover.start[0]
        if self.missing > 0:
            for pool, count in self._force(order):
                plan[pool] += count
                left -= count
        most = self.cover.most
        for pool in order:
            count = min(left, float(most[pool] - plan[pool]))
            plan[pool] += count
            left -= count
            if left <= 0:
                break
        return plan
