"""Small covers, and the best of all their plans."""

import itertools
from dataclasses import replace

import numpy as np

from ebbtide.core.planner.solver.cover import Cover, Floats
from ebbtide.core.planner.solver.table import fill_sizes


def make_cover(seed: int, *, pools: int = 5, sizes: int = 1, floor: float = 0.0) -> Cover:
    """Return a small cover; some of its pools have the same rate."""
    rng = np.random.default_rng(seed)
    most = rng.integers(1, 4, pools).astype(float)
    chosen = np.sort(rng.choice(np.arange(1, int(most.sum())), sizes, replace=False))
    rate = rng.integers(1, 5, pools).astype(float)
    return Cover(
        cost=np.sort(rng.uniform(1, 5, pools)),
        rate=rate,
        least=np.zeros(pools),
        most=most,
        is_on_demand=np.arange(pools) % 2 == 0,
        sizes=chosen.astype(float),
        demand=rng.uniform(0.5, 0.9) * rate.mean() * chosen,
        top=np.full(sizes, np.inf),
        scale=np.ones(sizes),
        floor=min(floor, most[::2].sum(), chosen[0]),
    )


def make_torn(seed: int) -> Cover:
    """Return a cover of one size whose demand lies between the cheapest and the fastest nodes."""
    cover = make_cover(seed, pools=9)
    (slow,), (fast,) = (
        fill_sizes(cover, order.argsort())[1] for order in (cover.cost, -cover.rate)
    )
    return replace(cover, demand=np.array([slow + 0.37 * (fast - slow)]))


def least_cost(cover: Cover, most: Floats | None = None) -> float:
    """Return the cost of the best of all plans, infinite where none is legal."""
    limits = cover.most if most is None else most
    plans = itertools.product(*(range(int(limit) + 1) for limit in limits))
    values = [cover.value_of(np.array(plan, dtype=float)) for plan in plans]
    return min((value for value in values if value is not None), default=np.inf)
