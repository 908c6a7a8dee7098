"""
Pools that no best plan needs.

One pool dominates another if its nodes cost no more, do no less, and count no less for the floor.
Take a best plan with a node of pool j while a dominating pool has a node to spare: exchange them.
At the end all dominating pools are full wherever j is used; so of n nodes j has at most
n - (what those can give).
"""

import numpy as np

from ebbtide.core.planner.solver.compiled import kernel
from ebbtide.core.planner.solver.cover import Cover, Floats
from ebbtide.core.planner.solver.table import sort_by


@kernel
def limit_most(columns: Floats, size: float, floor: float) -> Floats:
    """
    Return how many nodes of each pool some best plan of up to so many nodes stays within.

    Rows of columns: cost, rate, nodes at most, and 1 on demand.
    """
    cost, rate, most, market = columns[0], columns[1], columns[2], columns[3]
    limits, needed, num = np.zeros(len(cost)), np.empty(len(cost), dtype=np.int64), 0
    # In this order pools are only dominated by earlier ones; of these, by those that are needed:
    # what dominates one that is not, dominates all that it would, and is enough.
    for pool in sort_by(cost, -rate):
        left = size
        for place in range(num):
            other = needed[place]
            if rate[other] >= rate[pool] and (floor <= 0 or market[other] >= market[pool]):
                left -= most[other]
                if left <= 0:
                    break
        if left > 0 and most[pool] > 0:
            limits[pool] = min(left, most[pool])
            needed[num] = pool
            num += 1
    return limits


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
