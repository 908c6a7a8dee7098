"""
Pools of one rate and one market: their nodes differ in cost alone.

Of two such pools the dearer has no node in a best plan while the cheaper has one to spare: with
them exchanged everything but the cost would stay. So what the prices leave out comes in the order
of its cost, and what they choose goes in the opposite order: a chain of pools each way, in place of
every choice of so many nodes from all of them.
"""

from dataclasses import dataclass

import numpy as np

from ebbtide.core.planner.solver.cover import Floats, Places


@dataclass(frozen=True, slots=True)
class Chain:
    """Pools in the order in which their nodes change, all in or all out."""

    pools: Places
    columns: Floats
    """What one changed node of each adds to a state, by row as in `States`."""
    spread: Floats
    """How many nodes of each can change."""

    @property
    def distance(self) -> Floats:
        """Of one node of each pool; rising."""
        distance: Floats = self.columns[0]
        return distance

    def options(self, room: float) -> Floats:
        """Return what 0, 1, ... changed nodes add to a state, as far as the room goes."""
        distance, spread = self.distance, self.spread
        left = room - ((distance * spread).cumsum() - distance * spread)
        with np.errstate(divide="ignore", invalid="ignore"):
            ways = np.where(distance > 0, np.minimum(spread, left // distance), spread)
        num = np.maximum(ways, 0.0).astype(np.intp)
        steps = self.columns.repeat(num, axis=1)
        return np.concatenate([np.zeros((len(steps), 1)), steps.cumsum(axis=1)], axis=1)

    def change(self, plan: Floats, num: float) -> None:
        """Change so many nodes in a plan."""
        sign = float(self.columns[1, 0])
        for pool, spread in zip(self.pools.tolist(), self.spread.tolist(), strict=True):
            plan[pool] += sign * min(num, spread)
            num -= min(num, spread)
            if num <= 0:
                break


def find_chains(columns: Floats, spread: Floats) -> list[Chain]:
    """Return the chains of more than one pool; rows of columns as in `States`."""
    pools = spread.nonzero()[0]
    distance, node, rate, _, on_demand = columns[:, pools]
    order = np.lexsort((distance, rate, on_demand, node))
    keys = columns[[1, 2, 4]][:, pools[order]]
    alike = (keys[:, 1:] == keys[:, :-1]).all(axis=0)
    if not alike.any():
        return []
    starts = np.append(0, (~alike).nonzero()[0] + 1)
    groups = np.split(pools[order], starts[1:])
    return [Chain(group, columns[:, group], spread[group]) for group in groups if len(group) > 1]
