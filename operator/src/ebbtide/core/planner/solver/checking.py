"""Whether a plan meets every limit, told from the question alone: no solver is believed."""

import math
from collections.abc import Mapping
from typing import assert_never

from ebbtide.core.planner.solver.cover import FEASIBLE
from ebbtide.core.planner.solver.question import (
    CheapestAt,
    FastestFor,
    FastestWithin,
    Fleet,
    Goal,
    LeastTotal,
    Question,
)

LOOSE: float = 4 * FEASIBLE
"""Relative; sums of many pools are not rounded alike."""


def measure(fleet: Fleet, counts: Mapping[str, int], servers: int) -> tuple[float, float]:
    """Return USD per hour and rate of a plan."""
    pools = [(pool, counts[pool.name]) for pool in fleet.pools if pool.name in counts]
    # Summed exactly: the order of the pools must not show.
    cost = math.fsum(pool.usd_per_hour * count for pool, count in pools)
    rate = math.fsum(pool.rate * count for pool, count in pools)
    num_nodes = sum(count for _, count in pools)
    if fleet.efficiency and 0 < num_nodes <= len(fleet.efficiency):
        rate *= fleet.efficiency[num_nodes - 1]
    if fleet.servers is not None:
        cost += servers * fleet.servers.usd_per_hour
        rate = min(rate, servers * fleet.servers.rate)
    return cost, rate


def find_breaches(question: Question, counts: Mapping[str, int], servers: int) -> tuple[str, ...]:
    """Return each limit that a plan breaks, in words."""
    fleet = question.fleet
    cost, rate = measure(fleet, counts, servers)
    return (
        *_breaches_of_pools(fleet, counts),
        *_breaches_of_sizes(fleet, sum(counts.values())),
        *_breaches_of_servers(fleet, servers),
        *_breaches_of_goal(question.goal, cost, rate),
    )


def _breaches_of_pools(fleet: Fleet, counts: Mapping[str, int]) -> list[str]:
    pools = {pool.name: pool for pool in fleet.pools if pool.name in counts}
    found = []
    for name, count in counts.items():
        if name not in pools:
            found.append(f"there is no pool {name}")
        elif not 0 <= count <= pools[name].most or count != int(count):
            found.append(f"{count} nodes of pool {name}, which has {pools[name].most}")
    used = sum(count > 0 for count in counts.values())
    if fleet.most_pools is not None and used > fleet.most_pools:
        found.append(f"nodes of {used} pools, more than {fleet.most_pools}")
    on_demand = sum(n for name, n in counts.items() if name in pools and pools[name].is_on_demand)
    if on_demand < fleet.on_demand_floor:
        found.append(f"{on_demand} nodes on demand, fewer than {fleet.on_demand_floor}")
    return found


def _breaches_of_sizes(fleet: Fleet, num_nodes: int) -> list[str]:
    found = []
    if num_nodes < 1:
        found.append("no node at all")
    if fleet.sizes and num_nodes not in fleet.sizes:
        found.append(f"{num_nodes} nodes are no legal size")
    if fleet.most_nodes is not None and num_nodes > fleet.most_nodes:
        found.append(f"{num_nodes} nodes, more than {fleet.most_nodes}")
    if fleet.efficiency and num_nodes > len(fleet.efficiency):
        found.append(f"the efficiency of {num_nodes} nodes is not known")
    return found


def _breaches_of_servers(fleet: Fleet, servers: int) -> list[str]:
    low, high = (0, 0) if fleet.servers is None else (1, fleet.servers.most)
    return [] if low <= servers <= high else [f"{servers} servers, not {low} to {high}"]


def _breaches_of_goal(goal: Goal, cost: float, rate: float) -> list[str]:
    match goal:
        case CheapestAt(demand) | LeastTotal(demand):
            is_met = rate >= demand * (1 - LOOSE)
            text = f"a rate of {rate:g}, below {demand:g}"
        case FastestFor(budget):
            is_met = cost <= budget * (1 + LOOSE)
            text = f"{cost:g} USD per hour, above {budget:g}"
        case FastestWithin(limit):
            is_met = cost <= limit * rate * (1 + LOOSE)
            text = f"{cost:g} USD per hour at a rate of {rate:g}, above {limit:g} for each unit"
        case _:
            assert_never(goal)
    return [] if is_met else [text]
