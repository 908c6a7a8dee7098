"""From the bound to the proof: list what could be better, size by size where it is too much."""

import heapq
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import numpy as np

from ebbtide.core.planner.solver.cover import Cover, Flags, Floats, Incumbent, Places
from ebbtide.core.planner.solver.dominance import limit_most
from ebbtide.core.planner.solver.dual import Bound, bound, fill, fill_ends
from ebbtide.core.planner.solver.halves import Halves
from ebbtide.core.planner.solver.own import bound_each
from ebbtide.core.planner.solver.pair import close
from ebbtide.core.planner.solver.prices import Prices, find_prices
from ebbtide.core.planner.solver.radius import radius
from ebbtide.core.planner.solver.states import DISTANCE, Lister, States

FIRST: Final = 8.0
"""Logarithm of how many states one list has; more, and it is dealt to two."""
HALVES: Final = (7.0, 9.5, 12.0)
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
    if len(cover.sizes):
        cover = replace(cover, most=limit_most(cover))
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
    heap: list[tuple[float, int, Cover, Bound | None]] = field(default_factory=list)
    open_bound: float = np.inf
    """The least bound of what was left unproven."""
    pushed: int = 0
    cuts: int = 0

    def run(self, root: Bound) -> None:
        alive = np.flatnonzero(root.bounds < self._goal())
        pieces = _cut(self.cover, alive)
        if len(pieces) == 1 and len(alive) == len(self.cover.sizes):
            self._push(float(root.bounds.min()), self.cover, root)
        else:
            self._push_pieces(root, alive, pieces)
        while self.heap:
            lowest, _, part, known = heapq.heappop(self.heap)
            if lowest >= self._goal():
                break
            if self.cuts > self.limits.cuts:
                self._push(lowest, part, known)
                self._ask_fall_back()
                break
            self._settle(part, known)
        found = self.found
        if self.open_bound < self._goal():
            found.proven = False
            found.bound = max(found.bound, self.open_bound)
        else:
            found.bound = found.best.value

    def _push_pieces(self, root: Bound, alive: Places, pieces: list[Places]) -> None:
        """Bound every size at its own price first: that of the root is far off for most."""
        bounds, prices = root.bounds.copy(), np.full(len(root.bounds), root.price)
        if len(alive) > 1:
            part = self.cover.at(alive)
            own = bound_each(part, *fill_ends(part))
            better = own.bounds > bounds[alive]
            prices[alive[better]] = own.prices[better]
            bounds[alive] = np.maximum(bounds[alive], own.bounds)
        for piece in pieces:
            known = None
            if len(piece) == 1:
                known = Bound(float(prices[piece[0]]), bounds[piece], 0)
            self._push(float(bounds[piece].min()), self.cover.at(piece), known)

    def _goal(self) -> float:
        """Plans at or above it are no better; costs in whole quanta leave gaps below the best."""
        best = self.found.best
        quantum = self.cover.quantum
        if quantum and best.plan is not None:
            return min(best.goal, best.value - 0.999 * quantum)
        return best.goal

    def _push(self, lowest: float, part: Cover, known: Bound | None) -> None:
        heapq.heappush(self.heap, (lowest, self.pushed, part, known))
        self.pushed += 1

    def _settle(self, part: Cover, known: Bound | None) -> None:
        """Search a part to the end, or cut it in two."""
        best = self.found.best
        dual = known or bound(part, best, start=self.found.price or None)
        if dual is None:
            return
        alive = dual.bounds < self._goal()
        if not alive.any():
            return
        if not alive.all():
            part, dual = part.at(alive), _narrow(dual, alive)
        if self._list(part, dual):
            return
        self.cuts += 1
        if len(part.sizes) > 1:
            middle = len(part.sizes) // 2
            for chosen in (slice(None, middle), slice(middle, None)):
                self._push(float(dual.bounds[chosen].min()), part.at(chosen), None)
            return
        lowest = float(dual.bounds[0])
        if dual.sides is None:
            dual = bound(part, best, start=dual.price or None) or dual
        halves = _halve(part, dual)
        for half in halves:
            self._push(lowest, half, None)
        if not halves:
            self._push(lowest, part, dual)
            self.cuts = self.limits.cuts + 1

    def _list(self, part: Cover, dual: Bound) -> bool:
        """List all states that could be better; tell whether that was all of them."""
        prices = find_prices(part, dual)
        far = _far(part, prices)
        self._try_singles(part, prices)
        room = min(self._room(part, prices), far)
        if room <= 0:
            return True
        lister = Lister(part, prices, room)
        pools = lister.near(room)
        reach = radius(
            lister.columns[DISTANCE, pools], lister.spread[pools], room=room, log_states=FIRST
        )
        if reach >= room:
            states = lister.list_within(room, most=STATES)
            if states is not None:
                self._close(part, prices, lister, states)
                return True
        return self._list_halves(part, prices, far)

    def _list_halves(self, part: Cover, prices: Prices, far: float) -> bool:
        """List the states of each half of the pools, farther and farther."""
        for log_states in HALVES:
            room = min(self._room(part, prices), far)
            if room <= 0:
                return True
            halves = Halves(part, prices, room)
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

    def _try_singles(self, part: Cover, prices: Prices) -> None:
        """Find a good plan next to what the prices choose: it makes the room small."""
        lister = Lister(part, prices, 0.0)
        self._close(part, prices, lister, lister.list_singles())

    def _close(self, part: Cover, prices: Prices, lister: Lister, states: States) -> None:
        rooms = prices.rooms(part, self._goal())
        close(part, states, rooms, pair=lister.roles.pair, best=self.found.best)

    def _ask_fall_back(self) -> None:
        """Ask for each size that is left, without the cuts; what it does not prove stays open."""
        found = self.found
        found.used_fall_back = True
        left: dict[float, float] = {}
        for lowest, _, part, _ in self.heap:
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


def _narrow(dual: Bound, alive: Flags) -> Bound:
    places = np.flatnonzero(alive)
    place = int(np.argmin(np.abs(places - dual.place)))
    return Bound(dual.price, dual.bounds[alive], place)


def _orient(cover: Cover) -> Cover:
    """Turn the problem round where the cheapest plan has too much rate, not too little."""
    if np.isinf(cover.top).all() or not len(cover.sizes):
        return cover
    filling = fill(cover, np.lexsort((-cover.rate, cover.cost)))
    place = int(np.argmin(cover.scale * filling.cost))
    return cover.mirrored() if filling.rate[place] > cover.top[place] else cover


def _cut(cover: Cover, alive: Places) -> list[Places]:
    """Cut sizes at gaps, and where the demand bends the wrong way: no one price serves both."""
    if len(alive) <= 1:
        return [alive] if len(alive) else []
    gaps = np.diff(cover.sizes[alive]) != 1
    demand = cover.demand[alive]
    if np.isfinite(demand).all() and len(alive) > 2:  # noqa: PLR2004 -- a bend has three points
        bends = np.diff(demand, 2) < -1e-12 * np.abs(demand[1:-1])
        gaps[1:] |= bends
    return [piece for piece in np.split(alive, np.flatnonzero(gaps) + 1) if len(piece)]
