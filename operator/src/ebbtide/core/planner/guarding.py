"""
The slack that keeps a deadline within reach of on-demand, whatever becomes of spot.

As long as a job has it when its spot nodes go, nodes on demand that take twice as long to start as
planned still end in time. So a fleet with spot nodes is to be done that much before the deadline,
and spot is waited for only while more than that is left.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from ebbtide.core.planner.candidates import find_best
from ebbtide.core.planner.inputs import Guard, Inputs, Running
from ebbtide.core.planner.outlook import Field
from ebbtide.core.planner.planning import lay_out
from ebbtide.core.planner.risk import HOUR
from ebbtide.core.planner.scoring import Level
from ebbtide.core.planner.situation import Situation
from ebbtide.core.values.objective import Minimize
from ebbtide.core.values.pool import Market, Pool

LEAST_WAIT_S: Final = 1.0
"""Nobody is looked at more often than this."""


def find_guard(inputs: Inputs, now: datetime, *, tick: timedelta) -> Guard | None:
    """
    Return how much slack there is, and what is needed; None where nothing is to be guarded.

    That is without a deadline, without on-demand pools that may be used alone, where the least
    time is wanted, which waits for nothing, and where the deadline is out of reach already.
    """
    if inputs.due is None or inputs.minimize is not Minimize.COST:
        return None
    rate = _fastest_on_demand(inputs, now)
    if not rate > 0:
        return None
    work_h = inputs.steps_left * inputs.global_batch / rate
    slack_s = (inputs.due - now).total_seconds() - work_h * HOUR
    if slack_s < 0:
        return None
    return Guard(
        slack_s=slack_s,
        samples_per_hour=rate,
        changeover_s=inputs.overheads.changeover_s,
        tick_s=tick.total_seconds(),
    )


def is_waiting(pool: Pool, situation: Situation) -> bool:
    """Tell whether a worker waits for a node of a spot pool that may still come."""
    room = situation.rooms.get(pool.name)
    if room is None or room.waiting_since is None or situation.due is None:
        return False
    return pool.market is Market.SPOT and pool.name not in situation.dry


def hurry(inputs: Inputs, situation: Situation) -> tuple[Situation, datetime | None]:
    """
    Take for dry at once what is waited for with no slack left to wait.

    Return what is to be planned with, and where there is slack until when it lasts.
    """
    guard = inputs.guard
    if guard is None:
        return situation, None
    if guard.may_wait:
        left = timedelta(seconds=max(guard.slack_s - guard.least_s, LEAST_WAIT_S))
        return situation, situation.now + left
    waiting = {s.pool.name for s in inputs.pools if is_waiting(s.pool, situation)}
    rooms = {
        name: replace(room, dry_since=room.waiting_since) if name in waiting else room
        for name, room in situation.rooms.items()
    }
    return replace(situation, rooms=rooms), None


def find_closed(inputs: Inputs, situation: Situation) -> frozenset[str]:
    """Name the spot pools that are not to be asked for a node: there is no time to try."""
    guard = inputs.guard
    if guard is None or guard.may_start or situation.training:
        return frozenset()
    return frozenset(
        state.pool.name
        for state in inputs.pools
        if state.pool.market is Market.SPOT and not situation.there(state.pool.name)
    )


def _fastest_on_demand(inputs: Inputs, now: datetime) -> float:
    """Return the most samples per hour that on-demand nodes alone can make."""
    pools = tuple(state for state in inputs.pools if state.pool.market is Market.ON_DEMAND)
    alone = replace(
        inputs,
        pools=pools,
        minimize=Minimize.TIME,
        due=None,
        budget_left_usd=None,
        running=Running(),
        guard=None,
    )
    field = lay_out(alone, now) if pools else None
    best = find_best(field) if isinstance(field, Field) else None
    return 0.0 if best is None or best.level is Level.MISSED else best.outlook.rate
