"""
Goals on cost over rate, which times the work is the money in all.

Least ratio (Dinkelbach): with q the ratio of the best plan so far, a plan is better when
cost - q rate is below 0, and that is a linear cost; the least of it gives the next q. Limited
ratio: budget times rate - cost >= 0 is a linear demand. With servers either the nodes or the
servers limit the rate, and for each number of them both are looked at.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ebbtide.core.planner.solver.cover import CLOSED, FEASIBLE, Cover, Floats
from ebbtide.core.planner.solver.goals import MARGIN, Pick, count_servers, count_useful
from ebbtide.core.planner.solver.ground import Ground
from ebbtide.core.planner.solver.question import Servers

FINER: Final = 1e-9
"""Relative: how much better a plan must be to be taken for better."""
HALVINGS: Final = 30


def find_least_total(ground: Ground, rate: float) -> Pick | None:
    """Return the plan of least cost over rate, at a rate or more."""
    return _Least(ground, rate).run()


class _Least:
    """The best ratio so far, over all numbers of servers and all efficiencies."""

    def __init__(self, ground: Ground, rate: float) -> None:
        self.ground = ground
        self.demand = rate
        self.ratio = np.inf
        self.bound = np.inf
        """Of what was left unproven."""
        self.plan: Floats | None = None
        self.count = 0
        smallest = float(ground.kinds.rate.min()) * ground.sizes.low
        self.least_rate = max(rate, smallest * float(ground.sizes.efficiency.min()))

    def run(self) -> Pick | None:
        servers = self.ground.fleet.servers
        first = count_servers(servers, self.demand)
        last = 0 if servers is None else count_useful(self.ground, servers)
        self._begin(first)
        if self.plan is None:
            return None
        for count in range(first, last + 1):
            for efficiency, piece in self._by_promise():
                self._improve(piece, efficiency, count)
        return Pick(self.plan, self.count, min(self.ratio, self.bound))

    def _begin(self, count: int) -> None:
        """Take the plan that the bound on the cost comes with."""
        ground = self.ground
        demand = self.demand or self.least_rate
        plan = ground.guess(ground.cheapest(demand))
        if plan is not None:
            self._take(ground.strip(plan), count)
        if ground.start.plan is not None:
            self._take_legal(ground.start.plan, count)

    def _take_legal(self, plan: Floats, count: int) -> None:
        cover, padded = self.ground.cheapest(self.demand or self.least_rate), self.ground.pad(plan)
        if padded is not None and cover.value_of(padded) is not None:
            self._take(plan, count)

    def _take(self, plan: Floats, count: int) -> None:
        cost, rate = self.ground.measure(plan, count)
        if cost / rate < self.ratio:
            self.plan, self.count, self.ratio = plan, count, cost / rate

    def _by_promise(self) -> list[tuple[float, Cover]]:
        """Return the pieces that a plan without a demand could be better in, the best first."""
        pieces = list(self.ground.pieces())
        if len(pieces) == 1:
            return pieces
        kinds, sizes = self.ground.kinds, self.ground.sizes
        weights = kinds.cost - self.ratio * sizes.efficiency[:, None] * kinds.rate
        promises = np.array(
            [
                _least_sum(row, kinds.most, cover.sizes[0])
                for row, (_, cover) in zip(weights, pieces, strict=True)
            ]
        )
        order = np.argsort(promises, kind="stable")
        return [pieces[place] for place in order if promises[place] < 0]

    def _improve(self, piece: Cover, efficiency: float, count: int) -> None:
        """Look at one number of servers and one efficiency until no plan is better."""
        servers = self.ground.fleet.servers
        if servers is None:
            demand = np.full(len(piece.sizes), self.demand / efficiency)
            self._descend(replace(piece, demand=demand), efficiency, 0)
            return
        through = count * servers.rate
        low = max(self.demand, through - servers.rate) / efficiency
        ones = np.ones(len(piece.sizes))
        nodes = replace(piece, demand=ones * low, top=ones * (through / efficiency))
        self._descend(nodes, efficiency, count)
        full = replace(piece, demand=ones * (through / efficiency))
        extra = count * servers.usd_per_hour
        found = self.ground.search(
            full, beat=self.ratio * through * (1 - FINER) - extra, warm=False
        )
        self._note(found.proven, found.bound + extra - self.ratio * through)
        if found.best.plan is not None:
            self._take(self.ground.strip(found.best.plan), count)

    def _descend(self, cover: Cover, efficiency: float, count: int) -> None:
        servers = self.ground.fleet.servers
        extra = count * servers.usd_per_hour if servers else 0.0
        while True:
            before = self.ratio
            cost = cover.cost - before * efficiency * cover.rate
            # What a better plan must save, against the cost of the best one.
            least = FINER * before * self.least_rate
            found = self.ground.search(replace(cover, cost=cost), beat=-extra - least, warm=False)
            self._note(found.proven, found.bound + extra)
            if found.best.plan is not None:
                self._take(self.ground.strip(found.best.plan), count)
            if not self.ratio < before:
                return

    def _note(self, proven: bool, excess: float) -> None:  # noqa: FBT001 -- one of two plain values
        if not proven:
            self.bound = min(self.bound, self.ratio + min(excess, 0.0) / self.least_rate)


def _least_sum(weights: Floats, most: Floats, nodes: float) -> float:
    order = np.argsort(weights)
    room = most[order]
    return float(weights[order] @ np.clip(nodes - (np.cumsum(room) - room), 0, room))


# ------------------------------------------------------------------------- limited ratio


def find_fastest_within(ground: Ground, limit: float) -> Pick | None:
    """Return the plan of the most rate whose cost over rate is within a limit."""
    found = _Within(ground, limit)
    servers = ground.fleet.servers
    if servers is None:
        for efficiency, piece in ground.pieces():
            found.try_nodes(piece, efficiency)
        return found.pick()
    for count in range(count_useful(ground, servers), 0, -1):
        if count * servers.rate <= found.rate * MARGIN:
            break
        if not found.try_full(servers, count):
            for efficiency, piece in ground.pieces():
                found.try_below(servers, count, piece, efficiency)
    return found.pick()


@dataclass
class _Within:
    ground: Ground
    limit: float
    rate: float = 0.0
    bound: float = 0.0
    plan: Floats | None = None
    count: int = 0

    def pick(self) -> Pick | None:
        if self.plan is None:
            return None
        return Pick(self.plan, self.count, max(self.rate, self.bound))

    def try_nodes(self, piece: Cover, efficiency: float, count: int = 0) -> float:
        """Look for the most rate of the nodes alone, paid by it; return that rate, or 0."""
        servers = self.ground.fleet.servers
        extra = count * servers.usd_per_hour if servers else 0.0
        rate = efficiency * piece.rate
        cover = replace(
            piece,
            cost=-rate,
            rate=self.limit * rate - piece.cost,
            demand=np.full(len(piece.sizes), extra),
        )
        found = self.ground.search(cover, beat=-self.rate or np.inf, warm=False)
        if not found.proven:
            self.bound = max(self.bound, -found.bound)
        if found.best.plan is None:
            return 0.0
        plan = self.ground.strip(found.best.plan)
        if servers is None or -found.best.value <= count * servers.rate * MARGIN:
            self.plan, self.count, self.rate = plan, count, -found.best.value
        return -found.best.value

    def try_full(self, servers: Servers, count: int) -> bool:
        """Look for nodes that fill so many servers, paid by what these let through."""
        through = count * servers.rate
        left = self.limit * through - count * servers.usd_per_hour
        found = self.ground.search(
            self.ground.cheapest(through), beat=left + FEASIBLE * abs(left), warm=False
        )
        if found.best.plan is None:
            return False
        self.plan, self.count = self.ground.strip(found.best.plan), count
        self.rate = through
        return True

    def try_below(self, servers: Servers, count: int, piece: Cover, efficiency: float) -> None:
        """Look for the most rate that so many servers let through whole."""
        through = count * servers.rate
        if self.try_nodes(piece, efficiency, count) <= through * MARGIN:
            return
        # More rate than the servers let through pays for itself, less might too: halve the range
        # in which some plan does. Whether one does from a rate upwards is one search.
        low, high = self.rate, through
        for _ in range(HALVINGS):
            if high - low <= CLOSED * high:
                break
            middle = (low + high) / 2
            rate = self._pay_between(piece, efficiency, count, (middle, through))
            if rate:
                low = max(rate, middle)
            else:
                high = middle
        if low > self.rate:
            self._pay_between(piece, efficiency, count, (low * (1 - FEASIBLE), through))

    def _pay_between(
        self, piece: Cover, efficiency: float, count: int, rates: tuple[float, float]
    ) -> float:
        """Return the rate of a plan between two rates that pays for itself; 0 for none."""
        servers = self.ground.fleet.servers
        extra = count * servers.usd_per_hour if servers else 0.0
        ones = np.ones(len(piece.sizes)) / efficiency
        cover = replace(
            piece,
            cost=piece.cost - self.limit * efficiency * piece.rate,
            demand=ones * rates[0],
            top=ones * rates[1],
        )
        found = self.ground.search(cover, beat=-extra + FEASIBLE * extra, warm=False)
        if found.best.plan is None:
            if not found.proven:
                self.bound = max(self.bound, rates[1])
            return 0.0
        plan = self.ground.strip(found.best.plan)
        rate = efficiency * float(self.ground.kinds.rate @ plan)
        if rate > self.rate:
            self.plan, self.count, self.rate = plan, count, rate
        return rate
