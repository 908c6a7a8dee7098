"""From the bound to the proof: list what could be better, size by size where it is too much."""

import heapq
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import numpy as np

from ebbtide.core.planner.solver.climb import find_bound
from ebbtide.core.planner.solver.cover import Cover, Floats, Incumbent
from ebbtide.core.planner.solver.halves import Halves
from ebbtide.core.planner.solver.pair import close
from ebbtide.core.planner.solver.prices import Prices, find_prices
from ebbtide.core.planner.solver.sizes import Settled, are_lists_met, settle_cover
from ebbtide.core.planner.solver.states import Lister, States
from ebbtide.core.planner.solver.table import fill_sizes, goal_of

FIRST: Final = 10.0
"""Logarithm of how many states one list has; more, and it is dealt to two."""
HALVES: Final = (8.0, 10.0, 12.0)
"""Logarithms of how many states each half has, in turn."""
DOUBT: Final = 1e-7
"""Relative: a bound of the fall-back is taken at its word only so far."""
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
    states: float = 1.0
    """Share of the usual number of states that are looked at one by one before any are listed."""
    seconds: float = 2.0
    """What the fall-back may take the first time; half as long each time after that."""


@dataclass(slots=True)
class Found:
    """What a search came to: the plan, if any, and what is proven of all others."""

    best: Incumbent
    bound: float
    proven: bool
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
    found = Found(Incumbent(beat), np.inf, proven=True)
    if not len(cover.sizes):
        return found
    if start[0] is not None:
        found.best.offer(cover, start[0])
    _Search(cover, found, fall_back, limits).run(start[1])
    return found


@dataclass
class _Search:
    cover: Cover
    found: Found
    fall_back: FallBack
    limits: Limits
    heap: list[tuple[float, int, Cover]] = field(default_factory=list)
    open_bound: float = np.inf
    """The least bound of what was left unproven."""
    pushed: int = 0
    cuts: int = 0

    def run(self, start: float | None) -> None:
        found = self.found
        root = self._settle(self.cover, start)
        found.bound, found.price = root.bound, root.price
        while self.heap:
            lowest, _, part = heapq.heappop(self.heap)
            if lowest >= self._goal():
                break
            if self.cuts > self.limits.cuts:
                self._push(lowest, part)
                self._ask_fall_back()
                break
            self._look_at(part)
        if self.open_bound < self._goal():
            found.proven = False
            found.bound = max(found.bound, self.open_bound)
        else:
            found.bound = found.best.value

    def _settle(self, part: Cover, start: float | None) -> Settled:
        """Look at the states of a part one by one; push the sizes that have too many."""
        settled = settle_cover(part, self.found.best, start=start, share=self.limits.states)
        for place, lowest in settled.left:
            self._push(lowest, part.at([place]))
        return settled

    def _goal(self) -> float:
        """Return what a better plan is below."""
        best = self.found.best
        return goal_of(best.value, self.cover.quantum if best.plan is not None else 0.0)

    def _push(self, lowest: float, part: Cover) -> None:
        heapq.heappush(self.heap, (lowest, self.pushed, part))
        self.pushed += 1

    def _look_at(self, part: Cover) -> None:
        """Search a part to the end, or cut it in two."""
        dual = find_bound(part, self.found.best, start=self.found.price or None)
        if dual is None:
            return
        lowest = float(dual.bounds[0])
        if lowest >= self._goal():
            return
        # What two compiled lists were too short for, tables are too slow for.
        is_cut = are_lists_met() and dual.mixed is not None
        if not is_cut and self._list(part, find_prices(part, dual.price)):
            return
        self.cuts += 1
        halves = [] if dual.mixed is None else _halve(part, dual.mixed)
        for half in halves:
            self._settle(half, dual.price)
        if not halves:
            self._push(lowest, part)
            self.cuts = self.limits.cuts + 1

    def _list(self, part: Cover, prices: Prices) -> bool:
        """List all states that could be better; tell whether that was all of them."""
        far = _far(part, prices)
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
        for lowest, _, part in self.heap:
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


def _halve(part: Cover, mixed: Floats) -> list[Cover]:
    """Cut at the pool whose nodes the bound splits, and weigh most, in two ranges."""
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
    costs, rates = fill_sizes(cover, np.lexsort((-cover.rate, cover.cost)))
    place = int(np.argmin(cover.scale * costs))
    return cover.mirrored() if rates[place] > cover.top[place] else cover
