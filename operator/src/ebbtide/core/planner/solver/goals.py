"""A rate at least cost, and the most rate for a cost: each as a few covers."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from ebbtide.core.planner.solver.cover import CLOSED, FEASIBLE, Floats
from ebbtide.core.planner.solver.ground import Ground
from ebbtide.core.planner.solver.question import Servers

MARGIN: Final = 1 + FEASIBLE


@dataclass(frozen=True, slots=True)
class Pick:
    """A plan of kinds with its servers; the bound is of what the goal asks for."""

    plan: Floats
    servers: int
    bound: float


def count_servers(servers: Servers | None, rate: float) -> int:
    """Return the fewest servers that let a rate through; 0 where there are none to choose."""
    return 0 if servers is None else max(1, math.ceil(rate / servers.rate - FEASIBLE))


def count_useful(ground: Ground, servers: Servers) -> int:
    """Return the most servers that can be of use."""
    return min(servers.most, count_servers(servers, ground.most_rate()))


def find_cheapest(ground: Ground, rate: float) -> Pick | None:
    """Return the plan of least cost at a rate; each server more than needed only costs."""
    servers = ground.fleet.servers
    count = count_servers(servers, rate)
    found = ground.search(ground.cheapest(rate))
    ground.price = found.price
    if found.best.plan is None:
        return None
    extra = count * servers.usd_per_hour if servers else 0.0
    return Pick(ground.strip(found.best.plan), count, found.bound + extra)


def find_fastest(ground: Ground, budget: float) -> Pick | None:
    """
    Return the plan of the most rate for a cost.

    More servers let more through and leave less for nodes. Up to some number, `paid`, the bound on
    the nodes' rate still fills them; beyond it the nodes decide, and one more is enough to try.
    """
    servers = ground.fleet.servers
    if servers is None:
        found = ground.search(ground.fastest(budget))
        plan = found.best.plan
        return None if plan is None else Pick(ground.strip(plan), 0, -found.bound)
    last = count_useful(ground, servers)
    if servers.usd_per_hour > 0:
        last = min(last, math.ceil(budget / servers.usd_per_hour) - 1)
    if last < 1:
        return None
    best = _Fastest(ground, servers, budget)
    paid, beyond = _last_paid(ground, servers, budget, last)
    full = paid * servers.rate
    if beyond > full and best.try_any(paid + 1) >= full:
        return best.pick()
    for count in range(paid, 0, -1):
        if best.try_full(count) or best.try_any(count) >= (count - 1) * servers.rate:
            break
    if full >= beyond > best.rate:
        best.try_any(paid + 1)
    return best.pick()


@dataclass
class _Fastest:
    """The best of several numbers of servers."""

    ground: Ground
    servers: Servers
    budget: float
    rate: float = 0.0
    limit: float = 0.0
    """What is proven of all numbers tried."""
    plan: Floats | None = None
    count: int = 0

    def pick(self) -> Pick | None:
        if self.plan is None:
            return None
        return Pick(self.plan, self.count, max(self.rate, self.limit))

    def try_full(self, count: int) -> bool:
        """Look for the cheapest plan that fills so many servers."""
        through = count * self.servers.rate
        if through <= self.rate:
            return True
        left = self.budget - count * self.servers.usd_per_hour
        found = self.ground.search(self.ground.cheapest(through), beat=left * MARGIN)
        plan = found.best.plan
        if plan is None:
            return False
        self.plan, self.count, self.rate = self.ground.strip(plan), count, through
        return True

    def try_any(self, count: int) -> float:
        """Look for the most rate of nodes with so many servers; return the best so far."""
        left = self.budget - count * self.servers.usd_per_hour
        beat = -self.rate if self.plan is not None else np.inf
        found = self.ground.search(self.ground.fastest(left), beat=beat)
        through = count * self.servers.rate
        if not found.proven:
            self.limit = max(self.limit, min(-found.bound, through))
        if found.best.plan is not None:
            rate = min(-found.best.value, through)
            self.plan, self.count, self.rate = self.ground.strip(found.best.plan), count, rate
        return self.rate


def _last_paid(ground: Ground, servers: Servers, budget: float, last: int) -> tuple[int, float]:
    """
    Return the most servers that the bound on the rate of the nodes still fills.

    And that bound with one server more; 0 where there is none more.
    """
    low, high, beyond = 0, last + 1, 0.0
    price: float = 0.0
    # The bound falls slowly and what servers let through grows evenly: guess where they meet.
    guess = last
    while high - low > 1:
        cover = ground.fastest(budget - guess * servers.usd_per_hour)
        bound, price = ground.glance(cover, price or None)
        rate = max(-bound, 0.0)  # no plan at all is no rate
        filled = rate / servers.rate * (1 + CLOSED)
        if filled >= guess:
            low = guess
        else:
            high, beyond = guess, rate
        guess = min(max(int(min(filled, last)), low + 1), high - 1)
    return low, beyond
