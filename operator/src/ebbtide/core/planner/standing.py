"""
How long an answer of the planner stands.

Three things end it. What must be answered at once, such as another spec or a pool that runs dry,
changes its basis. What may wait until the answer has stood for an interval (`planSeconds`), such as
another speed, a lost node or being late, is held against it from then on. Age does the rest: what
nobody looks at is wrong by a small share of the time that is left at most.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Final

from ebbtide.core.planner.situation import Situation
from ebbtide.core.values.plan import Measured, Plan, PlanRecord
from ebbtide.core.values.pool import Pool

SHARE: Final = 0.02
"""Of the time to the end: so old may a plan become, and so late the job."""
MOST_INTERVALS: Final = 20
"""... and no older than so many intervals."""
FASTER: Final = 1.15
"""A measured speed within this factor of the one that was planned with is no news: computing varies
by up to 1.1 in clouds (Srifty)."""
LONG_TICK: Final = 10
"""Intervals between two decisions of the deadline policy where there is time: ten minutes, the
step that its law goes by."""
AMPLE: Final = 20
"""There is, where so many long ticks fit between the expected end and the deadline."""


def digest(situation: Situation) -> str:
    """
    Return a short text that changes with what a plan must answer.

    What stands before the dash must be answered at once, what stands behind it after an interval.
    """
    now, start = situation.now, situation.start
    pasts = sorted(situation.pasts.items())
    at_once = (
        situation.job.generation,
        situation.workload.profile,
        situation.workload.measured is not None,
        [_facts(pool) for pool in situation.pools],
        sorted(situation.other_gpus.items()),
        sorted((name, situation.held(name)) for name in situation.dry),
        [name for name, past in pasts if past.bad_until(now, start) is not None],
        situation.first_start is not None,
    )
    later = [(name, past.last_revocation) for name, past in pasts]
    return f"{_hash(at_once)}-{_hash(later)}"


def stands(record: PlanRecord, situation: Situation, basis: str) -> bool:
    """Tell whether the answer before may be given again; `basis` is what it would rest on now."""
    answer = record.plan or record.refusal
    if answer is None or _at_once(record.basis) != _at_once(basis):
        return False
    age = situation.now - answer.made_at
    if not timedelta(0) <= age < _lasts(record, situation):
        return False
    return age < situation.interval or not _has_news(record, situation, basis)


def is_news(record: PlanRecord, basis: str) -> bool:
    """Tell whether something has happened since an answer that must be answered at once."""
    return _at_once(record.basis) != _at_once(basis)


def look_again(record: PlanRecord, situation: Situation) -> datetime:
    """Return when an answer ends though nothing happens: by age, or where a pool is tried again."""
    answer = record.plan or record.refusal
    made_at = situation.now if answer is None else answer.made_at
    return min((made_at + _lasts(record, situation), *_ends_of_rest(situation)))


def _ends_of_rest(situation: Situation) -> Iterator[datetime]:
    """Tell when what is held against a pool is so no more."""
    now = situation.now
    for past in situation.pasts.values():
        for moment in (
            past.left_out_until(situation.wait),
            past.bad_until(now, situation.start),
        ):
            if moment is not None and moment > now:
                yield moment


def tick_of(situation: Situation, wish: Plan) -> timedelta:
    """Return the time between two decisions of the deadline policy for what the job would run."""
    due, long = situation.due, situation.interval * LONG_TICK
    is_ample = due is not None and due - wish.predicted.finish >= long * AMPLE
    return long if is_ample else situation.interval


def _lasts(record: PlanRecord, situation: Situation) -> timedelta:
    plan, interval = record.plan, situation.interval
    if plan is None:
        return interval
    if plan.awaited and situation.due is not None:
        return tick_of(situation, plan)
    if not _is_carried_out(plan, situation):
        return interval  # time passes, and less is done than was planned
    share = (plan.predicted.finish - plan.made_at) * SHARE
    return min(max(share, interval), interval * MOST_INTERVALS)


def _is_carried_out(plan: Plan, situation: Situation) -> bool:
    held = all(situation.held(share.pool) >= share.replicas for share in plan.shares)
    return situation.training and held


def _has_news(record: PlanRecord, situation: Situation, basis: str) -> bool:
    is_other = record.basis != basis or _is_other_speed(
        record.measured, situation.workload.measured
    )
    return is_other or (record.plan is not None and _is_late(record.plan, situation))


def _is_other_speed(before: Measured | None, now: Measured | None) -> bool:
    if before is None or now is None:
        return before is not now
    if (dict(before.workers), before.servers) != (dict(now.workers), now.servers):
        return True
    slow, fast = sorted((before.steps_per_second, now.steps_per_second))
    return fast > slow * FASTER


def _is_late(plan: Plan, situation: Situation) -> bool:
    """Tell whether the job falls behind; one that waits does, and is looked at by ticks."""
    pace, said = plan.predicted.steps_per_second, plan.predicted.finish
    if plan.awaited or pace <= 0:
        return False
    late_s = situation.steps_left / pace - (said - situation.now).total_seconds()
    return late_s > max((said - plan.made_at) * SHARE, situation.interval).total_seconds()


def _facts(pool: Pool) -> tuple[object, ...]:
    return (
        pool.name,
        pool.market,
        pool.max_nodes,
        pool.usd_per_node_hour,
        pool.gpu_type,
        pool.gpus_per_node,
        pool.zone,
        sorted(pool.labels.items()),
    )


def _at_once(basis: str) -> str:
    return basis.partition("-")[0]


def _hash(facts: object) -> str:
    return blake2b(repr(facts).encode(), digest_size=8).hexdigest()
