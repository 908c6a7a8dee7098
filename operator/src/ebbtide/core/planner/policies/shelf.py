"""Value tables that jobs share: one for each law, zone set and hour of the deadline."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from ebbtide.core.models.table import Floats
from ebbtide.core.planner.policies.chain import EDGES, MOST_ZONES, Chain, joint_law
from ebbtide.core.planner.policies.history import HOUR_S, HOURS_OF_DAY, History
from ebbtide.core.planner.policies.law import States, by_hour, prior, step_rows
from ebbtide.core.planner.policies.memory import Facts, Memory, Reach
from ebbtide.core.planner.policies.moment import Moment, Place, Terms
from ebbtide.core.planner.policies.value_table import Costs, Order, Table, solve

REFIT_S: Final = 4 * HOUR_S
STATES_TOGETHER: Final = 192
"""States of tables that are solved together: with fewer calls cost most, with more the cache."""


class Key(NamedTuple):
    """What makes two jobs share a table."""

    period: int
    """Which re-fit of the law, counted from the first row of the history."""
    zones: tuple[int, ...]
    hour: int
    """The hour of the day that is nearest to the deadline."""
    spot: tuple[float, ...] = ()
    """USD per second of these zones now, taken to last; empty where the terms say it."""


class Request(NamedTuple):
    """A table that one job needs, and the part of it."""

    key: Key
    least_s: float
    """Time to the deadline at the end of the period."""
    most_s: float
    """Time to the deadline now."""
    slack_s: float


class _Entry(NamedTuple):
    table: Table
    request: Request


@dataclass(kw_only=True)
class Shelf:
    """
    Laws of zones as far as a row is known, and tables solved from them, kept while they serve.

    `terms` gives what all jobs of this shelf have in common: prices, changeovers and the tick;
    their work and deadlines may differ. `pool` is the past of other zones, for the prior.
    """

    history: History
    terms: Terms
    pool: Sequence[History] = ()
    memory: Memory | None = None
    """Where tables are kept beyond this shelf."""
    ahead_s: float = 0.0
    """How far beyond what is asked a table that is solved for the memory shall reach."""
    _entries: dict[Key, _Entry] = field(default_factory=dict)
    _laws: dict[tuple[int, int, int], Floats] = field(default_factory=dict)
    _states: dict[tuple[int, int], States] = field(default_factory=dict)
    _priors: dict[int, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tick = self.history.tick_s
        if tick != self.terms.tick_s:
            raise ValueError(f"terms.tick_s {self.terms.tick_s}: the history has {tick}")
        self.costs = Costs(
            step_s=step_rows(tick) * tick,
            tick_s=tick,
            changeover_s=self.terms.changeover_s,
            worst_s=self.terms.worst_changeover_s,
            spot=self.terms.spot_usd_per_s,
            on_demand=self.terms.on_demand_usd_per_s,
        )
        self.period_rows = max(1, round(REFIT_S / tick))
        self.chains = {number: Chain(number, edges) for number, edges in EDGES.items()}
        for number, chain in self.chains.items():
            for zone in range(len(self.history.zones)):
                states = States(history=self.history, zone=zone, edges=chain.edges)
                self._states[number, zone] = states

    def request(self, moment: Moment, *, without: frozenset[int] = frozenset()) -> Request:
        """Return what a job needs from now to the next re-fit, if it stays away from some zones."""
        period = moment.row // self.period_rows
        rest_s = ((period + 1) * self.period_rows - moment.row) * self.history.tick_s
        deadline_s = self.history.start_s + moment.row * self.history.tick_s + moment.left_s
        hour = round(deadline_s / HOUR_S) % HOURS_OF_DAY
        zones = self.zones_for(period, moment.place, moment.spot_usd_per_s, without)
        spot = tuple(moment.spot_usd_per_s[zone] for zone in zones if moment.spot_usd_per_s)
        key = Key(period, zones, hour, spot)
        slack_s = max(moment.left_s - moment.work_s, 0.0)
        return Request(key, max(moment.left_s - rest_s, 0.0), moment.left_s, slack_s)

    def state(self, row: int, zones: Sequence[int]) -> int:
        """Return the joint state of zones in a row; behind the history it is that of the last."""
        number, row = len(zones), min(row, len(self.history) - 1)
        return self.chains[number].join(
            [int(self._states[number, zone].of_row[row]) for zone in zones]
        )

    def fetch(self, request: Request) -> Table:
        """Return a table that covers a request; solve it now if nobody did."""
        entry = self._entries.get(request.key)
        if entry is None or not _covers(entry.request, request):
            self.prepare([request])
            entry = self._entries[request.key]
        return entry.table

    def prepare(self, requests: Iterable[Request]) -> None:
        """Solve what is missing, tables of one size together; forget earlier periods."""
        wanted: dict[Key, Request] = {}
        for request in requests:
            entry = self._entries.get(request.key)
            known = wanted.get(request.key) or (entry.request if entry else request)
            if entry is None or not _covers(known, request):
                wanted[request.key] = _union(known, request)
        wanted = {key: request for key, request in wanted.items() if not self._recall(request)}
        if not wanted:
            return
        now = min(key.period for key in wanted)
        self._entries = {key: found for key, found in self._entries.items() if key.period >= now}
        self._laws = {key: law for key, law in self._laws.items() if key[2] >= now}
        by_number = defaultdict(list)
        for request in wanted.values():
            by_number[len(request.key.zones)].append(request)
        for number, group in by_number.items():
            self._solve(group, self.chains[number])

    def _recall(self, request: Request) -> bool:
        """Take a table from the memory, if it is there."""
        if self.memory is None:
            return False
        table = self.memory.find(self._facts(request.key), Reach(*request[1:]))
        if table is not None:
            self._entries[request.key] = _Entry(table, request)
        return table is not None

    def _facts(self, key: Key) -> Facts:
        law = self._law(key.period, key.zones)
        return Facts(law.tobytes(), self.costs, key.hour, key.spot)

    def _solve(self, requests: list[Request], chain: Chain) -> None:
        size = max(1, STATES_TOGETHER // chain.number)
        # Of like length, so that none stands idle while another goes on.
        requests.sort(key=lambda request: request.most_s)
        for start in range(0, len(requests), size):
            batch = requests[start : start + size]
            slack_s = max(request.slack_s for request in batch)
            fitted = list(
                dict.fromkeys((request.key.period, request.key.zones) for request in batch)
            )
            laws = np.stack([self._law(period, zones) for period, zones in fitted])
            orders = [
                Order(
                    law=fitted.index((request.key.period, request.key.zones)),
                    deadline_s=request.key.hour * HOUR_S,
                    first=int(max(request.least_s - self.ahead_s, 0.0) // self.costs.step_s),
                    last=int(request.most_s // self.costs.step_s) + 1,
                    spot=request.key.spot,
                )
                for request in batch
            ]
            tables = solve(orders, laws, chain, costs=self.costs, slack_s=slack_s)
            for request, table in zip(batch, tables, strict=True):
                self._entries[request.key] = _Entry(table, request._replace(slack_s=slack_s))
                if self.memory is not None:
                    # One point before the last, all with less slack are solved on the same points.
                    reach = Reach(
                        max(request.least_s - self.ahead_s, 0.0),
                        request.most_s,
                        max(slack_s, table.grid[-2]),
                    )
                    self.memory.keep(self._facts(request.key), table, reach)

    # ---------------------------------------------------------------- laws

    def zones_for(
        self,
        period: int,
        place: Place,
        prices: tuple[float, ...] = (),
        without: frozenset[int] = frozenset(),
    ) -> tuple[int, ...]:
        """
        Return the zones that a table looks at: all, or the best where they are too many.

        The best save most by the hour: up for much of late, and cheap now where prices differ.
        The one that the job is in stays. Where all are to be left out, none is.
        """
        all_zones = range(len(self.history.zones))
        every = [zone for zone in all_zones if zone not in without] or all_zones
        if len(every) <= MOST_ZONES:
            return tuple(every)
        known = prices or (self.costs.spot,) * len(all_zones)
        saving = {
            zone: self._share_up(period, zone) * (self.costs.on_demand - known[zone])
            for zone in every
        }
        best = sorted(every, key=lambda zone: (zone != place, -saving[zone]))
        return tuple(sorted(best[:MOST_ZONES]))

    def _share_up(self, period: int, zone: int) -> float:
        counts = self._counts(period, zone, MOST_ZONES)
        total = float(counts.sum())
        return float(counts[:, :, : counts.shape[2] // 2].sum()) / total if total else 0.0

    def _counts(self, period: int, zone: int, number: int) -> Floats:
        return self._states[number, zone].counts(period * self.period_rows)

    def _law(self, period: int, zones: tuple[int, ...]) -> Floats:
        return joint_law([self._zone_law(period, zone, len(zones)) for zone in zones])

    def _zone_law(self, period: int, zone: int, number: int) -> Floats:
        key = number, zone, period
        if key not in self._laws:
            self._laws[key] = by_hour(self._counts(period, zone, number), self._prior(number))
        return self._laws[key]

    def _prior(self, number: int) -> Floats:
        if number not in self._priors:
            edges = self.chains[number].edges
            size = self.chains[number].size
            pooled = np.zeros((size, size))
            for history in self.pool:
                for zone in range(len(history.zones)):
                    states = States(history=history, zone=zone, edges=edges)
                    pooled += states.counts(len(history)).sum(axis=0)
            self._priors[number] = prior(pooled, edges, self.costs.step_s)
        return self._priors[number]


def _covers(held: Request, wanted: Request) -> bool:
    return (
        held.least_s <= wanted.least_s
        and held.most_s >= wanted.most_s
        and held.slack_s >= wanted.slack_s
    )


def _union(one: Request, other: Request) -> Request:
    return Request(
        one.key,
        min(one.least_s, other.least_s),
        max(one.most_s, other.most_s),
        max(one.slack_s, other.slack_s),
    )
