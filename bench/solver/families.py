"""Families of fleets and of goals, drawn from a seeded generator."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from ebbtide.core.planner.solver.question import (
    CheapestAt,
    FastestFor,
    FastestWithin,
    Fleet,
    Goal,
    LeastTotal,
    PoolOffer,
    Question,
    Servers,
)

TYPES: Final = (
    # USD per hour on demand, rate: one to eight GPUs of five generations
    (0.526, 1.0),
    (0.752, 1.05),
    (1.204, 1.1),
    (3.912, 3.7),
    (0.90, 0.45),
    (7.20, 3.2),
    (3.06, 2.9),
    (12.24, 10.9),
    (24.48, 20.5),
    (1.006, 1.9),
    (1.624, 2.0),
    (5.672, 7.1),
    (16.288, 13.4),
    (32.773, 42.0),
    (40.966, 47.0),
    (98.32, 110.0),
)

SPOT_SHARE: Final = 0.7
MANY: Final = 64
LEGAL: Final = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)

Pools = tuple[PoolOffer, ...]


def draw_cloud(rng: np.random.Generator, num: int, cap: int) -> Pools:
    """Return types in zones, on demand and spot; a zone has its own discount and loss."""
    found = []
    for place in range(num):
        usd, rate = TYPES[int(rng.integers(len(TYPES)))]
        spot = bool(rng.random() < SPOT_SHARE)
        usd *= float(np.round(rng.uniform(0.25, 0.7), 4)) if spot else 1.0
        useful = rng.uniform(0.75, 0.99) if spot else 1.0
        offer = (round(usd, 4), rate * float(useful))
        most = int(rng.integers(1, cap + 1))
        found.append(PoolOffer(f"p{place:03d}", *offer, most, not spot))
    return tuple(found)


def draw_uniform(rng: np.random.Generator, num: int, cap: int) -> Pools:
    """Return prices and rates that have nothing to do with each other."""
    return tuple(
        _pool(place, (float(rng.uniform(0.5, 10)), float(rng.uniform(0.5, 10))), rng, cap)
        for place in range(num)
    )


def draw_shapes(rng: np.random.Generator, num: int, cap: int) -> Pools:
    """Return nodes of 1, 2, 4 or 8 GPUs at nearly one price for a GPU."""
    found = []
    for place in range(num):
        gpus = int(rng.choice([1, 2, 4, 8]))
        usd = gpus * float(rng.uniform(0.8, 1.2))
        rate = gpus ** float(rng.uniform(0.93, 0.99))
        found.append(_pool(place, (usd, rate), rng, cap))
    return tuple(found)


def draw_near_proportional(rng: np.random.Generator, num: int, cap: int) -> Pools:
    """Return prices within 5 % of one price for a rate."""
    found = []
    for place in range(num):
        rate = float(rng.uniform(0.5, 10))
        found.append(_pool(place, (rate * float(rng.uniform(0.95, 1.05)), rate), rng, cap))
    return tuple(found)


def draw_whole(rng: np.random.Generator, num: int, cap: int) -> Pools:
    """Return prices and rates in whole numbers."""
    return tuple(
        _pool(place, (float(rng.integers(1, 40)), float(rng.integers(1, 40))), rng, cap)
        for place in range(num)
    )


def draw_proportional(rng: np.random.Generator, num: int, cap: int) -> Pools:
    """Return one price for a rate: which sum of rates comes nearest is all that is asked."""
    found = []
    for place in range(num):
        rate = float(rng.uniform(0.5, 10))
        found.append(_pool(place, (0.5 * rate, rate), rng, cap))
    return tuple(found)


def _pool(place: int, offer: tuple[float, float], rng: np.random.Generator, cap: int) -> PoolOffer:
    is_on_demand = bool(rng.random() >= SPOT_SHARE)
    return PoolOffer(f"p{place:03d}", *offer, int(rng.integers(1, cap + 1)), is_on_demand)


FAMILIES: Final[dict[str, Callable[[np.random.Generator, int, int], Pools]]] = {
    "cloud": draw_cloud,
    "uniform": draw_uniform,
    "shapes": draw_shapes,
    "near-proportional": draw_near_proportional,
    "whole": draw_whole,
    "proportional": draw_proportional,
}


# ------------------------------------------------------------------------- questions


def efficiency_of(num: int, loss: float) -> tuple[float, ...]:
    """Return what is left of the summed rate when all-reduces take a share that grows."""
    return tuple(1 / (1 + loss * (n - 1) / n * (1 + 0.1 * np.log2(n))) for n in range(1, num + 1))


def _ask(rng: np.random.Generator, pools: Pools, kind: str, share: float) -> Question:
    """Return a question of one kind whose demand is a share of what can be had."""
    capacity = sum(pool.most for pool in pools)
    by_rate = sorted((p.rate for p in pools for _ in range(p.most)), reverse=True)
    # Many pools are asked for jobs of many nodes.
    low, high = (32, 128) if len(pools) >= MANY else (4, 64)
    size = max(1, min(capacity, int(rng.integers(low, high + 1))))
    usual = sum(by_rate[:size])
    mean_usd = sum(p.usd_per_hour * p.most for p in pools) / capacity
    rate = share * usual
    servers = Servers(round(0.1 * mean_usd + 0.05, 4), usual / float(rng.uniform(3, 9)), 32)
    goal: Goal = CheapestAt(rate)
    form, _, rest = kind.partition(" ")
    sizes: tuple[int, ...] = ()
    most: int | None = size
    floor = 0
    if "legal" in rest:
        sizes = tuple(n for n in LEGAL if n <= max(size, 4))
    if "free" in rest:
        most = None
    if "floor" in rest:
        floor = min(max(1, size // 4), sum(p.most for p in pools if p.is_on_demand))
    budget = share * size * mean_usd
    if "rate" in rest:
        goal = FastestFor(budget)
    if "total" in rest:
        goal = LeastTotal(rate * float(rng.integers(0, 2)))
    if "within" in rest:
        goal = FastestWithin(mean_usd / (usual / size) * float(rng.uniform(0.5, 2)))
    efficiency: tuple[float, ...] = ()
    if form == "all-reduce":
        top = min(capacity, most or 64)
        efficiency, most = efficiency_of(top, float(rng.uniform(0.05, 0.8))), top
        if isinstance(goal, CheapestAt | LeastTotal):
            goal = replace(goal, rate=goal.rate * efficiency[-1])
    fleet = Fleet(
        pools=pools,
        sizes=sizes,
        most_nodes=most,
        on_demand_floor=floor,
        servers=servers if form == "servers" else None,
        efficiency=efficiency,
    )
    return Question(fleet, goal)


KINDS: Final = tuple(
    f"{form} {goal}{limits}"
    for form in ("plain", "servers", "all-reduce")
    for goal in ("cost", "rate", "total", "within")
    for limits in ("", " free", " legal", " floor", " legal floor")
)


def draw(
    rng: np.random.Generator, *, family: str, kind: str, num: int, cap: int, share: float = 0.0
) -> Question:
    """Return one question; a share of 0 is drawn as well."""
    pools = FAMILIES[family](rng, num, cap)
    return _ask(rng, pools, kind, share or float(rng.uniform(0.2, 0.9)))
