"""What a pool offers once its losses are counted: useful work, and money, of one node."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from ebbtide.core.models.checkpoint_interval import daly
from ebbtide.core.models.survival import Survival
from ebbtide.core.planner.inputs import Inputs, Overheads, PoolState
from ebbtide.core.values.pool import Market

HOUR: Final = 3600.0
LATE: Final = 1.2816
"""Nine of ten values of a normal law lie below its mean and so many deviations."""
INTERVAL: Final = 1.6449
"""Nine of ten lie within so many deviations: what the intervals of models hold."""
CAUTION: Final = 1.5
"""
Plans allow for a speed lower than expected by this factor at most.

What is less sure than that is measured within minutes, and the plan made anew; to start with the
fastest nodes there are until then would cost more than it saves.
"""
LEAST_INTERVAL_S: Final = 1.0
MOST_INTERVAL_S: Final = 3600.0
"""Of checkpoints where nothing is ever lost: workers fail for other reasons, too."""
LEAST_LIVES: Final = 0.01
"""A pool is of no use where fewer nodes than this share live until their first checkpoint."""
LEAST_USEFUL: Final = 0.02
"""A pool is of no use where a smaller share of its time than this moves training on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A pool as the planner counts with it."""

    state: PoolState
    per_node: int
    """Workers that one node carries."""
    nodes: int
    """That can be had."""
    usd_per_hour: float
    """Of one node, for the share of the time in which it can be had."""
    rate: float
    """Useful samples per hour of one worker in a fleet without scaling loss: expected."""
    late_rate: float
    """The same, nine of ten times exceeded: what is planned with. See `CAUTION`."""
    low_rate: float
    """The same without that limit to caution: what is told."""
    start_s: float
    start_late_s: float
    """Nine of ten starts take less."""
    availability: float
    """The share of the work's time in which nodes can be had."""
    losses_per_hour: float
    """Of one node."""
    interval_s: float
    """Between checkpoints, were all workers of this pool."""

    @property
    def name(self) -> str:
        """The pool's."""
        return self.state.pool.name

    @property
    def gpu(self) -> str:
        """The type of its GPUs."""
        return self.state.pool.gpu_type

    @property
    def is_spot(self) -> bool:
        """Whether its nodes are taken away."""
        return self.state.pool.market is Market.SPOT

    @property
    def room(self) -> int:
        """Workers that it can carry."""
        return self.nodes * self.per_node

    def nodes_for(self, workers: int) -> int:
        """Nodes that are paid for so many workers: whole ones."""
        return -(-workers // self.per_node)


def make_offers(inputs: Inputs) -> tuple[tuple[Offer, ...], tuple[str, ...]]:
    """
    Return what the pools offer, and why each other pool is left out.

    The order is that of price, then of what else is known of a pool, and of names only between
    pools that are alike in all: so names decide nothing that matters.
    """
    offers: list[Offer] = []
    notes: list[str] = []
    for state in inputs.pools:
        found = _offer(state, inputs)
        if isinstance(found, str):
            notes.append(f"pool {state.pool.name}: {found}")
        else:
            offers.append(found)
    running = inputs.running.workers
    offers.sort(key=lambda offer: _order(offer, running.get(offer.name, 0)))
    return tuple(offers), tuple(sorted(notes))


def choose_interval(inputs: Inputs, losses_per_hour: float) -> float:
    """Return seconds between checkpoints (Daly's), or the number that was asked for."""
    if inputs.checkpoint_interval is not None:
        return max(inputs.checkpoint_interval.total_seconds(), LEAST_INTERVAL_S)
    save_s = inputs.overheads.save_s
    if losses_per_hour <= 0:
        return MOST_INTERVAL_S
    if save_s <= 0:
        return LEAST_INTERVAL_S
    best = daly(save_s=save_s, between_failures_s=HOUR / losses_per_hour)
    return min(max(best, LEAST_INTERVAL_S), MOST_INTERVAL_S)


def describe_prices(offers: Iterable[Offer]) -> str:
    """Name pools with what a node costs."""
    return ", ".join(f"{o.name} ({o.state.pool.usd_per_node_hour} USD/h)" for o in offers)


# ---------------------------------------------------------------- one pool


def _order(offer: Offer, running: int) -> tuple[object, ...]:
    pool = offer.state.pool
    return (
        offer.usd_per_hour / offer.per_node,
        -offer.late_rate,
        -offer.rate,
        not offer.is_spot,
        -running,
        -offer.nodes,
        offer.start_late_s,
        offer.losses_per_hour,
        pool.gpu_type,
        pool.zone,
        pool.region,
        pool.name,
    )


def _offer(state: PoolState, inputs: Inputs) -> Offer | str:
    pool = state.pool
    pace = inputs.speed.paces.get(pool.gpu_type)
    if pace is None:
        known = ", ".join(sorted(inputs.speed.paces)) or "none"
        what = f"the speed of GPU type {pool.gpu_type or '(none)'} is not known"
        return f"{what} (known are: {known}); a WorkloadProfile with its step times would tell it"
    law = state.life if pool.market is Market.SPOT else None
    fault = _find_fault(state, inputs) or _find_short_lives(law, inputs.overheads)
    if fault:
        return fault
    start_s, start_late_s = _starts(state, inputs.overheads)
    low = _quantile(pace.value, min(pace.low, pace.value))
    own_s = inputs.steps_left * inputs.global_batch / (pace.value * inputs.sizes[-1])
    losses = 0.0 if law is None else _loss_rate(law, own_s)
    useful, late = _useful(inputs, losses * HOUR, restart_s=start_s, own_s=own_s)
    if useful < LEAST_USEFUL:
        return (
            f"{useful:.1%} of the time of its nodes moves training on: they are lost after"
            f" {1 / losses:.0f} s in the mean, and a restart takes {start_s:.0f} s"
        )
    there = state.supply.share(own_s / HOUR)
    return Offer(
        state=state,
        per_node=pool.workers_per_node(inputs.gpus_per_worker),
        nodes=_count_nodes(state),
        usd_per_hour=float(pool.usd_per_node_hour) * there,
        rate=pace.value * HOUR * useful * there,
        late_rate=max(low, pace.value / CAUTION) * HOUR * late * there,
        low_rate=low * HOUR * late * there,
        start_s=start_s,
        start_late_s=start_late_s,
        availability=there,
        losses_per_hour=losses * HOUR,
        interval_s=choose_interval(inputs, losses * HOUR),
    )


def _find_fault(state: PoolState, inputs: Inputs) -> str:
    pool = state.pool
    if pool.workers_per_node(inputs.gpus_per_worker) < 1:
        return f"a worker needs {inputs.gpus_per_worker} GPUs, a node has {pool.gpus_per_node}"
    if pool.usd_per_node_hour <= 0:
        return f"a price of {pool.usd_per_node_hour} USD per node and hour; one above 0 is right"
    if _count_nodes(state) < 1:
        return f"no node can be had now (maxNodes {pool.max_nodes})"
    if not 0 < state.supply.long_run <= 1:
        return f"nodes can be had {state.supply.long_run:.0%} of the time: above 0 is needed"
    return ""


def _find_short_lives(law: Survival | None, overheads: Overheads) -> str:
    if law is None:
        return ""
    least = overheads.restore_s + LEAST_INTERVAL_S + overheads.save_s
    lives = float(law.at(np.array([least]))[0])
    if lives >= LEAST_LIVES:
        return ""
    return (
        f"{lives:.1%} of its nodes live for {least:.0f} s, in which training is loaded and saved"
        f" once; at least {LEAST_LIVES:.0%} are needed"
    )


def _count_nodes(state: PoolState) -> int:
    most = state.pool.max_nodes
    return most if state.free is None else min(state.free, most)


def _starts(state: PoolState, overheads: Overheads) -> tuple[float, float]:
    start = state.start_up
    if start is None:
        return overheads.start_s, overheads.start_s
    return start.value, _quantile(start.value, start.high)


def _quantile(value: float, end: float) -> float:
    """Move from a value towards an end of its interval, to where one of ten lies beyond."""
    if not (value > 0 and end > 0):
        return value
    return float(value * (end / value) ** (LATE / INTERVAL))


def _loss_rate(law: Survival, own_s: float) -> float:
    """Losses per second that a node lives, over lives cut at `own_s`."""
    until = np.array([max(own_s, law.unit_s)])
    lived = float(law.area(until)[0])
    return (1 - float(law.at(until)[0])) / lived if lived > 0 else math.inf


def _useful(
    inputs: Inputs, losses_per_hour: float, *, restart_s: float, own_s: float
) -> tuple[float, float]:
    """
    Return the share of a node's time that moves training on: expected, and nine of ten times.

    Without workers on demand all nodes of a pool go as one, and what was done since the last
    checkpoint is done again (Daly's exact form for losses at a constant rate). With some on demand
    they keep the state, and a loss costs a start and two re-formings. Each loss makes the others
    wait for both re-formings; all of them, at the largest legal size, are charged to it.
    """
    overheads = inputs.overheads
    interval = choose_interval(inputs, losses_per_hour)
    training = (interval + overheads.save_s) / interval
    if losses_per_hour <= 0:
        return 1 / training, 1 / training
    rate = losses_per_hour / HOUR
    wait_s = 2 * overheads.reform_s * max(inputs.sizes[-1] - 1, 0)
    if inputs.on_demand_floor > 0:
        cost_s = restart_s + 2 * overheads.reform_s
        total = training + rate * (cost_s + wait_s)
    else:
        again = restart_s + overheads.restore_s + 2 * overheads.reform_s
        exponents = rate * again, rate * (interval + overheads.save_s)
        if sum(exponents) > 100:  # noqa: PLR2004 -- e^100: no end in sight
            return 0.0, 0.0
        total = math.exp(exponents[0]) * math.expm1(exponents[1]) / (rate * interval)
        cost_s = again + interval / 2
        total += rate * wait_s
    # losses come one by one at random: their number varies by its root
    spread = (cost_s + wait_s / max(inputs.sizes[-1], 1)) * math.sqrt(rate / max(own_s, cost_s))
    return 1 / total, 1 / (total + LATE * spread)
