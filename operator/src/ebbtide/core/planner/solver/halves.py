"""
More pools than one list can hold: two lists of half the pools each, and the best of all pairs.

What is left to the last two pools (or three, with a floor) fixes their nodes but for one number:
each node more of the one and fewer of the other adds `step` to the rate. So the rate that a state
and another one exceed the demand by is known but for whole steps, and the least it can be is a sum
of two remainders. Sorted by remainder, the best partner of each state is one look-up: a bound on
all its pairs, as limits of the last pools are left out. The few states whose bound is good enough
are paired in full. No plan within the distance is missed.
"""

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from ebbtide.core.planner.solver.cover import Cover, Floats, Places
from ebbtide.core.planner.solver.prices import Prices
from ebbtide.core.planner.solver.states import (
    DISTANCE,
    NODES,
    ON_DEMAND,
    RATE,
    Lister,
    Pairs,
    States,
)

STATES: Final = 30_000
"""Of one half; more, and the problem is cut in two."""
LOOKED_AT: Final = 20_000
"""So many are looked at together."""
TURNS: Final = 8
"""More of these, and the problem is cut in two."""
FEW: Final = 4
"""States of the first half that are looked at first: the best of them may rule out the rest."""
SHORT: Final = 3.0
"""Times its reach, that a short list looks beyond the floor."""
COUNTS: Final = 200
"""Numbers of nodes of one pool that are looked at one by one."""
BEYOND: Final = 64
"""On-demand nodes above the floor that are looked at; where more are near, it is cut too."""


class Look(Protocol):
    """Looks at states; returns how far from x^ a better plan of each size can be since."""

    def __call__(self, states: States | None) -> Floats:
        """Return that; without states, how far it is now."""


class Halves:
    """The near pools of a lister dealt to two lists."""

    def __init__(self, lister: Lister, room: float) -> None:
        self.cover = lister.cover
        self.prices = lister.prices
        self.lister = lister
        self.room = room
        self.pools = self._deal(lister.near(room))

    def _deal(self, pools: Places) -> tuple[Places, Places]:
        """Deal the pools to two halves of as many states, farthest first in each."""
        distance = self.lister.columns[DISTANCE, pools]
        with np.errstate(divide="ignore"):
            ways = np.log(np.minimum(self.lister.spread[pools], self.room / distance) + 1)
        halves: tuple[list[int], list[int]] = ([], [])
        total = [0.0, 0.0]
        for place in np.argsort(-ways, kind="stable").tolist():
            half = int(total[1] < total[0])
            halves[half].append(place)
            total[half] += float(ways[place])
        # Pools are the farthest first already.
        return pools[sorted(halves[0])], pools[sorted(halves[1])]

    def reach(self, log_states: float) -> float:
        """Return a distance within which neither half has more states than asked for."""
        reach = self.lister.reach
        return min(reach(pools, room=self.room, log_states=log_states) for pools in self.pools)

    def search(self, reach: float, look: Look) -> bool:
        """Look at all plans within a distance; tell whether that was little enough work."""
        halves = self._list(reach)
        if halves is None:
            return False
        first, second = halves
        rooms = look(None)
        # Short lists only look for a good plan: on-demand nodes far above the floor can wait.
        far = np.inf if reach >= rooms.max() else SHORT * reach
        excess = self._excess(first.sums, second.sums, rooms, far)
        if excess is None:
            return False
        chosen = np.flatnonzero(excess < 0)
        return self._look_at(halves, chosen[np.argsort(excess[chosen])], excess, look=look, far=far)

    def _list(self, reach: float) -> tuple[States, States] | None:
        lister = self.lister
        start = lister.begin()
        zero = lister.begin_at(np.zeros(len(start.start)))
        thins = bool(np.isinf(self.cover.top).all())
        listed = []
        for begun, pools in zip((start, zero), self.pools, strict=True):
            near = pools[lister.columns[DISTANCE, pools] < reach]
            if not lister.list_on(begun, near, room=reach, most=STATES, thins=thins):
                return None
            listed.append(begun)
        return listed[0], listed[1]

    def _look_at(
        self,
        halves: tuple[States, States],
        chosen: Places,
        excess: Floats,
        *,
        look: Look,
        far: float,
    ) -> bool:
        """Pair the chosen states, the best first, with all of the other half."""
        first, second = halves
        distances = second.sums[DISTANCE]
        rooms = look(None)
        top = float(rooms.max())
        most = max(1, LOOKED_AT // len(distances))
        rows, done = min(FEW, most), 0
        while done < len(chosen):
            part = chosen[done : done + rows]
            # What was good enough may no longer be, as plans are found.
            part = part[excess[part] < float(rooms.max()) - top]
            if not len(part):
                return True
            if done >= TURNS * most:
                return False
            done, rows = done + rows, min(4 * rows, most)
            left, right = np.nonzero(first.sums[DISTANCE, part][:, None] + distances < rooms.max())
            left = part[left]
            sums = first.sums[:, left] + second.sums[:, right]
            joined = States(sums, first.start, pairs=Pairs(first, second, left, right))
            self.lister.meet_floor(joined, min(float(rooms.max()), far))
            rooms = look(joined)
        return True

    # ------------------------------------------------------------------------- the bound

    def _excess(self, first: Floats, second: Floats, rooms: Floats, far: float) -> Floats | None:
        """Return how far above the room the best pair of each state is at least; None: unknown."""
        cover, prices, lister = self.cover, self.prices, self.lister
        spread = cover.most - cover.least
        one, other = sorted(lister.roles.pair, key=spread.__getitem__)
        step = float(cover.rate[one] - cover.rate[other])
        least = np.full(first.shape[1], np.inf)
        if not step or not prices.rate > 0:
            found: Floats = first[DISTANCE] + (second[DISTANCE].min() - rooms.max())
            return found
        line = _Line.of(cover, lister.roles.by_floor, other)
        match = _Match.of(
            first[DISTANCE],
            line.along(first),
            second[DISTANCE],
            line.along(second),
            step=step,
            price=prices.rate,
            counts=_Counts.of(cover, prices, one),
        )
        for place in np.flatnonzero(rooms > 0).tolist():
            beyond = 0
            if lister.roles.by_floor is not None:
                beyond = int(min(min(rooms[place], far) / prices.on_demand, BEYOND + 1))
                if beyond > BEYOND:
                    return None
            demand = float(cover.demand[place] - cover.slack[place])
            for extra in range(beyond + 1):
                shift = line.shift(float(cover.sizes[place]), cover.floor + extra) - demand
                limit = float(rooms[place] - prices.on_demand * extra)
                np.minimum(least, match.bound(shift, limit) - limit, out=least)
        return least


@dataclass(frozen=True, slots=True)
class _Line:
    """The rate with none of the first of the last pools, as a line in what states add up to."""

    nodes: float
    on_demand: float
    size: float
    floor: float

    @staticmethod
    def of(cover: Cover, by_floor: int | None, other: int) -> "_Line":
        rate = float(cover.rate[other])
        if by_floor is None:
            return _Line(-rate, 0.0, rate, 0.0)
        more = float(cover.rate[by_floor]) - rate
        if cover.is_on_demand[by_floor]:  # as many of it as the floor needs
            return _Line(-rate, -more, rate, more)
        return _Line(-rate - more, more, rate + more, -more)

    def along(self, sums: Floats) -> Floats:
        found: Floats = sums[RATE] + self.nodes * sums[NODES] + self.on_demand * sums[ON_DEMAND]
        return found

    def shift(self, size: float, floor: float) -> float:
        return self.size * size + self.floor * floor


@dataclass(frozen=True, slots=True)
class _Counts:
    """How many nodes the first of the last pools can have, and how far from x^ each is."""

    counts: Floats
    distances: Floats

    @staticmethod
    def of(cover: Cover, prices: Prices, pool: int) -> "_Counts | None":
        """Return them; None where they are too many to be looked at one by one."""
        low, high = float(cover.least[pool]), float(cover.most[pool])
        if high - low > COUNTS:
            return None
        counts = np.arange(low, high + 1)
        chosen = high if prices.reduced[pool] < 0 else low
        distances = abs(float(prices.reduced[pool])) * np.abs(counts - chosen)
        return _Counts(counts, distances)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Match:
    """The best partner, by remainder and by number of nodes of the first of the last pools."""

    first: tuple[Floats, Floats]
    """Distances and rates."""
    remainders: Floats
    below: Floats
    """Least distance with the price of the remainder, of all up to each place."""
    above: Floats
    """The same from each place on, a step less."""
    rates: Floats
    """Rising."""
    onward: Floats
    """Least distance with the price of the rate, of all from each place on."""
    step: float
    price: float
    counts: _Counts | None

    @staticmethod
    def of(
        first_distance: Floats,
        first_rate: Floats,
        distance: Floats,
        rate: Floats,
        *,
        step: float,
        price: float,
        counts: _Counts | None,
    ) -> "_Match":
        remainders = rate % abs(step)
        order = remainders.argsort()
        remainders = remainders[order]
        values = distance[order] + price * remainders
        rising = rate.argsort()
        whole = distance[rising] + price * rate[rising]
        return _Match(
            first=(first_distance, first_rate),
            remainders=remainders,
            below=np.append(np.inf, np.minimum.accumulate(values)),
            above=np.append(np.minimum.accumulate(values[::-1])[::-1] - price * abs(step), np.inf),
            rates=rate[rising],
            onward=np.append(np.minimum.accumulate(whole[::-1])[::-1], np.inf),
            step=step,
            price=price,
            counts=counts,
        )

    def bound(self, shift: float, limit: float) -> Floats:
        """Return the least that each state and a partner come to; exact only below the limit."""
        distance, rate = self.first
        remainders = (rate + shift) % abs(self.step)
        places = self.remainders.searchsorted(abs(self.step) - remainders)
        partner = np.minimum(self.below[places], self.above[places])
        found: Floats = distance + self.price * remainders + partner
        near = np.flatnonzero(found < limit)
        if len(near) and self.counts is not None:
            found[near] = self._by_count(near, shift, self.counts)
        return found

    def _by_count(self, near: Places, shift: float, counts: _Counts) -> Floats:
        distance, rate = self.first
        beyond = rate[near][:, None] + (shift + counts.counts * self.step)
        partner = self.onward[self.rates.searchsorted(-beyond)]
        least = (partner + self.price * beyond + counts.distances).min(axis=1)
        found: Floats = distance[near] + least
        return found
