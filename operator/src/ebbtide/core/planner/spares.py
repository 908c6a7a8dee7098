"""
Whether a warm spare pays: what losses cost without one, against its price.

Without a spare the work of a lost worker waits until a node has come and started: that worker's
share of the fleet stands still, or all of it where fewer may not train. A spare takes over within
a second, and its own replacement comes while everybody trains.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from ebbtide.core.planner.inputs import Inputs
from ebbtide.core.planner.outlook import Field, Fleet, Outlook, cents
from ebbtide.core.planner.risk import HOUR, Offer
from ebbtide.core.values.objective import Minimize

HOLD: Final = 0.8
"""A spare that is there stays while it saves so much of its price ..."""
TAKE: Final = 1.2
"""... and one is taken when it saves so much: so the answer does not flicker."""
LEAST_SHARE: Final = 0.01
"""Of the time. Where time is what counts, a spare must save so much of it."""
MOST_FORESEEN: Final = 0.9
"""The part of the foreseen losses that spares avoid: some come while one is being replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """The answer."""

    spares: int = 0  # workers
    pool: str = ""
    usd_per_hour: float = 0.0  # beyond what the outlook has in it
    share: float = 0.0  # of the foreseen time, that is not lost thanks to them
    why: str = ""  # in a sentence; empty where there is nothing to say

    def apply(self, field: Field, outlook: Outlook) -> Outlook:
        """Return what is expected with the spares; a start takes as long as without."""
        if self.spares == 0:
            return outlook
        left = 1 - self.share
        usd = outlook.usd_per_hour + self.usd_per_hour
        sooner = self.share * field.work / outlook.rate
        hours = outlook.hours - sooner
        gain = self.share * field.work / outlook.late_rate
        late = outlook.hours_late - gain
        return replace(
            outlook,
            usd_per_hour=usd,
            rate=outlook.rate / left,
            late_rate=outlook.late_rate / left,
            hours=hours,
            hours_late=late,
            hours_high=outlook.hours_high - gain,
            usd=usd * hours,
            usd_late=usd * late,
            free_hours=outlook.free_hours - sooner,
            free_hours_high=outlook.free_hours_high - gain,
            least_hours=outlook.least_hours - sooner,
        )


def charge(inputs: Inputs) -> Inputs:
    """Return the question with the price of as many spares as the user wants in it."""
    if not inputs.spares:
        return inputs
    price = _least_price(inputs) * inputs.spares
    fixed = inputs.fixed_usd_per_hour + cents(price)
    return replace(inputs, fixed_usd_per_hour=fixed)


def choose_reserve(field: Field, outlook: Outlook) -> Reserve:
    """Say how many spares a fleet gets, and where."""
    wanted = field.inputs.spares
    if wanted == 0:
        return Reserve()
    share = lost_share(field, outlook.fleet)
    if wanted is None:
        return _choose_by_itself(field, outlook, share)
    offer = _find_place(field, outlook.fleet, wanted)
    if offer is None:
        return Reserve(why=f"no pool has room for {_count(wanted)} beside the workers")
    price = _price(offer, outlook.fleet, wanted)
    return Reserve(
        spares=wanted,
        pool=offer.name,
        usd_per_hour=max(0.0, price - float(cents(_least_price(field.inputs) * wanted))),
        share=min(share, MOST_FORESEEN * _foreseen_share(field, outlook)),
        why=f"{_count(wanted)} on {offer.name} as asked for",
    )


def lost_share(field: Field, fleet: Fleet) -> float:
    """Return the share of a fleet's time that it waits for replacements, without a spare."""
    least = min(field.inputs.sizes)
    lost = []
    for name, count in fleet.workers:
        offer = field.by_name[name]
        events = offer.nodes_for(count) * offer.losses_per_hour
        gone = min(offer.per_node, count)
        idle = gone if fleet.size - gone >= least else fleet.size
        lost.append(events * offer.start_s / HOUR * idle / fleet.size)
    idle_hours = math.fsum(lost)  # for each hour of training
    return idle_hours / (1 + idle_hours)


def _foreseen_share(field: Field, outlook: Outlook) -> float:
    """Return the share of its time that an outlook takes for lost, at the most."""
    inputs, named = field.inputs, field.by_name
    whole = math.fsum(
        inputs.speed.paces[named[name].gpu].value * named[name].availability * count
        for name, count in outlook.fleet.workers
    )
    free = HOUR * whole * inputs.speed.efficiency_of(outlook.fleet.size)
    return max(0.0, 1 - outlook.rate / free)


def _choose_by_itself(field: Field, outlook: Outlook, share: float) -> Reserve:
    """Take one node's worth of spares where that pays."""
    if share <= 0:
        return Reserve()
    offer = _find_place(field, outlook.fleet, None)
    if offer is None:
        return Reserve(why="no spare: no pool has room for one beside the workers")
    price = _price(offer, outlook.fleet, offer.per_node)
    worth = share * outlook.usd_per_hour
    reserve = Reserve(
        spares=offer.per_node,
        pool=offer.name,
        usd_per_hour=price,
        share=min(share, MOST_FORESEEN * _foreseen_share(field, outlook)),
    )
    costs = f"lost workers would cost {share:.1%} of the time, {cents(worth)} USD an hour"
    spare = f"{_count(offer.per_node)} on {offer.name} for {cents(price)} USD an hour"
    if _pays(field, outlook, reserve, lost=share):
        return replace(reserve, why=f"{spare}: {costs}")
    return Reserve(why=f"no spare: {costs}, {spare}")


def _pays(field: Field, outlook: Outlook, reserve: Reserve, *, lost: float) -> bool:
    inputs = field.inputs
    factor = HOLD if inputs.running.spares else TAKE
    with_it = reserve.apply(field, outlook)
    if field.budget is not None and with_it.usd_late > field.budget >= outlook.usd_late:
        return False
    if inputs.minimize is Minimize.COST:
        return lost * outlook.usd_per_hour >= factor * reserve.usd_per_hour
    is_largest = outlook.fleet.size == max(inputs.sizes)  # else a worker more does more
    return is_largest and lost >= factor * LEAST_SHARE


def _find_place(field: Field, fleet: Fleet, spares: int | None) -> Offer | None:
    """
    Return the cheapest pool with room, one with GPUs that the fleet has before others.

    `spares` workers need room, or where that is None those of one node.
    """
    workers = dict(fleet.workers)
    gpus = {field.by_name[name].gpu for name in workers}
    roomy = [o for o in field.offers if _left(o, workers) >= (spares or o.per_node)]
    return min(roomy, key=lambda offer: offer.gpu not in gpus, default=None)


def _left(offer: Offer, workers: Mapping[str, int]) -> int:
    return offer.room - workers.get(offer.name, 0)


def _price(offer: Offer, fleet: Fleet, spares: int) -> float:
    """Return USD per hour for whole nodes that so many spares add."""
    workers = dict(fleet.workers).get(offer.name, 0)
    return offer.usd_per_hour * (offer.nodes_for(workers + spares) - offer.nodes_for(workers))


def _least_price(inputs: Inputs) -> float:
    """Return USD per hour of one worker in the cheapest pool."""
    pools = (state.pool for state in inputs.pools)
    prices = (float(pool.usd_per_worker_hour(inputs.gpus_per_worker)) for pool in pools)
    return min(prices, default=0.0)


def _count(spares: int) -> str:
    return f"{spares} spare{'s' if spares > 1 else ''}"
