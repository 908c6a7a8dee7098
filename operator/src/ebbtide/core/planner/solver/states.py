"""
Every way to leave what the prices choose that costs less than a given room.

A state is one choice for all pools but the last two or three: five numbers, of which the first
is its distance. Rows of `States.sums`: distance, nodes, rate, cost, on-demand nodes.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ebbtide.core.planner.solver.chains import Chain, find_chains
from ebbtide.core.planner.solver.cover import Cover, Floats, Places
from ebbtide.core.planner.solver.dominance import limit_near
from ebbtide.core.planner.solver.prices import Prices
from ebbtide.core.planner.solver.radius import radius

DISTANCE: Final = 0
NODES: Final = 1
RATE: Final = 2
COST: Final = 3
ON_DEMAND: Final = 4

THIN_ABOVE: Final = 1_500
"""States; below, to compare them costs more than to carry them."""
SOME: Final = 3_000
"""States of a few pools, where all are too many."""
THIN_BLIND: Final = 500
"""The same, where few are left whatever their number was."""


@dataclass(frozen=True, slots=True)
class Roles:
    """Which pools are left to the end: two in closed form, one bounded by the floor."""

    pair: tuple[int, int]
    by_floor: int | None


@dataclass(slots=True)
class States:
    """The states, and how each came to be."""

    sums: Floats
    start: Floats
    """x^, with nothing yet of the pools that are left to the end."""
    steps: list[tuple[Places, "Places | int | Chain", Floats]] = field(default_factory=list)
    """Of each step: the state before, what changed, and by how much."""
    pairs: "Pairs | None" = None
    """What the first step begins with, where that is not x^ alone."""

    def plan(self, state: int) -> Floats:
        """Return the nodes of each pool in one state."""
        change = np.zeros(len(self.start))
        for parents, pools, amounts in reversed(self.steps):
            if isinstance(pools, Chain):
                pools.change(change, amounts[state])
            else:
                pool = pools if isinstance(pools, int) else int(pools[state])
                change[pool] += amounts[state]
            state = int(parents[state])
        return change + (self.start if self.pairs is None else self.pairs.plan(state))


@dataclass(frozen=True, slots=True)
class Pairs:
    """A state of each of two lists, the second of changes alone."""

    first: States
    second: States
    left: Places
    right: Places

    def plan(self, pair: int) -> Floats:
        """Return the nodes of each pool of one pair."""
        return self.first.plan(int(self.left[pair])) + self.second.plan(int(self.right[pair]))


def choose_roles(cover: Cover, prices: Prices, room: float) -> Roles:
    """Leave the pools to the end of which most nodes can change within a room; 0: the nearest."""
    distance = np.abs(prices.reduced)
    order = distance.argsort(kind="stable")
    if room > 0:
        with np.errstate(divide="ignore"):
            ways = np.minimum(cover.most - cover.least, room / distance)
        order = order[(-ways[order]).argsort(kind="stable")]
    first = int(order[0])
    others = order[1:]
    if prices.on_demand > 0:
        others = others[cover.is_on_demand[others] == cover.is_on_demand[first]]
    differing = others[cover.rate[others] != cover.rate[first]]
    seconds = differing if len(differing) else others
    second = int(seconds[0]) if len(seconds) else first
    by_floor = None
    if prices.on_demand > 0:
        rest = order[cover.is_on_demand[order] != cover.is_on_demand[first]]
        by_floor = int(rest[0]) if len(rest) else None
    return Roles((first, second), by_floor)


class Lister:
    """Lists the states of one set of prices, out to whatever room is asked for."""

    def __init__(self, cover: Cover, prices: Prices, room: float) -> None:
        self.cover = cover
        self.prices = prices
        self.roles = choose_roles(cover, prices, room)
        by_floor = self.roles.by_floor
        self.last = [*self.roles.pair, *([] if by_floor is None else [by_floor])]
        sign = np.where(prices.reduced < 0, -1.0, 1.0)
        spread = cover.most - cover.least
        ones = np.array([np.ones(len(spread)), cover.rate, cover.cost, cover.is_on_demand])
        columns = np.array([np.abs(prices.reduced), *(sign * ones)])
        free = spread.copy()
        free[self.last] = 0.0
        if room > 0:
            free = limit_near(cover, columns, free, room)
        self.chains = find_chains(columns, free)
        chained = [pool for chain in self.chains for pool in chain.pools.tolist()]
        free[chained] = 0.0
        firsts = [int(chain.pools[0]) for chain in self.chains]
        self.spread = np.concatenate([free, [chain.spread.sum() for chain in self.chains]])
        self.columns = np.concatenate([columns, columns[:, firsts]], axis=1)
        """What the first changed node of each pool, and then of each chain, adds to a state."""
        self.first = np.concatenate([np.arange(len(free)), np.array(firsts, dtype=np.intp)])
        """The pool of it."""

    def near(self, room: float) -> Places:
        """Return the pools and chains of which a node can change within a room, farthest first."""
        distance = self.columns[DISTANCE]
        pools = ((distance < room) & (self.spread > 0)).nonzero()[0]
        farthest: Places = pools[(-distance[pools]).argsort(kind="stable")]
        return farthest

    def reach(self, pools: Places, *, room: float, log_states: float) -> float:
        """Return a distance within which there are no more states of some pools than asked for."""
        num = len(self.cover.cost)
        chains = [self.chains[pool - num] for pool in pools[pools >= num].tolist()]
        single = pools[pools < num]
        parts = [
            (self.columns[DISTANCE, single], self.spread[single]),
            *((chain.distance, chain.spread) for chain in chains),
        ]
        lengths = [1] * len(single) + [len(chain.pools) for chain in chains]
        distances, most = (np.concatenate(column) for column in zip(*parts, strict=True))
        return radius(distances, most, lengths, room=room, log_states=log_states)

    def list_within(self, room: float, *, most: int) -> States | None:
        """
        Return the states whose distance is below the room, None when they are too many.

        A few may lie at the room or beyond.
        """
        states = self.begin()
        pools = self.near(room)
        distances = self.columns[DISTANCE, pools]
        blind = self._is_blind(pools, room)
        thin = _Thinning(blind, THIN_BLIND if blind else THIN_ABOVE)
        alone = int(np.searchsorted(-distances, -room / 2, side="right"))
        if alone:
            self._change_one(states, pools[:alone])
        # Nodes that later pools can give back: a state may be above the largest size by so many.
        back = np.where(self.columns[NODES, pools] < 0, self.spread[pools], 0.0)
        spare = self.cover.sizes[-1] + back[::-1].cumsum()[::-1] - back
        spare -= (
            self.cover.least[self.last].sum() if self.roles.pair[0] != self.roles.pair[1] else 0
        )
        for place in range(alone, len(pools)):
            self._change(states, int(pools[place]), room=room, most_nodes=float(spare[place]))
            thin.apply(states)
            if states.sums.shape[1] > most:
                return None
        if self.roles.by_floor is not None:
            self.meet_floor(states, room)
            thin.apply(states)
        return states

    def list_on(
        self, states: States, pools: Places, *, room: float, most: int, thins: bool
    ) -> bool:
        """Change these pools within the room; tell whether the states stayed few enough."""
        blind = self._is_blind(self.near(room), room)
        thin = _Thinning(blind, THIN_BLIND if blind else THIN_ABOVE)
        for pool in pools:
            self._change(states, int(pool), room=room, most_nodes=np.inf)
            if thins:
                thin.apply(states)
            if states.sums.shape[1] > most:
                return False
        return True

    def list_some(self, room: float) -> States:
        """Return all states of a few pools: where many ties make all of them too many."""
        states = self.begin()
        pools = self.near(room)
        weight = np.abs(self.columns[RATE, pools])
        pools = pools[np.lexsort((-weight, self.columns[DISTANCE, pools]))]
        ways = np.minimum(self.spread[pools], self.cover.sizes[-1]) + 1
        for pool in pools[np.log(ways).cumsum() <= np.log(SOME)]:
            self._change(states, int(pool), room=room, most_nodes=float(self.cover.sizes[-1]))
        return states

    def _is_blind(self, pools: Places, room: float) -> bool:
        """
        Tell whether the number of nodes of a state does not matter.

        So it is when one of the last two is the kind of nodes left out, and there are enough of
        them, and enough room for them, whatever the state.
        """
        cover = self.cover
        first, second = self.roles.pair
        if cover.rate[second] != 0 or cover.cost[second] != 0:
            first, second = second, first
        if cover.rate[second] != 0 or cover.cost[second] != 0 or len(cover.sizes) > 1:
            return False
        with np.errstate(divide="ignore"):
            ways = np.minimum(self.spread[pools], room / self.columns[DISTANCE, pools])
        change = float(ways.sum())
        if self.roles.by_floor is not None:
            change += float(cover.most[self.roles.by_floor])
        nodes, size = float(self.begin().sums[NODES, 0]), float(cover.sizes[0])
        enough = size - nodes - change >= cover.most[first] + cover.least[second]
        return bool(enough and size - nodes + change <= cover.most[second] + cover.least[first])

    def begin(self) -> States:
        """Return x^, with nothing yet of the pools that are left to the end."""
        start = np.where(self.prices.reduced < 0, self.cover.most, self.cover.least)
        start[self.last] = 0.0
        return self.begin_at(start)

    def begin_at(self, start: Floats) -> States:
        """Return one state."""
        cover = self.cover
        on_demand = start[cover.is_on_demand].sum()
        sums = np.array([[0.0, start.sum(), cover.rate @ start, cover.cost @ start, on_demand]]).T
        return States(sums, start)

    def _change_one(self, states: States, pools: Places) -> None:
        """Change one node of one of these pools, or none: two would be too far."""
        signs = self.columns[NODES, pools]
        states.sums = np.concatenate([states.sums, states.sums + self.columns[:, pools]], axis=1)
        parents = np.zeros(len(pools) + 1, dtype=np.intp)
        states.steps.append(
            (
                parents,
                self.first[np.concatenate([pools[:1], pools])],
                np.concatenate([[0.0], signs]),
            )
        )

    def _change(self, states: States, pool: int, *, room: float, most_nodes: float) -> None:
        """Change any number of nodes of one pool, within the room and up to so many in all."""
        if pool >= len(self.cover.cost):
            self._change_chain(states, self.chains[pool - len(self.cover.cost)], room)
            return
        column, spread = self.columns[:, pool], self.spread[pool]
        far, node = column[:2].tolist()
        sums = states.sums
        left = room - sums[DISTANCE]
        if spread == 1 or 2 * far >= room:
            near = left > far
            if node > 0:
                near &= sums[NODES] < most_nodes
            changed = near.nonzero()[0]
            states.sums = np.concatenate(
                [sums, sums.take(changed, axis=1) + column[:, None]], axis=1
            )
            parents = np.concatenate([np.arange(len(left)), changed])
            amounts = np.zeros(len(parents))
            amounts[len(left) :] = node
            states.steps.append((parents, pool, amounts))
            return
        ways = np.minimum(left / far, spread) if far > 0 else np.full(len(left), spread)
        if node > 0 and most_nodes < np.inf:
            ways = np.minimum(ways, most_nodes - sums[NODES])
        parents, amounts = _count_up(np.maximum(ways, 0.0).astype(np.intp) + 1)
        states.sums = sums.take(parents, axis=1)
        states.sums += column[:, None] * amounts
        states.steps.append((parents, pool, amounts * node))

    def _change_chain(self, states: States, chain: "Chain", room: float) -> None:
        """Change any number of nodes of a chain within the room."""
        options = chain.options(room)
        ways = options[DISTANCE].searchsorted(room - states.sums[DISTANCE])
        parents, amounts = _count_up(np.maximum(ways, 1))
        states.sums = states.sums.take(parents, axis=1)
        states.sums += options.take(amounts.astype(np.intp), axis=1)
        states.steps.append((parents, chain, amounts))

    def meet_floor(self, states: States, room: float) -> None:
        """Choose one pool's nodes so that few are on demand beyond the floor: they cost too."""
        cover, prices, pool = self.cover, self.prices, self.roles.by_floor
        if pool is None:
            return
        distance, nodes, _, _, on_demand = states.sums
        # A margin for rounding: whatever is too far is only listed in vain.
        beyond = np.floor((room - distance) / prices.on_demand * (1 + 1e-9) + 1e-9)
        if cover.is_on_demand[pool]:
            low = cover.floor - on_demand
            high = low + beyond
        else:
            spot = nodes - on_demand
            high = cover.sizes[-1] - cover.floor - spot
            low = cover.sizes[0] - cover.floor - spot - beyond
        low, high = np.maximum(low, cover.least[pool]), np.minimum(high, cover.most[pool])
        parents, amounts = _spread(low, high)
        chosen = (cover.most if prices.reduced[pool] < 0 else cover.least)[pool]
        sums = states.sums[:, parents]
        sums[DISTANCE] += self.columns[DISTANCE, pool] * np.abs(amounts - chosen)
        sums[NODES] += amounts
        sums[RATE] += amounts * cover.rate[pool]
        sums[COST] += amounts * cover.cost[pool]
        sums[ON_DEMAND] += amounts * cover.is_on_demand[pool]
        kept = np.flatnonzero(sums[DISTANCE] < room * (1 + 1e-9))
        states.sums = sums[:, kept]
        states.steps.append((parents[kept], pool, amounts[kept]))


def _spread(low: Floats, high: Floats) -> tuple[Places, Floats]:
    """Return each whole number from low to high, and whose it is."""
    num = np.maximum(high - low + 1, 0).astype(np.intp)
    owners = np.repeat(np.arange(len(num)), num)
    first = np.repeat(low - (np.cumsum(num) - num), num)
    return owners, np.arange(len(owners)) + first


def _count_up(num: Places) -> tuple[Places, Floats]:
    """Return 0, 1, ... below each number, and whose it is."""
    owners = np.arange(len(num)).repeat(num)
    before = (num.cumsum() - num).take(owners)
    return owners, (np.arange(len(owners)) - before).astype(np.float64)


@dataclass(slots=True)
class _Thinning:
    """Drops states that another one of as many nodes beats in cost and in rate."""

    is_blind: bool
    """Whether the number of nodes does not matter."""
    above: int

    def apply(self, states: States) -> None:
        """Thin states, if they are many more than last time."""
        if states.sums.shape[1] <= self.above:
            return
        kept = self._choose(states.sums)
        states.sums = states.sums[:, kept]
        states.steps.append((kept, 0, np.zeros(len(kept))))
        self.above = max(self.above, 2 * len(kept))

    def _choose(self, sums: Floats) -> Places:
        _, nodes, rate, cost, on_demand = sums
        group = on_demand if self.is_blind else nodes * (on_demand.max() + 1) + on_demand
        order = np.lexsort((-rate, cost, group))
        # The best rate so far within the group: groups are set apart by more than rates differ.
        number = np.concatenate([[0], np.cumsum(np.diff(group[order]) != 0)])
        lifted = rate[order] - rate.min() + number * 2 * (float(np.ptp(rate)) + 1.0)
        kept = np.ones(len(order), dtype=bool)
        kept[1:] = lifted[1:] > np.maximum.accumulate(lifted)[:-1]
        chosen: Places = np.sort(order[kept])
        return chosen
