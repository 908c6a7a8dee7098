"""What is expected of a fleet: when it ends, what it costs, and how likely the goal is met."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, ROUND_HALF_UP, Decimal
from functools import cached_property
from statistics import NormalDist
from typing import Final

from ebbtide.core.planner.fronts import Fronts
from ebbtide.core.planner.inputs import Inputs
from ebbtide.core.planner.risk import HOUR, LATE, Offer, choose_interval
from ebbtide.core.values.plan import Predicted, Share

CENT: Final = Decimal("0.01")
CLOSE: Final = 1e-9
"""Relative room for rounding."""
MOST_HOURS: Final = 24.0 * 365 * 1000
"""A thousand years: beyond it a moment cannot be written down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Workers by pool, and servers."""

    workers: tuple[tuple[str, int], ...]
    servers: int = 0

    @classmethod
    def of(cls, workers: Mapping[str, int], servers: int) -> "Fleet":
        """Leave out pools without workers; sort the others."""
        pairs = tuple(sorted((name, count) for name, count in workers.items() if count > 0))
        return cls(workers=pairs, servers=servers)

    @property
    def size(self) -> int:
        """Workers in all."""
        return sum(count for _, count in self.workers)


@dataclass(frozen=True, kw_only=True)
class Field:
    """The question as it is worked on: offers in place of pools."""

    inputs: Inputs
    now: datetime
    offers: tuple[Offer, ...]
    notes: tuple[str, ...] = ()
    fronts: Fronts = field(default_factory=dict, compare=False, repr=False)
    """What was listed on the way: goals change, fleets do not."""

    @cached_property
    def by_name(self) -> dict[str, Offer]:
        """Offers by the names of their pools."""
        return {offer.name: offer for offer in self.offers}

    @property
    def work(self) -> float:
        """Samples that are left."""
        return float(self.inputs.steps_left) * self.inputs.global_batch

    @property
    def hours(self) -> float | None:
        """Until the deadline."""
        due = self.inputs.due
        return None if due is None else (due - self.now).total_seconds() / HOUR

    @property
    def budget(self) -> float | None:
        """USD that may still be spent."""
        left = self.inputs.budget_left_usd
        return None if left is None else float(left)

    @cached_property
    def running(self) -> Fleet | None:
        """What runs now; None: nothing does."""
        fleet = Fleet.of(self.inputs.running.workers, self.inputs.running.servers)
        return fleet if fleet.workers else None

    def can_have(self, fleet: Fleet) -> bool:
        """Tell whether a fleet is legal, and to be had."""
        named = self.by_name
        on_demand = 0
        for name, count in fleet.workers:
            if name not in named or count > named[name].room:
                return False
            on_demand += 0 if named[name].is_spot else count
        low, high = self.inputs.servers if self.inputs.uses_servers else (0, 0)
        return (
            fleet.size in self.inputs.sizes
            and on_demand >= self.inputs.on_demand_floor
            and low <= fleet.servers <= high
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """A fleet with what is expected of it: hours from now, USD from now."""

    fleet: Fleet
    usd_per_hour: float
    rate: float
    """Useful samples per hour."""
    late_rate: float
    """The same, nine of ten times exceeded."""
    hours: float
    hours_late: float
    """Nine of ten times less, as far as caution goes: what is planned with."""
    hours_high: float
    """Nine of ten times less: what is told."""
    usd: float
    usd_late: float
    free_hours: float
    """`hours`, were servers no limit: what is not known is the pace of the workers."""
    free_hours_high: float
    least_hours: float
    """No end comes before: what the servers take at their full rate."""

    @property
    def usd_high(self) -> float:
        """Nine of ten times less."""
        return self.usd_per_hour * self.hours_high

    def probability(self, hours: float) -> float:
        """
        Return the chance to be done within some hours: a log-normal law of the workers' time.

        Servers take as long as they do, so they end it below and change nothing above.
        """
        if not hours > 0 or hours < self.least_hours * (1 - CLOSE):
            return 0.0
        spread = math.log(self.free_hours_high / self.free_hours) / LATE
        if spread <= 0:
            return 1.0 if self.free_hours <= hours * (1 + CLOSE) else 0.0
        return NormalDist().cdf(math.log(hours / self.free_hours) / spread)


def look_ahead(field: Field, fleet: Fleet) -> Outlook:
    """Return what is expected of a fleet that takes the place of what runs."""
    inputs, named = field.inputs, field.by_name
    pairs = [(named[name], count) for name, count in fleet.workers]
    usd = math.fsum(offer.usd_per_hour * offer.nodes_for(count) for offer, count in pairs)
    usd += float(inputs.fixed_usd_per_hour) + fleet.servers * float(inputs.server_usd_per_hour)
    scale = inputs.speed.efficiency_of(fleet.size)
    most = math.inf
    if inputs.uses_servers and inputs.speed.server_samples_per_s is not None:
        most = fleet.servers * inputs.speed.server_samples_per_s * HOUR
    rate, late_rate, low_rate = (
        scale * math.fsum(one * count for one, (_, count) in zip(rates, pairs, strict=True))
        for rates in zip(*((o.rate, o.late_rate, o.low_rate) for o, _ in pairs), strict=True)
    )
    start, start_late = (seconds / HOUR for seconds in _delays(field, fleet))
    work = field.work
    least = start + work / most
    hours, high = start + work / rate, start_late + work / low_rate
    late = max(start_late + work / late_rate, start_late + work / most)
    return Outlook(
        fleet=fleet,
        usd_per_hour=usd,
        rate=min(rate, most),
        late_rate=min(late_rate, most),
        hours=max(hours, least),
        hours_late=late,
        hours_high=max(high, start_late + work / most),
        usd=usd * max(hours, least),
        usd_late=usd * late,
        free_hours=hours,
        free_hours_high=high,
        least_hours=least,
    )


def predict(field: Field, outlook: Outlook) -> Predicted:
    """Return an outlook as users read it."""
    inputs = field.inputs
    hours = field.hours
    return Predicted(
        finish=_moment(field.now, outlook.hours),
        finish_late=_moment(field.now, outlook.hours_high),
        cost_usd=inputs.spent_usd + cents(outlook.usd),
        cost_high_usd=inputs.spent_usd + cents(outlook.usd_high),
        deadline_probability=None if hours is None else outlook.probability(hours),
        steps_per_second=outlook.rate / HOUR / inputs.global_batch,
    )


def share_out(field: Field, fleet: Fleet) -> tuple[Share, ...]:
    """Give each pool its workers and its share of the batch, in proportion to their pace."""
    paces = field.inputs.speed.paces
    workers = dict(fleet.workers)
    found = [(o, workers[o.name]) for o in field.offers if o.name in workers]
    total = math.fsum(paces[offer.gpu].value * count for offer, count in found)
    return tuple(
        Share(
            pool=offer.name,
            replicas=count,
            batch_share=paces[offer.gpu].value * count / total,
        )
        for offer, count in found
    )


def interval_of(field: Field, fleet: Fleet) -> timedelta:
    """Return the time between checkpoints for the losses of a fleet, in whole seconds."""
    pairs = [(field.by_name[name], count) for name, count in fleet.workers]
    rates = [(offer.rate * count, offer.losses_per_hour) for offer, count in pairs]
    losses = math.fsum(rate * loss for rate, loss in rates) / math.fsum(rate for rate, _ in rates)
    return timedelta(seconds=max(1, round(choose_interval(field.inputs, losses))))


def cents(usd: float, *, up: bool = False) -> Decimal:
    """Round money to cents."""
    return Decimal(repr(min(usd, 1e15))).quantize(CENT, ROUND_CEILING if up else ROUND_HALF_UP)


def _moment(now: datetime, hours: float) -> datetime:
    return now + timedelta(hours=min(hours, MOST_HOURS))


def _delays(field: Field, fleet: Fleet) -> tuple[float, float]:
    """Return seconds of a whole fleet's work that its start or change costs: expected, late."""
    if fleet == field.running:
        return 0.0, 0.0
    named = field.by_name
    before = dict(field.running.workers) if field.running is not None else {}
    new = [named[name] for name, count in fleet.workers if count > before.get(name, 0)]
    start = max((offer.start_s for offer in new), default=0.0)
    late = max((offer.start_late_s for offer in new), default=0.0)
    if field.running is None:
        return start, late
    kept = math.fsum(named[name].rate * min(n, before.get(name, 0)) for name, n in fleet.workers)
    share = 1 - kept / math.fsum(named[name].rate * n for name, n in fleet.workers)
    overheads = field.inputs.overheads
    stop = overheads.reform_s + (0.0 if kept else overheads.save_s + overheads.restore_s)
    return stop + share * start, stop + share * late
