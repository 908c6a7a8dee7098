"""
A price of rate for every size of its own.

One price for all sizes bounds most of them badly when each has its own demand. Here every size
climbs on its own, all in the same few steps: the fillings of many prices are the rows of one
sorted table.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from ebbtide.core.planner.solver.cover import Cover, Floats, Places
from ebbtide.core.planner.solver.dual import Filling, force

STEPS: Final = 12
"""At most; most sizes are at their top after four."""
FLAT: Final = 1e-10
"""Relative: a bound that rises by less stands at its top."""


@dataclass(slots=True)
class Own:
    """Of each size: its best price so far and what that proves of it, on scale times cost."""

    prices: Floats
    bounds: Floats


@dataclass(slots=True)
class _Lines:
    """A plan of each size as a line: what it costs and misses of the demand."""

    cost: Floats
    missing: Floats


def bound_each(cover: Cover, cheapest: Filling, fastest: Filling) -> Own:
    """
    Climb from two fillings, one by cost and one by rate; demands must be finite and in reach.

    Where the cheapest plan already has the rate, the price is 0.
    """
    low = _Lines(cheapest.cost.copy(), cover.demand - cheapest.rate)
    high = _Lines(fastest.cost.copy(), cover.demand - fastest.rate)
    own = Own(np.zeros(len(cover.sizes)), low.cost.copy())
    active = np.flatnonzero((low.missing > 0) & (high.missing <= 0))
    for _ in range(STEPS):
        if not len(active):
            break
        gap = low.missing[active] - high.missing[active]
        rising = gap > 0
        active, gap = active[rising], gap[rising]
        prices = (high.cost[active] - low.cost[active]) / gap
        reached = low.cost[active] + prices * low.missing[active]
        cost, rate = _fill_each(cover, active, prices)
        missing = cover.demand[active] - rate
        values = cost + prices * missing
        better = values > own.bounds[active]
        own.bounds[active] = np.where(better, values, own.bounds[active])
        own.prices[active] = np.where(better, prices, own.prices[active])
        for lines, chosen in ((low, missing > 0), (high, missing <= 0)):
            lines.cost[active[chosen]] = cost[chosen]
            lines.missing[active[chosen]] = missing[chosen]
        active = active[values < reached - FLAT * np.abs(reached)]
    own.bounds *= cover.scale
    return own


def _fill_each(cover: Cover, places: Places, prices: Floats) -> tuple[Floats, Floats]:
    """Return cost and rate of each of these sizes filled at its own price."""
    weights = cover.cost - prices[:, None] * cover.rate
    order = weights.argsort(axis=1, kind="stable")
    rows = np.arange(len(places))
    forced, free = _force_each(cover, order)
    left = cover.sizes[places] - forced.sum(axis=1)
    room = left[:, None] - free.cumsum(axis=1) + free
    taken = np.minimum(np.maximum(room, 0.0), free)
    plans = np.zeros_like(weights)
    plans[rows[:, None], order] = taken
    plans += forced
    return plans @ cover.cost, plans @ cover.rate


def _force_each(cover: Cover, order: Places) -> tuple[Floats, Floats]:
    """Return what each order begins with, and what it leaves free."""
    if cover.floor <= 0:
        return cover.least[None, :], (cover.most - cover.least)[order]
    filled = [force(cover, row) for row in order]
    return np.array([forced for forced, _ in filled]), np.array([free for _, free in filled])
