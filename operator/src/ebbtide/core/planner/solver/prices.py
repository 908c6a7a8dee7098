"""The prices of one size as an array program needs them; what they mean is told in `reduce`."""

from dataclasses import dataclass

import numpy as np

from ebbtide.core.planner.solver.compiled import fast
from ebbtide.core.planner.solver.cover import Cover, Floats
from ebbtide.core.planner.solver.reduce import reduce
from ebbtide.core.planner.solver.table import tabulate


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


def find_prices(cover: Cover, price: float) -> Prices:
    """Return the best prices of the one size of a cover at a price of rate."""
    found = fast(reduce)(tabulate(cover), 0, price)
    return Prices(price, found.costs, found.on_demand, np.array([found.base]))
