"""
Prices for a node and for an on-demand node, and what each pool's node costs beyond them.

With prices p of rate, m of a node and v of an on-demand node, d_i = cost_i - p rate_i - m
(- v on demand) is the reduced cost. For each plan of n nodes

    cost = base_n + sum |d_i| |x_i - x^_i| + p (rate - demand_n) + v (on demand - floor)

with x^_i = most_i where d_i < 0, else least_i, and base_n = p demand_n + m n + v floor
+ sum d_i x^_i. So a plan below some value lies within a known distance of x^.
"""

from dataclasses import dataclass

import numpy as np

from ebbtide.core.planner.solver.cover import Cover, Floats
from ebbtide.core.planner.solver.dual import Bound, force


@dataclass(frozen=True, slots=True)
class Prices:
    """Reduced costs, and the base of every size."""

    rate: float
    """Of one unit of rate."""
    reduced: Floats
    on_demand: float
    bases: Floats
    """On cost, without the scale."""

    def rooms(self, cover: Cover, goal: float) -> Floats:
        """Return how far from x^ a plan of each size below a value can be."""
        rooms: Floats = goal / cover.scale - self.bases
        return rooms


def find_prices(cover: Cover, found: Bound) -> Prices:
    """Return the prices whose least base is highest, of the few that can be best."""
    weights = cover.cost - found.price * cover.rate
    candidates, forced = _candidates(cover, found, weights)
    demanded = found.price * cover.demand if found.price else np.zeros(len(cover.sizes))
    best: Prices | None = None
    highest = -np.inf
    for node in candidates:
        on_demand = max(0.0, forced - node) if cover.floor > 0 else 0.0
        reduced = weights - node
        if on_demand:
            reduced = reduced - on_demand * cover.is_on_demand
        base = float(np.where(reduced < 0, cover.most, cover.least) @ reduced)
        bases = demanded + (node * cover.sizes + (base + on_demand * cover.floor))
        least = float((cover.scale * bases).min())
        if best is None or least > highest:
            best, highest = Prices(found.price, reduced, on_demand, bases), least
    assert best is not None  # noqa: S101 -- there is always one candidate
    return best


def _candidates(cover: Cover, found: Bound, weights: Floats) -> tuple[list[float], float]:
    """Return prices of a node to try, and the weight of the last forced on-demand node."""
    order = weights.argsort(kind="stable")
    last_forced, forced, free = -np.inf, cover.start[0], cover.columns[0][order]
    if cover.floor > 0:
        whole, free = force(cover, order)
        forced = float(whole.sum())
        by_floor = whole > cover.least
        last_forced = float(weights[by_floor].max(initial=-np.inf))
    ends = free.cumsum()
    nodes = cover.sizes[found.place] - forced
    ways = []
    if nodes > 0:
        ways.append(float(weights[order[min(int(ends.searchsorted(nodes)), len(order) - 1)]]))
    if nodes < ends[-1]:
        ways.append(float(weights[order[ends.searchsorted(nodes, side="right")]]))
    if len(cover.sizes) > 1:
        low, high = (ways[0] if nodes > 0 else -np.inf), (ways[-1] if nodes < ends[-1] else np.inf)
        steps = found.price * np.diff(cover.demand) / np.diff(cover.sizes)
        beside = steps[max(found.place - 1, 0) : found.place + 1]
        ways += [min(max(-float(step), low), high) for step in (*beside, 0.0)]
    return list(dict.fromkeys(ways)) or [0.0], last_forced
