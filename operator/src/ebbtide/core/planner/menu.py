"""
The best fleets of a field, by goal: exact, with whole nodes and legal numbers of workers.

Where all pools carry equally many workers per node and every legal size fills its nodes, the pool
solver answers. Else `fronts` lists what can pay, worker by worker. Both count with the late rates:
a plan is to hold nine of ten times.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from ebbtide.core.planner.front_walk import SLACK, find, is_one_goal, walk
from ebbtide.core.planner.fronts import Front, Fronts, Point, list_front
from ebbtide.core.planner.inputs import Inputs
from ebbtide.core.planner.outlook import Field, Fleet
from ebbtide.core.planner.risk import HOUR, Offer
from ebbtide.core.planner.solver import question as asked
from ebbtide.core.planner.solver.answer import Answer
from ebbtide.core.planner.wishes import Cheapest, Slowest, Wish, Worth, is_less, worth_of

SHORT: Final = 1024
"""Offers times the largest size up to which a list of fleets is short."""
TINY: Final = 48
"""... and up to which it is made in less time than the solver takes for one goal."""
MIDDLE: Final = 128
"""... and in less than for a few."""
POINTS: Final = 256
"""Of a front that is too long to be listed whole."""


@dataclass(frozen=True, kw_only=True)
class Menu:
    """Some offers, and what holds for all fleets of them."""

    inputs: Inputs
    offers: tuple[Offer, ...]
    sizes: tuple[int, ...]
    fronts: Fronts = field(default_factory=dict, compare=False)
    """Those that were listed, for all menus of one question."""

    @classmethod
    def of(cls, field: Field, offers: tuple[Offer, ...]) -> "Menu":
        """Return what these pools make of a question, in all its legal sizes."""
        return cls(
            inputs=field.inputs, offers=offers, sizes=field.inputs.sizes, fronts=field.fronts
        )

    def choose(self, wish: Wish) -> Fleet | None:
        """Return the best fleet for a wish; None where none meets it."""
        if not self.offers or not self.sizes:
            return None
        if self._per_node is None or self._is_listed_faster(wish):
            return self._choose_listed(wish)
        return self._choose_solved(wish, self._per_node)

    def list_all(self) -> Iterator[Fleet]:
        """
        Return the fleets that cost least per hour at their rate.

        All of them where a list is short, else about `POINTS` speeds for each number of servers.
        """
        if not self.offers or not self.sizes:
            return
        per_node = self._per_node
        if per_node is None or len(self.offers) * self.inputs.sizes[-1] <= SHORT:
            yield from self._list_points()
            return
        for count, fixed, through in self._servers():
            for answer in walk(self._fleet(per_node, fixed, through), points=POINTS):
                yield self._name(answer, per_node, count)

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
        if self.inputs.uses_servers and high > low and not isinstance(wish, Slowest):
            return True
        return not is_one_goal(wish) and (cells <= MIDDLE or not isinstance(wish, Cheapest))

    @cached_property
    def _front(self) -> Front:
        """The list for these pools, with all legal sizes of the question: it serves any of them."""
        key = tuple((offer.name, offer.late_rate) for offer in self.offers)
        if key not in self.fronts:
            self.fronts[key] = list_front(
                self.offers, sizes=self.inputs.sizes, floor=self.inputs.on_demand_floor
            )
        return self.fronts[key]

    @cached_property
    def _points(self) -> tuple[Point, ...]:
        return self._front.points(self.sizes, self.inputs.speed.efficiency_of)

    def _choose_listed(self, wish: Wish) -> Fleet | None:
        best: tuple[Worth, Point, int] | None = None
        for count, fixed, through in self._servers():
            for point in self._points:
                usd, rate = point.usd_per_hour + fixed, min(point.rate, through)
                key = worth_of(wish, usd, rate)
                if key is not None and (best is None or is_less(key, best[0])):
                    best = key, point, count
        if best is None:
            return None
        return Fleet.of(self._front.workers_of(best[1]), best[2])

    def _list_points(self) -> Iterator[Fleet]:
        for count, _, through in self._servers():
            for point in self._points:
                yield Fleet.of(self._front.workers_of(point), count)
                if point.rate >= through:
                    break  # the next ones cost more and are no faster

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
        best: tuple[Worth, Answer, int] | None = None
        for count, fixed, through in self._servers():
            answer = find(self._fleet(per_node, fixed, through), wish)
            if answer is None:
                continue
            key = worth_of(wish, answer.cost, answer.rate, slack=SLACK)
            if key is not None and (best is None or is_less(key, best[0])):
                best = key, answer, count
        return None if best is None else self._name(best[1], per_node, best[2])

    def _name(self, answer: Answer, per_node: int, servers: int) -> Fleet:
        names = [offer.name for offer in self.offers]
        workers = {names[int(key)]: nodes * per_node for key, nodes in answer.counts.items()}
        return Fleet.of(workers, servers)

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
