"""
Pools that no best plan needs.

One pool dominates another if its nodes cost no more, do no less, and count no less for the floor.
Take a best plan with a node of pool j while a dominating pool has a node to spare: exchange them.
At the end all dominating pools are full wherever j is used; so of n nodes j has at most
n - (what those can give).
"""

import numpy as np

from ebbtide.core.planner.solver.cover import Cover, Floats


def limit_most(cover: Cover) -> Floats:
    """Return how many nodes of each pool some best plan stays within; least must be 0."""
    most: Floats = np.minimum(cover.most, cover.sizes[-1])
    if not np.isinf(cover.top).all():
        return most  # more rate might be too much
    does = (cover.cost != 0) | (cover.rate != 0)
    if most[does].sum() <= cover.sizes[-1]:
        return most  # all of them can be had at once
    order = np.lexsort((~cover.is_on_demand, -cover.rate, cover.cost))
    rate, room = cover.rate[order], most[order]
    dominates = rate[:, None] >= rate
    if cover.floor > 0:
        market = cover.is_on_demand[order]
        dominates &= market[:, None] | ~market
    # In this order pools are only dominated by earlier ones.
    taken = room @ np.triu(dominates, 1).astype(np.float64)
    most[order] = np.clip(cover.sizes[-1] - taken, 0, room)
    return most
