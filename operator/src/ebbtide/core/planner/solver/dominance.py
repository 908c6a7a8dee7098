"""
Pools that no best plan needs.

One pool dominates another if its nodes cost no more, do no less, and count no less for the floor.
Take a best plan with a node of pool j while a dominating pool has a node to spare: exchange them.
At the end all dominating pools are full wherever j is used; so of n nodes j has at most
n - (what those can give).
"""

from typing import Final

import numpy as np

from ebbtide.core.planner.solver.cover import Cover, Flags, Floats, Places

MANY: Final = 128
"""Pools, above which not every pair is compared."""
LEVELS: Final = 16
"""Of rate, as many pools between each two."""


def limit_most(cover: Cover) -> Floats:
    """Return how many nodes of each pool some best plan stays within; least must be 0."""
    most: Floats = np.minimum(cover.most, cover.sizes[-1])
    if not np.isinf(cover.top).all():
        return most  # more rate might be too much
    does = (cover.cost != 0) | (cover.rate != 0)
    if most[does].sum() <= cover.sizes[-1]:
        return most  # all of them can be had at once
    order = np.lexsort((~cover.is_on_demand, -cover.rate, cover.cost))
    if len(order) > MANY:
        order = order[_may_be_needed(cover, order, most)]
    rate, room = cover.rate[order], most[order]
    # In this order pools are only dominated by earlier ones.
    dominates = (rate[:, None] >= rate) & np.tri(len(order), k=-1, dtype=bool).T
    if cover.floor > 0:
        market = cover.is_on_demand[order]
        dominates &= market[:, None] | ~market
    taken = room @ dominates.astype(np.float64)
    limits = np.zeros(len(most))
    limits[order] = np.minimum(np.maximum(cover.sizes[-1] - taken, 0.0), room)
    return limits


def _may_be_needed(cover: Cover, order: Places, most: Floats) -> Flags:
    """Leave out most of those that cannot be needed, by a few levels of rate: pairs are many."""
    rate, room = cover.rate[order], most[order]
    levels = np.sort(rate)[len(rate) // LEVELS :: len(rate) // LEVELS]
    is_level = rate >= levels[:, None]
    given = np.where(is_level, room, 0.0)
    level = levels.searchsorted(rate)
    if cover.floor > 0:
        market = cover.is_on_demand[order]
        by_market = np.where(market, given, 0.0).cumsum(axis=1)
        taken = np.where(market, _at(by_market, level), _at(given.cumsum(axis=1), level))
    else:
        taken = _at(given.cumsum(axis=1), level)
    # What a pool itself gives counts only where its rate is at that level.
    own = np.where(_at(is_level.astype(np.float64), level) > 0, room, 0.0)
    needed: Flags = taken - own < cover.sizes[-1]
    return needed


def _at(table: Floats, level: Places) -> Floats:
    """Return the value of each column in the row of its level; 0 above the highest."""
    rows = np.minimum(level, len(table) - 1)
    return np.where(level < len(table), table[rows, np.arange(table.shape[1])], 0.0)


def limit_near(cover: Cover, columns: Floats, spread: Floats, room: float) -> Floats:
    """
    Return how many nodes of each pool can change in a plan within a room of what prices choose.

    Rows of columns as in `States`. Before a node of a pool comes in, all pools that dominate it are
    full; before one goes, all that it dominates are empty: the room must do for these too.
    """
    distance, node = columns[:2]
    near = ((distance < room) & (spread > 0)).nonzero()[0]
    if not np.isinf(cover.top).all() or len(near) < 2:  # noqa: PLR2004 -- a pool and another
        return spread
    cost, rate = cover.cost[near], cover.rate[near]
    dearer, faster = cost[:, None] - cost, rate[:, None] - rate
    dominates = (dearer <= 0) & (faster >= 0)
    # Of two that are alike the first dominates.
    dominates &= (dearer < 0) | (faster > 0) | np.tri(len(near), k=-1, dtype=bool).T
    if cover.floor > 0:
        market = cover.is_on_demand[near]
        dominates &= market[:, None] | ~market
    comes = node[near] > 0
    far, most = distance[near], spread[near]
    matrix, whole = dominates.astype(np.float64), far * most
    first = np.where(comes, (whole * comes) @ matrix, matrix @ (whole * ~comes))
    with np.errstate(divide="ignore", invalid="ignore"):
        ways = np.where(far > 0, (room - first) // far, most)
    limited = spread.copy()
    limited[near] = np.where(room > first, np.minimum(most, ways), 0.0)
    return limited
