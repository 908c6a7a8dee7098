"""From the bound to the proof: list what could be better, size by size where it is too much."""

import heapq
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import numpy as np

from ebbtide.core.planner.solver.climb import bound
from ebbtide.core.planner.solver.cover import CLOSED, Cover, Floats, Incumbent
from ebbtide.core.planner.solver.dual import Bound, fill, fill_ends
from ebbtide.core.planner.solver.halves import Halves
from ebbtide.core.planner.solver.nearest import Nearest
from ebbtide.core.planner.solver.own import bound_each
from ebbtide.core.planner.solver.pair import close
from ebbtide.core.planner.solver.prices import Prices, find_prices
from ebbtide.core.planner.solver.states import Lister, States

FIRST: Final = 10.0
"""Logarithm of how many states one list has; more, and it is dealt to two."""
HALVES: Final = (8.0, 10.0, 12.0)
"""Logarithms of how many states each half has, in turn."""
DOUBT: Final = 1e-7
"""Relative: a bound of the fall-back is taken at its word only so far."""
FEW: Final = 2
"""Sizes that are bounded only when it is their turn; of many, that are looked at first."""
MANY: Final = 8
NEAR: Final = 100
"""States that are looked at one by one before any are listed."""
STATES: Final = 50_000
"""So many at most are kept at a time."""


class FallBack(Protocol):
    """Another solver, for one size, where the list would be too long."""

    def __call__(self, cover: Cover, *, seconds: float) -> "Other":
        """Return what it found; a plan is only believed after a check."""


@dataclass(frozen=True, slots=True)
class Other:
    """What another solver says."""

    plan: Floats | None
    bound: float
    """No plan is below it; -inf where it proved nothing, inf where it proved that there is none."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much work may go into one question."""

    cuts: int = 200
    """How often a problem of one size is cut before the fall-back is asked."""
    seconds: float = 2.0
    """What the fall-back may take the first time; half as long each time after that."""


@dataclass(slots=True)
class Found:
    """What a search came to: the plan, if any, and what is proven of all others."""

    best: Incumbent
    bound: float
    proven: bool
    is_possible: bool = True
    """Whether rates and sizes alone allow any plan."""
    used_fall_back: bool = False
    price: float = 0.0


def search(
    cover: Cover,
    *,
    fall_back: FallBack,
    limits: Limits,
    beat: float = np.inf,
    start: tuple[Floats | None, float | None] = (None, None),
) -> Found:
    """Return the best plan below `beat`; `start` is a plan and a price of rate to begin with."""
    cover = _orient(cover)
    best = Incumbent(beat)
    if start[0] is not None:
        best.offer(cover, start[0])
    kept = cover.most > 0
    if kept.all():
        return _search_all(cover, best, fall_back=fall_back, limits=limits, price=start[1])
    # A plan to start with may use what no best plan needs: its value is still to be beaten.
    small = Incumbent(best.value)
    found = _search_all(cover.of(kept), small, fall_back=fall_back, limits=limits, price=start[1])
    if small.plan is not None:
        plan = np.zeros(len(kept))
        plan[kept] = small.plan
        best.value, best.plan = small.value, plan
    found.best = best
    return found


def _search_all(
    cover: Cover,
    best: Incumbent,
    *,
    fall_back: FallBack,
    limits: Limits,
    price: float | None,
) -> Found:
    root = bound(cover, best, start=price) if len(cover.sizes) else None
    if root is None:
        return Found(best, np.inf, proven=True, is_possible=False)
    found = Found(best, float(root.bounds.min()), proven=True, price=root.price)
    _Search(cover, found, fall_back, limits).run(root)
    return found


@dataclass
class _Search:
    cover: Cover
    found: Found
    fall_back: FallBack
    limits: Limits
    heap: list[tuple[float, int, Cover, Bound | None, bool]] = field(default_factory=list)
    open_bound: float = np.inf
    """The least bound of what was left unproven."""
    pushed: int = 0
    cuts: int = 0

    def run(self, root: Bound) -> None:
        if len(self.cover.sizes) == 1:
            self._push(float(root.bounds[0]), self.cover, root)
        else:
            self._push_sizes(root)
        while self.heap:
            lowest, _, part, known, is_looked_at = heapq.heappop(self.heap)
            if lowest >= self._goal():
                break
            if self.cuts > self.limits.cuts:
                self._push(lowest, part, known)
                self._ask_fall_back()
                break
            self._settle(part, known, is_looked_at=is_looked_at)
        found = self.found
        if self.open_bound < self._goal():
            found.proven = False
            found.bound = max(found.bound, self.open_bound)
        else:
            found.bound = found.best.value

    def _push_sizes(self, root: Bound) -> None:
        """Push sizes one by one; a good plan of the most promising leaves few of the others."""
        bounds = root.bounds.copy()
        self._look_at(self.cover.at([root.place]), None)
        bounds[root.place] = np.inf
        alive = np.flatnonzero(bounds < self._goal())
        if len(alive) <= FEW:
            for place in alive.tolist():
                self._push(float(bounds[place]), self.cover.at([place]), None)
            return
        # The price of the root is far off for most: each has its own.
        part = self.cover.at(alive)
        own = bound_each(part, *fill_ends(part))
        prices = np.where(own.bounds > bounds[alive], own.prices, root.price)
        lowest = np.maximum(own.bounds, bounds[alive])
        for turn, place in enumerate(lowest.argsort(kind="stable").tolist()):
            known = Bound(float(prices[place]), lowest[place : place + 1], 0)
            single = part.at([place])
            if turn < FEW < len(alive) - MANY:
                self._look_at(single, known)
            else:
                self._push(float(lowest[place]), single, known)

    def _look_at(self, part: Cover, known: Bound | None) -> None:
        """Look for a good plan of one size; push it where there may be better ones beyond."""
        dual = known or bound(part, self.found.best, start=self.found.price or None)
        if dual is None or float(dual.bounds[0]) >= self._goal():
            return
        prices = find_prices(part, dual)
        if not self._look_near(part, prices, _far(part, prices)):
            self._push(float(dual.bounds[0]), part, dual, is_looked_at=True)

    def _goal(self) -> float:
        """Plans at or above it are no better; costs in whole quanta leave gaps below the best."""
        best = self.found.best
        return self._goal_for(best.value, has_plan=best.plan is not None)

    def _goal_for(self, value: float, *, has_plan: bool) -> float:
        goal = value - CLOSED * abs(value) if np.isfinite(value) else value
        quantum = self.cover.quantum
        return min(goal, value - 0.999 * quantum) if quantum and has_plan else goal

    def _push(
        self, lowest: float, part: Cover, known: Bound | None, *, is_looked_at: bool = False
    ) -> None:
        heapq.heappush(self.heap, (lowest, self.pushed, part, known, is_looked_at))
        self.pushed += 1

    def _settle(self, part: Cover, known: Bound | None, *, is_looked_at: bool) -> None:
        """Search a part to the end, or cut it in two."""
        best = self.found.best
        dual = known or bound(part, best, start=self.found.price or None)
        if dual is None:
            return
        lowest = float(dual.bounds[0])
        if lowest >= self._goal() or self._list(part, dual, is_looked_at=is_looked_at):
            return
        self.cuts += 1
        if dual.sides is None:
            dual = bound(part, best, start=dual.price or None) or dual
        halves = _halve(part, dual)
        for half in halves:
            self._push(lowest, half, None)
        if not halves:
            self._push(lowest, part, dual)
            self.cuts = self.limits.cuts + 1

    def _list(self, part: Cover, dual: Bound, *, is_looked_at: bool) -> bool:
        """List all states that could be better; tell whether that was all of them."""
        prices = find_prices(part, dual)
        far = _far(part, prices)
        if not is_looked_at and self._look_near(part, prices, far):
            return True
        room = min(self._room(part, prices), far)
        if room <= 0:
            return True
        lister = Lister(part, prices, room)
        pools = lister.near(room)
        if lister.reach(pools, room=room, log_states=FIRST) >= room:
            states = lister.list_within(room, most=STATES)
            if states is not None:
                self._close(part, prices, lister, states)
                return True
        return self._list_halves(lister, far)

    def _list_halves(self, lister: Lister, far: float) -> bool:
        """List the states of each half of the pools, farther and farther."""
        part, prices = lister.cover, lister.prices
        for turn, log_states in enumerate(HALVES):
            room = min(self._room(part, prices), far)
            if room <= 0:
                return True
            halves = Halves(Lister(part, prices, room) if turn else lister, room)
            reach = halves.reach(log_states)
            if reach <= 0:
                self._close(part, prices, halves.lister, halves.lister.list_some(room))
                return False

            def look(states: States | None, halves: Halves = halves) -> Floats:
                if states is not None:
                    self._close(part, prices, halves.lister, states)
                return np.minimum(prices.rooms(part, self._goal()), far)

            if not halves.search(reach, look):
                return False
            if reach >= min(self._room(part, prices), far):
                return True
        return False

    def _room(self, part: Cover, prices: Prices) -> float:
        return float(prices.rooms(part, self._goal()).max())

    def _look_near(self, part: Cover, prices: Prices, far: float) -> bool:
        """Find a good plan next to what the prices choose; tell whether it is the best."""
        nearest = Nearest(part, prices, self.found.best)
        base, scale = float(prices.bases[0]), float(part.scale[0])
        has_plan = self.found.best.plan is not None
        first = self.found.best.value

        def room(value: float) -> float:
            goal = self._goal_for(value, has_plan=has_plan or value < first)
            return min(goal / scale - base, far)

        return nearest.search(room, most=NEAR)

    def _close(self, part: Cover, prices: Prices, lister: Lister, states: States) -> None:
        rooms = prices.rooms(part, self._goal())
        close(
            part,
            states,
            rooms,
            pair=lister.roles.pair,
            price=prices.rate,
            best=self.found.best,
        )

    def _ask_fall_back(self) -> None:
        """Ask for each size that is left, without the cuts; what it does not prove stays open."""
        found = self.found
        found.used_fall_back = True
        left: dict[float, float] = {}
        for lowest, _, part, *_ in self.heap:
            for size in part.sizes.tolist():
                left[size] = min(lowest, left.get(size, np.inf))
        for size, lowest in left.items():
            single = self.cover.at(self.cover.sizes == size)
            other = self.fall_back(single, seconds=self.limits.seconds / len(left))
            if other.plan is not None:
                found.best.offer(single, other.plan)
            # Solvers of floats are exact only so far.
            proven = other.bound * (1 - np.sign(other.bound) * DOUBT)
            if proven < found.best.value - 3 * DOUBT * abs(found.best.value):
                self.open_bound = min(self.open_bound, max(proven, lowest))


def _halve(part: Cover, dual: Bound) -> list[Cover]:
    """Cut at the pool whose nodes the bound splits, and weigh most, in two ranges."""
    mixed = dual.mix(part)
    if mixed is None:
        return []
    share = mixed - np.floor(mixed)
    weight = np.minimum(share, 1 - share) * np.abs(part.rate)
    pool = int(np.argmax(weight))
    if weight[pool] <= 1e-9 * np.abs(part.rate).max():
        return []
    most, least = part.most.copy(), part.least.copy()
    most[pool] = np.floor(mixed[pool])
    least[pool] = most[pool] + 1
    return [replace(part, most=most), replace(part, least=least)]


def _far(cover: Cover, prices: Prices) -> float:
    """Return a distance, surplus included, beyond which there are no plans at all."""
    reduced = float((np.abs(prices.reduced) + prices.on_demand) @ cover.most)
    surplus = 0.0
    if prices.rate > 0:
        rates = np.abs(cover.rate) @ cover.most + np.abs(cover.demand).max()
        surplus = prices.rate * float(rates)
    return 1.0 + 2 * (reduced + surplus)


def _orient(cover: Cover) -> Cover:
    """Turn the problem round where the cheapest plan has too much rate, not too little."""
    if np.isinf(cover.top).all() or not len(cover.sizes):
        return cover
    filling = fill(cover, np.lexsort((-cover.rate, cover.cost)))
    place = int(np.argmin(cover.scale * filling.cost))
    return cover.mirrored() if filling.rate[place] > cover.top[place] else cover
