"""A fleet as arrays, and the covers that a goal makes of it."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ebbtide.core.planner.solver.canon import Kinds, find_quantum
from ebbtide.core.planner.solver.climb import find_bound
from ebbtide.core.planner.solver.compiled import fast
from ebbtide.core.planner.solver.cover import Cover, Flags, Floats, Incumbent, Places
from ebbtide.core.planner.solver.dominance import limit_most
from ebbtide.core.planner.solver.question import Fleet
from ebbtide.core.planner.solver.search import FallBack, Found, Limits, search
from ebbtide.core.planner.solver.table import fill_sizes


@dataclass(frozen=True, slots=True)
class Start:
    """Where a search may begin: a plan of kinds, and a price of rate."""

    plan: Floats | None = None
    price: float | None = None


@dataclass(frozen=True, slots=True)
class Sizes:
    """The numbers of nodes that are legal and possible: a range, or a list with efficiencies."""

    low: int
    high: int
    chosen: Floats | None
    """None where every number from low to high will do, all with an efficiency of 1."""
    efficiency: Floats


def choose_sizes(fleet: Fleet, kinds: Kinds) -> Sizes | str:
    """Return the sizes, or why there is none."""
    capacity = int(kinds.most.sum())
    if not capacity:
        return "no pool has a node to give"
    on_demand = int(kinds.most[kinds.is_on_demand].sum())
    if on_demand < fleet.on_demand_floor:
        need = f"{fleet.on_demand_floor} on-demand nodes are asked for"
        return f"{need}, and the pools have {on_demand}"
    low = max(1, fleet.on_demand_floor)
    high = min(capacity, fleet.most_nodes or capacity, len(fleet.efficiency) or capacity)
    legal = sorted({size for size in fleet.sizes if low <= size <= high})
    if low > high or (fleet.sizes and not legal):
        wanted = f"; legal are {', '.join(map(str, sorted(fleet.sizes)))}" if fleet.sizes else ""
        return f"only {low} to {high} nodes are possible{wanted}"
    if legal:
        low, high = legal[0], legal[-1]
    if not fleet.efficiency and (not legal or len(legal) == high - low + 1):
        return Sizes(low, high, None, np.ones(1))
    chosen = np.array(legal or range(low, high + 1), dtype=np.float64)
    if not fleet.efficiency:
        return Sizes(low, high, chosen, np.ones(len(chosen)))
    return Sizes(low, high, chosen, np.array(fleet.efficiency)[chosen.astype(np.intp) - 1])


@dataclass(frozen=True, slots=True)
class Offer:
    """The kinds that some best plan may need, as every cover of a ground has them."""

    kinds: Places
    cost: Floats
    rate: Floats
    most: Floats
    is_on_demand: Flags

    def with_blank(self, most: float) -> "Offer":
        """Return them with one more kind, which stands for nodes left out of the largest size."""
        return Offer(
            self.kinds,
            np.append(self.cost, 0.0),
            np.append(self.rate, 0.0),
            np.append(self.most, float(most)),
            np.append(self.is_on_demand, values=False),
        )


@dataclass(slots=True)
class Ground:
    """What every goal works with; it keeps count of how exact its searches were."""

    fleet: Fleet
    kinds: Kinds
    sizes: Sizes
    fall_back: FallBack
    limits: Limits
    start: Start = field(default_factory=Start)
    proven: bool = True
    num_fall_backs: int = 0
    price: float = 0.0
    offer: Offer = field(init=False)

    def __post_init__(self) -> None:
        kinds, sizes = self.kinds, self.sizes
        # Which kinds dominate which is the same for cost at a rate, rate for a cost, and any ratio.
        columns = np.array([kinds.cost, kinds.rate, kinds.most, kinds.is_on_demand])
        needed = fast(limit_most)(columns, float(sizes.high), float(self.fleet.on_demand_floor))
        kept = needed.nonzero()[0]
        offer = Offer(
            kept, kinds.cost[kept], kinds.rate[kept], needed[kept], kinds.is_on_demand[kept]
        )
        self.offer = offer if sizes.chosen is not None else offer.with_blank(sizes.high - sizes.low)

    @property
    def has_efficiency(self) -> bool:
        """Whether the rate depends on the number of nodes by more than their sum."""
        return bool(self.fleet.efficiency)

    def cheapest(self, demand: float) -> Cover:
        """Return the cover of the least cost at a rate."""
        offer = self.offer
        quantum = find_quantum(offer.cost)
        return self._cover(offer.cost, offer.rate, demand / self.sizes.efficiency, quantum=quantum)

    def fastest(self, budget: float) -> Cover:
        """Return the cover of the most rate, negative, for a cost."""
        offer, efficiency = self.offer, self.sizes.efficiency
        quantum = 0.0 if self.has_efficiency else find_quantum(offer.rate)
        demand = np.full(len(efficiency), -budget)
        return self._cover(-offer.rate, -offer.cost, demand, scale=efficiency, quantum=quantum)

    def pieces(self) -> Iterator[tuple[float, Cover]]:
        """
        Return covers of cost and summed rate without a demand, and the efficiency of each.

        One for all sizes; where sizes differ in efficiency, one for each.
        """
        offer, sizes = self.offer, self.sizes
        whole = self._cover(offer.cost, offer.rate, np.full(len(sizes.efficiency), -np.inf))
        if not self.has_efficiency:
            yield 1.0, whole
            return
        for place, efficiency in enumerate(sizes.efficiency):
            yield float(efficiency), whole.at(np.array([place]))

    def search(self, cover: Cover, *, beat: float = np.inf, warm: bool = True) -> Found:
        """Search, and remember whether that was exact."""
        start = self.start if warm else Start()
        plan = None if start.plan is None else self.pad(start.plan)
        limits = replace(self.limits, seconds=self.limits.seconds * 0.5**self.num_fall_backs)
        found = search(
            cover,
            fall_back=self.fall_back,
            limits=limits,
            beat=beat,
            start=(plan, start.price),
        )
        self.proven &= found.proven
        self.num_fall_backs += found.used_fall_back
        return found

    def pad(self, plan: Floats) -> Floats | None:
        """Return a plan of kinds as one of a cover; None where it has kinds that are left out."""
        kept = plan[self.offer.kinds]
        if kept.sum() < plan.sum():
            return None
        return (
            kept if self.sizes.chosen is not None else np.append(kept, self.sizes.high - kept.sum())
        )

    def strip(self, plan: Floats) -> Floats:
        """Return a plan of a cover as one of kinds."""
        kinds = np.zeros(len(self.kinds.cost))
        kinds[self.offer.kinds] = plan[: len(self.offer.kinds)]
        return kinds

    def measure(self, plan: Floats, servers: int) -> tuple[float, float]:
        """Return cost and rate of a plan of kinds, servers included."""
        kinds, sizes, offered = self.kinds, self.sizes, self.fleet.servers
        cost, rate = float(kinds.cost @ plan), float(kinds.rate @ plan)
        if sizes.chosen is not None:
            rate *= float(sizes.efficiency[np.searchsorted(sizes.chosen, plan.sum())])
        if offered is not None:
            cost += servers * offered.usd_per_hour
            rate = min(rate, servers * offered.rate)
        return cost, rate

    def most_rate(self) -> float:
        """Return the most rate that any legal plan has, servers aside."""
        cover = self.cheapest(0.0)
        rates = fill_sizes(cover, np.argsort(-cover.rate, kind="stable"))[1]
        return float((rates * self.sizes.efficiency).max())

    def least_cost(self) -> float:
        """Return the least cost that any legal plan has, servers aside."""
        cover = self.cheapest(0.0)
        return float(fill_sizes(cover, np.argsort(cover.cost, kind="stable"))[0].min())

    def glance(self, cover: Cover, price: float | None = None) -> tuple[float, float]:
        """Return the bound on all plans without a search, and the price of rate there."""
        found = find_bound(cover, Incumbent(np.inf), start=price)
        return (np.inf, 0.0) if found is None else (float(found.bounds.min()), found.price)

    def guess(self, cover: Cover) -> Floats | None:
        """Return a legal plan without a search; None when there is none."""
        best = Incumbent(np.inf)
        find_bound(cover, best)
        return best.plan

    def _cover(
        self,
        cost: Floats,
        rate: Floats,
        demand: Floats,
        *,
        scale: Floats | None = None,
        quantum: float = 0.0,
    ) -> Cover:
        offer, sizes = self.offer, self.sizes
        chosen = np.array([float(sizes.high)]) if sizes.chosen is None else sizes.chosen
        return Cover(
            cost=cost,
            rate=rate,
            least=np.zeros(len(offer.most)),
            most=offer.most,
            is_on_demand=offer.is_on_demand,
            sizes=chosen,
            demand=demand,
            top=np.full(len(chosen), np.inf),
            scale=np.ones(len(chosen)) if scale is None else scale,
            floor=float(self.fleet.on_demand_floor),
            quantum=quantum,
        )
