"""
Prices for a node and for an on-demand node, and what each pool's node costs beyond them.

With prices p of rate, m of a node and v of an on-demand node, d_i = cost_i - p rate_i - m
(- v on demand) is the reduced cost. For each plan of n nodes

    cost = base + sum |d_i| |x_i - x^_i| + p (rate - demand) + v (on demand - floor)

with x^_i = most_i where d_i < 0, else least_i, and base = p demand + m n + v floor + sum d_i x^_i.
So a plan below some value lies within a known distance of x^.
"""

from typing import NamedTuple

import numpy as np

from ebbtide.core.planner.solver.compiled import kernel
from ebbtide.core.planner.solver.cover import Floats, Places
from ebbtide.core.planner.solver.table import Table, force, weigh


class Reduced(NamedTuple):
    """The prices of one size."""

    place: int
    costs: Floats
    """Reduced, of a node of each pool."""
    base: float
    on_demand: float
    """Price of an on-demand node."""


@kernel
def find_ways(
    table: Table, place: int, weights: Floats, order: Places
) -> tuple[float, float, float]:
    """
    Return the two prices of a node that can be best, and the weight of the last forced node.

    The weights of the last node of the size and of the first one beyond; NaN where there is none.
    """
    free = np.empty(len(order))
    nodes, _, _ = force(table, order, free)
    forced = -np.inf
    for pool in range(len(order)):
        if table.floor > 0 and table.most[pool] - free[pool] > table.least[pool]:
            forced = max(forced, weights[pool])
    left, last, beyond = table.sizes[place] - nodes, np.nan, np.nan
    for pool in order:
        if free[pool] > 0:
            if left > 0:
                last = weights[pool]
            if left < free[pool]:
                beyond = weights[pool]
                break
            left -= free[pool]
    return last, beyond, forced


@kernel
def reduce(table: Table, place: int, price: float) -> Reduced:
    """Return the prices of one size at a price of rate, with the best price of a node."""
    weights, order = weigh(table, price)
    last, beyond, forced = find_ways(table, place, weights, order)
    if np.isnan(last):
        last = 0.0 if np.isnan(beyond) else beyond
    if np.isnan(beyond):
        beyond = last
    demanded = price * table.demand[place] if price else 0.0
    base, node, on_demand = -np.inf, 0.0, 0.0
    for way in (last, beyond):
        market = max(0.0, forced - way)
        value = demanded + way * table.sizes[place] + market * table.floor
        for pool in range(len(weights)):
            excess = weights[pool] - way - market * table.market[pool]
            value += excess * (table.most[pool] if excess < 0 else table.least[pool])
        if value > base:
            base, node, on_demand = value, way, market
    for pool in range(len(weights)):
        weights[pool] -= node + on_demand * table.market[pool]
    return Reduced(place, weights, base, on_demand)
