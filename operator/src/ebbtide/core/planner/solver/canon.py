"""
One order of pools, whatever order and names they came in.

Sorted by price, rate and market; pools that differ in nothing but name and limit are one, and
what it gets is dealt out again by limit, then by name. So the plan of a fleet is always the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

import numpy as np

from ebbtide.core.planner.solver.cover import Flags, Floats, Places
from ebbtide.core.planner.solver.question import PoolOffer

UNIT: Final = 10_000.0
"""Parts of one that quanta are looked for in."""
WHOLE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Kinds:
    """Kinds of nodes, cheapest first."""

    cost: Floats
    rate: Floats
    most: Floats
    is_on_demand: Flags
    pools: tuple[PoolOffer, ...]
    """In canonical order."""
    kind_of: Places
    """Of each of these pools."""

    def merge(self, counts: Mapping[str, int]) -> Floats:
        """Return the nodes of each kind of a plan by pool; unknown pools are left out."""
        plan = np.zeros(len(self.cost))
        for pool, kind in zip(self.pools, self.kind_of, strict=True):
            plan[kind] += counts.get(pool.name, 0)
        return plan

    def deal(self, plan: Floats) -> dict[str, int]:
        """Return the nodes of each pool that gets any."""
        left = [int(count) for count in plan]
        counts = {}
        for place in np.flatnonzero(plan[self.kind_of]):
            pool, kind = self.pools[place], int(self.kind_of[place])
            taken = min(left[kind], pool.most)
            left[kind] -= taken
            if taken:
                counts[pool.name] = taken
        return dict(sorted(counts.items()))


def canonise(pools: tuple[PoolOffer, ...]) -> Kinds:
    """Return the kinds of nodes of which any can be had."""
    offered = [pool for pool in pools if pool.most]
    if not offered:
        none = np.zeros(0)
        return Kinds(none, none, none, none.astype(bool), (), none.astype(np.intp))
    table = np.empty((4, len(offered)))
    for row, name in zip(table, ("usd_per_hour", "rate", "is_on_demand", "most"), strict=True):
        row[:] = list(map(attrgetter(name), offered))
    order = np.lexsort((-table[3], table[2], table[1], table[0]))
    table = table[:, order]
    places = order.tolist()
    is_tied = (table[:, 1:] == table[:, :-1]).all(axis=0)
    for first, last in np.diff(is_tied, prepend=False, append=False).nonzero()[0].reshape(-1, 2):
        run = slice(first, last + 1)  # alike in all but the name
        places[run] = sorted(places[run], key=lambda place: offered[place].name)
    starts = np.ones(len(order), dtype=bool)
    starts[1:] = (table[:3, 1:] != table[:3, :-1]).any(axis=0)
    firsts = starts.nonzero()[0]
    return Kinds(
        table[0, firsts],
        table[1, firsts],
        np.add.reduceat(table[3], firsts),
        table[2, firsts] > 0,
        tuple([offered[place] for place in places]),
        starts.cumsum() - 1,
    )


def find_quantum(values: Floats) -> float:
    """Return a number of which all values are whole multiples; 0 where there is no large one."""
    if abs(values[0] * UNIT - round(values[0] * UNIT)) > WHOLE * max(1.0, values[0] * UNIT):
        return 0.0  # most often the first one tells
    scaled = values * UNIT
    whole = np.rint(scaled)
    if (np.abs(scaled - whole) > WHOLE * np.maximum(1, np.abs(scaled))).any():
        return 0.0
    return float(np.gcd.reduce(whole.astype(np.int64))) / UNIT
