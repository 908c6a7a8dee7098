"""
Ours: a Markov decision process over deadline, slack and how long each zone has been up or down.

The law of the zones is fitted anew every four hours from everything before. Each tick compares
what idling, on-demand and each zone cost to the end, one step ahead of a value table. A safety
net outside the model keeps the worst changeover in hand whatever the law says.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from ebbtide.core.planner.policies.avoidance import Avoidance
from ebbtide.core.planner.policies.moment import IDLE, ON_DEMAND, Moment, Place, Terms
from ebbtide.core.planner.policies.shelf import Request, Shelf
from ebbtide.core.planner.policies.value_table import RELUCTANCE_USD, Singles, Table


class Option(NamedTuple):
    """One place that is allowed now and the expected cost of the rest of the job."""

    cost_usd: float
    place: Place


class Ebbtide:
    """The policy of one job; jobs with a common shelf share its tables."""

    def __init__(self, terms: Terms, shelf: Shelf) -> None:
        mine, theirs = _common(terms), _common(shelf.terms)
        if mine != theirs:
            raise ValueError(f"terms: {mine} of the job are not {theirs} of the shelf")
        self._shelf = shelf
        self._request: Request | None = None
        self._table: Table | None = None
        self._prices: tuple[float, ...] = ()
        self._avoidance = Avoidance(terms.changeover_s)
        self._without: frozenset[int] = frozenset()

    def decide(self, moment: Moment) -> Place:
        """Return the place with the least expected cost; of equals spot, then on-demand."""
        has_choice = len(moment.up) > 1
        without = self._avoidance.look(moment) if has_choice else frozenset[int]()
        options = self.options(moment, without=without)
        place = min(options, key=lambda option: option.cost_usd).place
        if has_choice:
            self._avoidance.chose(place, moment)
        return place

    def options(self, moment: Moment, *, without: frozenset[int] = frozenset()) -> list[Option]:
        """Return what is safe now: zones first, then on-demand, then idling."""
        view = _View(moment, self._shelf, self._zones_and_table(moment, without))
        return [option for option in view.options() if option.place not in without]

    def _zones_and_table(
        self, moment: Moment, without: frozenset[int]
    ) -> tuple[tuple[int, ...], Table]:
        request, shelf = self._request, self._shelf
        if (
            request is None
            or request.key.period != moment.row // shelf.period_rows
            or (moment.place >= 0 and moment.place not in request.key.zones)
            or self._table is None
            or moment.spot_usd_per_s != self._prices
            or without != self._without
        ):
            self._prices, self._without = moment.spot_usd_per_s, without
            request = self._request = shelf.request(moment, without=without)
            self._table = shelf.fetch(request)
        return request.key.zones, self._table


class _View:
    """A table as seen from one moment."""

    def __init__(self, moment: Moment, shelf: Shelf, found: tuple[tuple[int, ...], Table]) -> None:
        self.moment, self.costs = moment, shelf.costs
        self.zones, self.table = found
        self.chain = shelf.chains[len(self.zones)]
        self.state = shelf.state(moment.row, self.zones)
        self.slack = moment.left_s - moment.work_s
        steps = moment.left_s / self.costs.step_s
        self.page = int(steps) - self.table.first
        self.share = steps - int(steps)

    def options(self) -> Iterator[Option]:
        moment, costs = self.moment, self.costs
        for place, zone in enumerate(self.zones):
            if moment.up[zone] and self._may_use(zone):
                pending = self._pending(zone)
                yield Option(self._spot(place, zone, pending_s=pending), Place(zone))
        yield Option(self._on_demand(pending_s=self._pending(ON_DEMAND)), ON_DEMAND)
        if self.slack - costs.tick_s >= costs.worst_s:
            yield Option(self._idle(), IDLE)

    def _may_use(self, zone: int) -> bool:
        """The safety net for spot."""
        moment, costs = self.moment, self.costs
        if moment.place != zone:
            return self.slack >= costs.need_s
        if moment.changing_s < 0:
            return True
        rest = max(costs.worst_s - moment.changing_s, 0.0)
        return self.slack - min(costs.tick_s, rest) >= costs.worst_s

    def _pending(self, place: int) -> float:
        """What is left of the changeover; one that takes longer than planned is nearly over."""
        if self.moment.place != place:
            return self.costs.changeover_s
        if self.moment.changing_s < 0:
            return 0.0
        return max(self.costs.changeover_s - self.moment.changing_s, 0.0)

    def _spot(self, place: int, zone: int, *, pending_s: float) -> float:
        costs, state = self.costs, self.chain.places[place][self.state]
        prices = self.moment.spot_usd_per_s
        usd_per_s = prices[zone] if prices else costs.spot
        paid = usd_per_s * min(self.moment.work_s + pending_s, costs.step_s)
        kept = self._read(self.table.kept[place], state, self.slack - pending_s)
        lost = self._read(self.table.lost[place], state, self.slack - min(pending_s, costs.step_s))
        return paid + kept + lost

    def _on_demand(self, *, pending_s: float) -> float:
        costs, work = self.costs, self.moment.work_s
        if self.slack < pending_s:
            return costs.on_demand * (work + pending_s)
        paid = costs.on_demand * min(work + pending_s, costs.step_s)
        return paid + self._read(self.table.on_demand, self.state, self.slack - pending_s)

    def _idle(self) -> float:
        costs, later = self.costs, self.slack - self.costs.step_s
        if later < costs.worst_s:
            return costs.on_demand * (self.moment.work_s + costs.changeover_s) + RELUCTANCE_USD
        return self._read(self.table.idle, self.state, later)

    def _read(self, values: Singles, state: int, slack: float) -> float:
        """Bilinear in the time to the deadline and in slack."""
        grid, page, share = self.table.grid, self.page, self.share
        left = min(max(bisect_right(grid, slack) - 1, 0), len(grid) - 2)
        along = (slack - grid[left]) / (grid[left + 1] - grid[left])
        item = values.item
        now = item(page, state, left) * (1 - along) + item(page, state, left + 1) * along
        page += 1
        later = item(page, state, left) * (1 - along) + item(page, state, left + 1) * along
        return float(now * (1 - share) + later * share)


def _common(terms: Terms) -> tuple[float, ...]:
    """What all jobs of a shelf must agree on."""
    return (
        terms.changeover_s,
        terms.worst_changeover_s,
        terms.spot_usd_per_s,
        terms.on_demand_usd_per_s,
        terms.tick_s,
    )
