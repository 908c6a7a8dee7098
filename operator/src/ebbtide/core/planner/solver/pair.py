"""The last two pools in closed form: for each state and size the best split of what is left."""

from dataclasses import dataclass

import numpy as np

from ebbtide.core.planner.solver.cover import Cover, Floats, Incumbent, Places
from ebbtide.core.planner.solver.states import DISTANCE, NODES, RATE, States


@dataclass(frozen=True, slots=True)
class Tails:
    """Pairs of a state and a size, and what is left to the two pools there."""

    states: Places
    sizes: Places
    nodes: Floats
    rate: Floats
    cost: Floats
    on_demand: Floats


def close(
    cover: Cover,
    states: States,
    rooms: Floats,
    *,
    pair: tuple[int, int],
    price: float,
    best: Incumbent,
) -> None:
    """
    Offer the best plan of those that the states can be completed to.

    The price of rate tells how much a plan costs for what it does beyond the demand.
    """
    first, second = pair
    if cover.rate[first] < cover.rate[second]:
        first, second = second, first
    tails = _tails(cover, states, rooms, pair=(first, second), price=price)
    if not len(tails.states):
        return
    low, high = _range(cover, tails, first, second)
    dearer = cover.cost[first] >= cover.cost[second]
    amounts = low if dearer or first == second else high
    amounts = np.where(low <= high, amounts, 0.0)
    others = tails.nodes - amounts
    costs = tails.cost + cover.cost[first] * amounts + cover.cost[second] * others
    values = np.where(low <= high, cover.scale[tails.sizes] * costs, np.inf)
    place = int(np.argmin(values))
    if values[place] < best.value:
        plan = states.plan(int(tails.states[place]))
        plan[first] += amounts[place]
        plan[second] += others[place]
        best.offer(cover, plan)


def _tails(
    cover: Cover, states: States, rooms: Floats, *, pair: tuple[int, int], price: float
) -> Tails:
    first, second = pair
    sums = states.sums
    owners, sizes = (sums[DISTANCE][:, None] < rooms).nonzero()
    left = cover.sizes[sizes] - sums[NODES, owners]
    step = cover.rate[first] - cover.rate[second]
    if step > 0 and price > 0:
        # What a node more of the first does, and the rate must be enough: the rest is beyond.
        demand = (cover.demand - cover.slack)[sizes]
        beyond = (sums[RATE, owners] + cover.rate[second] * left - demand) % step
        distance = sums[DISTANCE, owners] + price * (beyond - cover.slack[sizes])
        near = (distance < rooms[sizes]).nonzero()[0]
        owners, sizes, left = owners[near], sizes[near], left[near]
    _, _, rate, cost, on_demand = sums.take(owners, axis=1)
    return Tails(owners, sizes, left, rate, cost, on_demand)


def _range(cover: Cover, tails: Tails, first: int, second: int) -> tuple[Floats, Floats]:
    """Return the least and the most nodes of the first pool; least above most where none do."""
    left = tails.nodes
    least, most = (cover.least[second], cover.most[second]) if first != second else (0.0, 0.0)
    low = np.maximum(cover.least[first], left - most)
    high = np.minimum(cover.most[first], left - least)
    demand = (cover.demand - cover.slack)[tails.sizes]
    top = (cover.top + cover.slack)[tails.sizes]
    rate = tails.rate + cover.rate[second] * left
    step = cover.rate[first] - cover.rate[second]
    if step > 0:
        low = np.maximum(low, np.ceil((demand - rate) / step))
        high = np.minimum(high, np.floor((top - rate) / step))
    else:
        high = np.where((rate >= demand) & (rate <= top), high, -np.inf)
    missing = cover.floor - tails.on_demand
    if cover.is_on_demand[first] == cover.is_on_demand[second]:
        enough = missing <= left * cover.is_on_demand[first]
        high = np.where(enough, high, -np.inf)
    elif cover.is_on_demand[first]:
        low = np.maximum(low, missing)
    else:
        high = np.minimum(high, left - missing)
    return low, high
