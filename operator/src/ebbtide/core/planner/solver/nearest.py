"""
The nearest states one by one, each closed at once: loops, where tables would be short.

States come in the order of their distance, so a better plan makes the room smaller before anything
beyond it is looked at. Each has up to three successors: one more node of its last pool, the first
of the next pool, and that in place of the only one of its last pool. With a floor that costs, one
more node on demand than it asks for is a step like any other, as far as its price.
"""

import math
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from ebbtide.core.planner.solver.cover import Cover, Incumbent
from ebbtide.core.planner.solver.prices import Prices
from ebbtide.core.planner.solver.states import choose_roles

State: TypeAlias = "tuple[float, int, int, int, float, float, float, float, State | None]"
"""Distance, number, last step and how often, nodes, rate, cost, on-demand nodes, state before."""

TIMES: Final = 3
"""So often is the limit of states lifted where only few are waiting."""
BEYOND: Final = -1
"""In place of a pool: one node on demand beyond the floor."""

ROUNDING: Final = 1e-12
"""Relative: how far two sums of the same numbers may be apart."""


class _Step(NamedTuple):
    """What one changed node of a pool adds to a state."""

    distance: float
    nodes: float
    rate: float
    cost: float
    on_demand: float
    pool: int


class Nearest:
    """The states of one size, around what its prices choose."""

    def __init__(self, cover: Cover, prices: Prices, best: Incumbent) -> None:
        self.cover = cover
        self.best = best
        self.distance = np.abs(prices.reduced)
        self.sign = np.where(prices.reduced < 0, -1.0, 1.0)
        self.start = np.where(prices.reduced < 0, cover.most, cover.least)
        self._set_last(prices)
        self._set_steps(prices)
        self.value = best.value
        self.found: tuple[State, tuple[float, float, float]] | None = None

    def _set_last(self, prices: Prices) -> None:
        """Leave two pools to the end, and one that the floor decides."""
        cover = self.cover
        roles = choose_roles(cover, prices, 0.0)
        first, second = roles.pair
        if cover.rate[first] < cover.rate[second]:
            first, second = second, first
        self.pair, self.by_floor = (first, second), roles.by_floor
        self.last = [first, second, *([] if roles.by_floor is None else [roles.by_floor])]
        self.start[self.last] = 0.0
        self.rates, self.costs, self.least, self.most, self.markets = (
            column[self.last].tolist()
            for column in (cover.rate, cover.cost, cover.least, cover.most, cover.is_on_demand)
        )
        if first == second:
            self.least[1] = self.most[1] = 0.0
        self.step, self.floor = self.rates[0] - self.rates[1], cover.floor
        self.scale, self.size = float(cover.scale[0]), float(cover.sizes[0])
        self.enough = float(cover.demand[0] - cover.slack[0])
        self.much = float(cover.top[0] + cover.slack[0])

    def _set_steps(self, prices: Prices) -> None:
        """List what a state can be changed by, the nearest first."""
        cover = self.cover
        spread = cover.most - cover.least
        spread[self.last] = 0.0
        pools = np.flatnonzero(spread)
        pools = pools[self.distance[pools].argsort(kind="stable")]
        table = np.array(
            [np.ones(len(pools)), cover.rate[pools], cover.cost[pools], cover.is_on_demand[pools]]
        )
        columns = [self.distance[pools], *(self.sign[pools] * table)]
        rows = zip(*(column.tolist() for column in columns), pools.tolist(), strict=True)
        steps = [_Step(*row) for row in rows]
        spreads = spread[pools].tolist()
        if self.by_floor is not None:
            place = int(np.searchsorted(columns[0], prices.on_demand))
            steps.insert(place, _Step(prices.on_demand, 0.0, 0.0, 0.0, -1.0, BEYOND))
            spreads.insert(place, math.inf)
        self.steps, self.spreads = steps, spreads

    def search(self, room: Callable[[float], float], *, most: int) -> bool:
        """
        Close the states within the room, as it shrinks; tell whether those were all.

        The room is asked for by the value of the best plan, which is offered in the end.
        """
        is_done = self._search(room, most)
        if self.found is None:
            return is_done
        self._offer(*self.found)
        # Rounding might have made it look better than it is.
        return is_done and self.best.value <= self.value + abs(self.value) * ROUNDING

    def _search(self, room: Callable[[float], float], most: int) -> bool:
        steps, spreads, num = self.steps, self.spreads, len(self.steps)
        value, left, pushed = self.value, room(self.value), 0
        heap = [self._begin()]
        for turn in range(TIMES * most):
            # Only a few that wait within the room: the end is near.
            if turn and turn % most == 0 and sum(state[0] < left for state in heap) > most // 2:
                return False
            state = heappop(heap)
            self._close(state)
            if self.value < value:
                value, left = self.value, room(self.value)
            _, _, last, times, _, _, _, _, before = state
            changes = []
            if last + 1 < num:
                changes.append((state, last + 1, 1))
                if times == 1 and before is not None:
                    changes.append((before, last + 1, 1))
            if times and times < spreads[last]:
                changes.append((state, last, times + 1))
            for origin, place, often in changes:
                far, more, faster, dearer, market, _ = steps[place]
                distance, _, _, _, nodes, rate, cost, on_demand, _ = origin
                if distance + far < left:
                    pushed += 1
                    sums = nodes + more, rate + faster, cost + dearer, on_demand + market
                    heappush(heap, (distance + far, pushed, place, often, *sums, origin))
            if not heap or heap[0][0] >= left:
                return True
        return False

    def _begin(self) -> State:
        cover, start = self.cover, self.start
        on_demand = float(start[cover.is_on_demand].sum())
        sums = float(start.sum()), float(cover.rate @ start), float(cover.cost @ start), on_demand
        return (0.0, 0, -1, 0, *sums, None)

    def _close(self, state: State) -> None:
        """Take the best plan that a state can be completed to, if it is better."""
        _, _, _, _, nodes, rate, cost, on_demand, _ = state
        left, by_floor = self.size - nodes, 0.0
        if self.by_floor is not None:
            missing = self.floor - on_demand
            by_floor = missing if self.markets[2] else left - missing
            if not self.least[2] <= by_floor <= self.most[2]:
                return
            left -= by_floor
            rate += by_floor * self.rates[2]
            cost += by_floor * self.costs[2]
            on_demand += by_floor * self.markets[2]
        # As in `pair`: the least and the most nodes of the first of the two.
        low = max(self.least[0], left - self.most[1])
        high = min(self.most[0], left - self.least[1])
        rate += self.rates[1] * left
        if self.step > 0:
            low = max(low, math.ceil((self.enough - rate) / self.step))
            if self.much < math.inf:
                high = min(high, math.floor((self.much - rate) / self.step))
        elif not self.enough <= rate <= self.much:
            return
        if on_demand < self.floor:
            low, high = self._meet_floor(self.floor - on_demand, left, (low, high))
        if low > high:
            return
        amount = low if self.costs[0] >= self.costs[1] else high
        cost += self.costs[0] * amount + self.costs[1] * (left - amount)
        if self.scale * cost < self.value:
            self.value = self.scale * cost
            self.found = state, (amount, left - amount, by_floor)

    def _meet_floor(
        self, missing: float, left: float, limits: tuple[float, float]
    ) -> tuple[float, float]:
        low, high = limits
        first, second, *_ = self.markets
        if first == second:
            return limits if missing <= left * first else (math.inf, high)
        return (max(low, missing), high) if first else (low, min(high, left - missing))

    def _offer(self, state: State, amounts: tuple[float, float, float]) -> None:
        plan = self.start.copy()
        while state[-1] is not None:
            pool = self.steps[state[2]].pool
            if pool != BEYOND:
                plan[pool] += self.sign[pool]
            state = state[-1]
        for pool, amount in zip(self.last, amounts, strict=False):
            plan[pool] += amount
        self.best.offer(self.cover, plan)
