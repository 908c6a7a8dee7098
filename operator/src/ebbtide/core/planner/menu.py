"""
The best fleets of a field, by goal: exact, with whole nodes and legal numbers of workers.

Where all pools carry equally many workers per node and every legal size fills its nodes, the pool
solver answers. Else `fronts` lists what can pay, worker by worker. Both count with the late rates:
a plan is to hold nine of ten times.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from ebbtide.core.planner.fronts import Front, Fronts, Point, list_front
from ebbtide.core.planner.inputs import Inputs
from ebbtide.core.planner.outlook import Fleet
from ebbtide.core.planner.risk import HOUR, Offer
from ebbtide.core.planner.solver import question as asked
from ebbtide.core.planner.solver.answer import Answer
from ebbtide.core.planner.solver.solving import solve

SHORT: Final = 1024
"""Offers times the largest size up to which a list of fleets is short."""
TINY: Final = 48
"""... and up to which it is made in less time than the solver takes for one goal."""
BETTER: Final = 1 - 1e-9
"""More servers are taken only where they are better by more than rounding."""


@dataclass(frozen=True, slots=True)
class Cheapest:
    """The least money for the work, at a rate (samples per hour) or more."""

    rate: float = 0.0


@dataclass(frozen=True, slots=True)
class Slowest:
    """The least money per hour at a rate or more: the quick answer where others are compared."""

    rate: float


@dataclass(frozen=True, slots=True)
class Fastest:
    """The most rate where the whole work costs no more than so many USD per sample."""

    usd_per_sample: float = math.inf


Wish = Cheapest | Slowest | Fastest


@dataclass(frozen=True, kw_only=True)
class Menu:
    """Some offers, and what holds for all fleets of them."""

    inputs: Inputs
    offers: tuple[Offer, ...]
    sizes: tuple[int, ...]
    fronts: Fronts = field(default_factory=dict, compare=False)
    """Those that were listed, for all menus of one question."""

    def choose(self, wish: Wish) -> Fleet | None:
        """Return the best fleet for a wish; None where none meets it."""
        if not self.offers or not self.sizes:
            return None
        if self._per_node is None or self._is_listed_faster(wish):
            return self._choose_listed(wish)
        return self._choose_solved(wish, self._per_node)

    # ------------------------------------------------------------ servers

    def _servers(self) -> Iterator[tuple[int, float, float]]:
        """Return numbers of servers with their USD per hour (all that is fixed) and rate."""
        fixed = float(self.inputs.fixed_usd_per_hour)
        most = sum(offer.late_rate * offer.room for offer in self.offers) * self._best_efficiency
        through = self.inputs.speed.server_samples_per_s
        low, high = self.inputs.servers if self.inputs.uses_servers else (0, 0)
        price = float(self.inputs.server_usd_per_hour)
        for count in range(low, high + 1):
            rate = math.inf if through is None or not count else count * through * HOUR
            yield count, fixed + count * price, rate
            if rate >= most:
                return

    @cached_property
    def _best_efficiency(self) -> float:
        return max(self.inputs.speed.efficiency_of(size) for size in self.sizes)

    # ------------------------------------------------------------ listed

    def _is_listed_faster(self, wish: Wish) -> bool:
        """Tell whether one list for all numbers of servers, or all costs, is less work."""
        cells = len(self.offers) * self.inputs.sizes[-1]
        if cells <= TINY:
            return True
        if cells > SHORT:
            return False
        low, high = self.inputs.servers
        several = self.inputs.uses_servers and high > low and not isinstance(wish, Slowest)
        return several or (isinstance(wish, Fastest) and wish != Fastest())

    @cached_property
    def _front(self) -> Front:
        """The list for these pools, with all legal sizes of the question: it serves any of them."""
        key = tuple(offer.name for offer in self.offers)
        if key not in self.fronts:
            self.fronts[key] = list_front(
                self.offers, sizes=self.inputs.sizes, floor=self.inputs.on_demand_floor
            )
        return self.fronts[key]

    def _choose_listed(self, wish: Wish) -> Fleet | None:
        best: tuple[tuple[float, float], Point, int] | None = None
        points = self._front.points(self.sizes, self.inputs.speed.efficiency_of)
        for count, fixed, through in self._servers():
            for point in points:
                usd, rate = point.usd_per_hour + fixed, min(point.rate, through)
                key = _worth(wish, usd, rate)
                if key is not None and (best is None or _is_less(key, best[0])):
                    best = key, point, count
        if best is None:
            return None
        return Fleet.of(self._front.workers_of(best[1]), best[2])

    # ------------------------------------------------------------ solved

    @cached_property
    def _per_node(self) -> int | None:
        """Workers per node where nodes can be counted in place of workers."""
        found = {offer.per_node for offer in self.offers}
        if len(found) > 1:
            return None
        number = found.pop()
        counts = (*self.sizes, self.inputs.on_demand_floor)
        return number if all(count % number == 0 for count in counts) else None

    def _choose_solved(self, wish: Wish, per_node: int) -> Fleet | None:
        best: tuple[tuple[float, float], Answer, int] | None = None
        for count, fixed, through in self._servers():
            fleet = self._fleet(per_node, fixed, through)
            found = solve(asked.Question(fleet, _goal(wish, fleet)))
            if not isinstance(found, Answer):
                continue
            if wish == Fastest():
                # of the fastest fleets the cheapest
                again = solve(asked.Question(fleet, asked.CheapestAt(found.rate * BETTER)))
                found = again if isinstance(again, Answer) else found
            key = _worth(wish, found.cost, found.rate, slack=1e-8)
            if key is not None and (best is None or _is_less(key, best[0])):
                best = key, found, count
        if best is None:
            return None
        names = [offer.name for offer in self.offers]
        workers = {names[int(key)]: nodes * per_node for key, nodes in best[1].counts.items()}
        return Fleet.of(workers, best[2])

    def _fleet(self, per_node: int, fixed: float, through: float) -> asked.Fleet:
        """Return the nodes as the solver knows them: names say their order and nothing else."""
        pools = tuple(
            asked.PoolOffer(
                f"{place:05d}",
                offer.usd_per_hour,
                offer.late_rate * per_node,
                offer.nodes,
                is_on_demand=not offer.is_spot,
            )
            for place, offer in enumerate(self.offers)
        )
        sizes = tuple(size // per_node for size in self.sizes)
        efficiency = self.inputs.speed.efficiency
        most = sum(pool.rate * pool.most for pool in pools)
        return asked.Fleet(
            pools=pools,
            sizes=sizes,
            on_demand_floor=self.inputs.on_demand_floor // per_node,
            servers=self._as_server(fixed, through, most * self._best_efficiency),
            efficiency=tuple(
                self.inputs.speed.efficiency_of(nodes * per_node)
                for nodes in range(1, sizes[-1] + 1)
            )
            if efficiency
            else (),
        )

    def _as_server(self, fixed: float, through: float, most: float) -> asked.Servers | None:
        """Put what is fixed into one server; the solver adds its price and heeds its limit."""
        if fixed <= 0 and through >= most:
            return None
        return asked.Servers(fixed, min(through, 2 * most), 1)


def _goal(wish: Wish, fleet: asked.Fleet) -> asked.Goal:
    match wish:
        case Cheapest(rate):
            return asked.LeastTotal(rate)
        case Slowest(rate):
            return asked.CheapestAt(rate)
        case Fastest(limit) if math.isfinite(limit):
            return asked.FastestWithin(limit)
        case _:
            nodes = sum(pool.usd_per_hour * pool.most for pool in fleet.pools)
            fixed = fleet.servers.usd_per_hour if fleet.servers else 0.0
            return asked.FastestFor(2 * (nodes + fixed))


def _worth(
    wish: Wish, usd: float, rate: float, *, slack: float = 0.0
) -> tuple[float, float] | None:
    """Return what a wish wants small, first things first; None where it is not met."""
    match wish:
        case Cheapest(least):
            return (usd / rate, -rate) if rate >= least * (1 - slack) else None
        case Slowest(least):
            return (usd, -rate) if rate >= least * (1 - slack) else None
        case Fastest(limit):
            return (-rate, usd) if usd <= limit * rate * (1 + slack) else None


def _is_less(one: Sequence[float], other: Sequence[float]) -> bool:
    """Compare with room for rounding, so that the first of equals stays."""
    for left, right in zip(one, other, strict=True):
        margin = 1e-9 * max(abs(left), abs(right))
        if left < right - margin:
            return True
        if left > right + margin:
            return False
    return False
