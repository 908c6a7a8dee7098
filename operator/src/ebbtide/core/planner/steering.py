"""
The plan over time: what one job runs now, and what it would rather run.

Pools from which no node comes are dry: the plan for now counts only on what is held there, the plan
for later on all of it. Between them stands the deadline policy: where spot has run dry it says
whether on-demand nodes stand in or the job waits; and after it whether going back pays. Where the
slack that on-demand needs is all that is left (`guarding`), a pool is dry at once.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from ebbtide.core.planner.fixed_size import sort_out
from ebbtide.core.planner.guarding import find_closed, find_guard, hurry, is_waiting
from ebbtide.core.planner.inputs import Inputs, PoolState, Running
from ebbtide.core.planner.knowledge import Knowledge
from ebbtide.core.planner.outlook import Field, Fleet, look_ahead
from ebbtide.core.planner.planning import lay_out, plan
from ebbtide.core.planner.situation import Numbers, Situation
from ebbtide.core.planner.standing import digest, is_news, look_again, stands, tick_of
from ebbtide.core.planner.supply import ALWAYS, Supply, supplies_of
from ebbtide.core.planner.waiting import Drought, may_stand_in
from ebbtide.core.values.job import MAX_SERVERS, Job, SpotUse
from ebbtide.core.values.objective import Minimize
from ebbtide.core.values.past import join
from ebbtide.core.values.plan import Infeasible, Plan, PlanRecord, Refusal, Share
from ebbtide.core.values.pool import Market, Pool

HOUR: Final = timedelta(hours=1)
HASTE: Final = 1.03
"""Where the goal is missed in any case, an end so much later than the earliest is as good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What is to be done."""

    record: PlanRecord
    no_plan: Infeasible | None = None
    no_pool: bool = False  # ... because no pool fits the job
    dry: frozenset[str] = frozenset()
    until: datetime  # when it is to be looked at again, if nothing happens

    @property
    def waiting(self) -> str:
        """Why workers are not wanted now, where the plan would rather have more."""
        return self.plan.reason if self.plan is not None and _is_short(self.plan) else ""

    @property
    def plan(self) -> Plan | None:
        """What is planned."""
        return self.record.plan

    @property
    def now(self) -> Numbers:
        """Workers of each pool now, the on-demand ones first."""
        return {} if self.plan is None else _numbers(self.plan.shares)

    @property
    def rather(self) -> Numbers:
        """Workers of each pool once dry pools give nodes again."""
        if self.plan is None:
            return {}
        return _numbers(self.plan.awaited or self.plan.shares)


def steer(situation: Situation, knowledge: Knowledge) -> Course:
    """
    Decide what a job runs from now on.

    The answer before, a plan or that there is none, is kept for as long as it `stands`. A job that
    has started is never without a plan for want of time or money: then it ends as soon as it can.
    """
    fit, unfit = sort_out(situation.job, situation.pools)
    inputs, waits_until = None, None
    if any(is_waiting(pool, situation) for pool in fit):
        inputs = make_inputs(situation, knowledge, fit)
        situation, waits_until = hurry(inputs, situation)
    basis = digest(situation)
    dry = frozenset(situation.dry).intersection(pool.name for pool in fit)
    record, no_plan = situation.before, None
    if not stands(record, situation, basis):
        record = PlanRecord(basis=basis, measured=situation.workload.measured)
        if not fit:
            why = "; ".join(unfit) or "there is no CapacityPool"
            no_plan = Infeasible(reason=f"no pool fits: {why}")
        else:
            inputs = inputs or make_inputs(situation, knowledge, fit)
            answer = _plan(inputs, situation, dry, basis=basis)
            record = _write_down(record, answer, situation)
    if record.refusal is not None:
        no_plan = record.refusal.why
    until = look_again(record, situation)
    until = until if waits_until is None else min(until, waits_until)
    return Course(record=record, no_plan=no_plan, no_pool=not fit, dry=dry, until=until)


def _write_down(record: PlanRecord, answer: Plan | Refusal, situation: Situation) -> PlanRecord:
    if isinstance(answer, Refusal):
        return replace(record, changes=_recent_changes(situation), refusal=answer)
    return replace(record, changes=_count_changes(situation, answer), plan=answer)


def _plan(
    inputs: Inputs, situation: Situation, dry: frozenset[str], *, basis: str
) -> Plan | Refusal:
    wish = plan(inputs, situation.now)
    is_missed = isinstance(wish, Infeasible) and situation.first_start is not None
    if is_missed:
        inputs, wish = _make_haste(inputs, situation.now)
    if isinstance(wish, Infeasible):
        return Refusal(why=wish, made_at=situation.now)
    if is_missed:
        wish = replace(wish, reason=_admit(wish))
    shut = _Shut(
        dry=dry,
        closed=find_closed(inputs, situation),
        is_news=is_news(situation.before, basis),
        is_missed=is_missed,
    )
    if any(wish.replicas_in(name) > situation.held(name) for name in shut.pools):
        return _without(inputs, wish, situation, shut)
    return wish


def _make_haste(inputs: Inputs, now: datetime) -> tuple[Inputs, Plan | Infeasible]:
    """
    Plan for a goal that cannot be met: the earliest end, within the budget or else above it.

    The last percents of speed cost most, so the cheapest fleet that ends nearly as early is taken.
    """
    hasty = replace(inputs, due=None, minimize=Minimize.TIME)
    found = plan(hasty, now)
    if isinstance(found, Infeasible) and inputs.budget_left_usd is not None:
        hasty = replace(hasty, budget_left_usd=None)
        found = plan(hasty, now)
    if isinstance(found, Infeasible):
        return hasty, found
    later = now + (found.predicted.finish_late - now) * HASTE
    nearly = replace(hasty, due=later, minimize=Minimize.COST)
    cheaper = plan(nearly, now)
    return (hasty, found) if isinstance(cheaper, Infeasible) else (nearly, cheaper)


def _admit(found: Plan) -> str:
    """Say what a plan is for whose goal is missed anyway."""
    shares = ", ".join(f"{share.replicas} on {share.pool}" for share in found.shares)
    said = found.predicted
    return (
        f"the goal cannot be met any more; as soon as can be: {found.workers} workers ({shares}),"
        f" done at {said.finish:%Y-%m-%dT%H:%M:%SZ} for {said.cost_usd} USD in all"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shut:
    """Pools that are not counted on for more than they have given, and why it is asked."""

    dry: frozenset[str]
    closed: frozenset[str]  # with no time to try them
    is_news: bool  # something has happened since the plan before
    is_missed: bool  # the goal is, in any case

    @property
    def pools(self) -> frozenset[str]:
        return self.dry | self.closed

    def tell(self) -> str:
        if self.dry:
            return f"no node comes from {', '.join(sorted(self.dry))}"
        return f"there is no time to try {', '.join(sorted(self.closed))}"


def _without(inputs: Inputs, wish: Plan, situation: Situation, shut: _Shut) -> Plan:
    """Plan with what dry pools have already given."""
    dry = shut.dry
    held = {name: situation.held(name) for name in shut.pools}
    capped = replace(
        inputs,
        pools=tuple(
            replace(state, free=_nodes(state.pool, held[state.pool.name], inputs.gpus_per_worker))
            if state.pool.name in held
            else state
            for state in inputs.pools
        ),
        running=_clip(inputs.running, held),
    )
    drought = describe_drought(inputs, wish, situation, dry) if dry else None
    found = plan(capped, situation.now) if _has_other_spot(inputs, shut.pools) else None
    if (
        drought is None
        or shut.closed
        or _is_too_few(wish, situation, inputs)
        or _is_under_way(wish, situation, inputs, is_news=shut.is_news)
        or (isinstance(found, Plan) and _is_on_spot(found, wish, inputs))
        or may_stand_in(drought)
    ):
        found = found or plan(capped, situation.now)
        if isinstance(found, Infeasible):
            _, found = _make_haste(capped, situation.now)
        if isinstance(found, Plan):
            said = _admit(found) if shut.is_missed else found.reason
            awaited = _if_other(wish, found) if dry else ()
            return replace(found, reason=f"{shut.tell()}: {said}", awaited=awaited)
    text = f"{shut.tell()}, and there is time to wait for it"
    return _hold(wish, situation, inputs, reason=text)


def _has_other_spot(inputs: Inputs, dry: frozenset[str]) -> bool:
    return any(
        state.pool.market is Market.SPOT and state.pool.name not in dry for state in inputs.pools
    )


def _is_on_spot(found: Plan, wish: Plan, inputs: Inputs) -> bool:
    """Tell whether other spot pools make up for the dry ones: then there is nothing to wait for."""
    stable = [s.pool.name for s in inputs.pools if s.pool.market is Market.ON_DEMAND]
    return sum(map(found.replicas_in, stable)) <= sum(map(wish.replicas_in, stable))


def _is_too_few(wish: Plan, situation: Situation, inputs: Inputs) -> bool:
    """
    Tell whether some workers are held in dry pools, and all that are there may not train.

    Waiting would give them back; their nodes would look like the return of the pool, again and
    again.
    """
    left = _left_of(wish, situation)
    return sum(left.values()) < min(inputs.sizes) and any(left.get(n) for n in situation.dry)


def _is_under_way(wish: Plan, situation: Situation, inputs: Inputs, *, is_news: bool) -> bool:
    """
    Tell whether on-demand stands in already, and nothing says that it should not.

    Nodes that are still starting would be thrown away for nothing. Once they train, the slack stays
    as it is, and only news is a reason to think again.
    """
    stable = [s.pool.name for s in inputs.pools if s.pool.market is Market.ON_DEMAND]
    there = sum(map(situation.there, stable))
    if there <= sum(map(wish.replicas_in, stable)):
        return False
    is_starting = not situation.training or there > sum(map(situation.held, stable))
    return is_starting or not is_news


def _left_of(wish: Plan, situation: Situation) -> dict[str, int]:
    return {s.pool: min(s.replicas, situation.there(s.pool)) for s in wish.shares}


def _hold(wish: Plan, situation: Situation, inputs: Inputs, *, reason: str) -> Plan:
    """Return the plan cut down to what is there, if that is a legal size; else to nothing."""
    kept = _left_of(wish, situation)
    total = sum(kept.values())
    size = max((size for size in inputs.sizes if size <= total), default=0)
    surplus = total - size
    for pool in reversed(tuple(kept)):
        cut = min(surplus, kept[pool])
        kept[pool], surplus = kept[pool] - cut, surplus - cut
    shares = tuple(
        replace(s, replicas=kept[s.pool], batch_share=kept[s.pool] / size)
        for s in wish.shares
        if kept[s.pool]
    )
    held_back = replace(wish, shares=shares, reason=reason, awaited=wish.shares, alternatives=())
    return held_back if shares else replace(held_back, spares=0, spare_pool="")


def describe_drought(
    inputs: Inputs, wish: Plan, situation: Situation, dry: frozenset[str]
) -> Drought | None:
    """Say what the deadline policy has to know; None where there is nothing to decide."""
    if (
        inputs.due is None
        or inputs.minimize is Minimize.TIME
        or wish.predicted.steps_per_second <= 0
    ):
        return None
    by_name = {state.pool.name: state.pool for state in inputs.pools}
    on_demand = [p for p in by_name.values() if p.market is Market.ON_DEMAND]
    if not on_demand:
        return None
    since = max(situation.dry[name] for name in dry)
    spot = [name for name in sorted(dry) if by_name[name].market is Market.SPOT]
    gpus = inputs.gpus_per_worker
    cheapest = min(pool.usd_per_worker_hour(gpus) for pool in on_demand)
    usd = sum(
        (by_name[s.pool].usd_per_worker_hour(gpus) * s.replicas for s in wish.shares), Decimal(0)
    )
    stand_in = any(
        room.held
        for name, room in situation.rooms.items()
        if name in by_name and by_name[name].market is Market.ON_DEMAND
    )
    return Drought(
        work_s=_work_s(inputs, wish, situation),
        left_s=(inputs.due - situation.now).total_seconds(),
        changeover_s=inputs.overheads.changeover_s,
        spot_usd_per_hour=float(usd + inputs.fixed_usd_per_hour),
        on_demand_usd_per_hour=float(cheapest * wish.workers + inputs.fixed_usd_per_hour),
        down_s=(situation.now - since).total_seconds(),
        spells=join(map(situation.past, spot)),
        tick_s=tick_of(situation, wish).total_seconds(),
        on_demand_now=stand_in and situation.training,
        now=situation.now,
        time_scale=situation.time_scale,
    )


def _work_s(inputs: Inputs, wish: Plan, situation: Situation) -> float:
    """Return how long the work takes on spot, or on demand where that is longer at best."""
    work_s = inputs.steps_left / _pace_while_up(inputs, wish, situation.now)
    if inputs.guard is None or inputs.due is None:
        return work_s
    left_s = (inputs.due - situation.now).total_seconds()
    return max(work_s, left_s - inputs.guard.slack_s)


def _pace_while_up(inputs: Inputs, wish: Plan, now: datetime) -> float:
    """Return steps per second while all pools give nodes: the policy knows itself when they do."""
    pace = wish.predicted.steps_per_second
    if all(state.supply is ALWAYS for state in inputs.pools):
        return pace
    always = tuple(replace(state, supply=ALWAYS) for state in inputs.pools)
    fields = [lay_out(one, now) for one in (inputs, replace(inputs, pools=always))]
    fleet = Fleet.of(_numbers(wish.shares), wish.servers)
    rates = [look_ahead(one, fleet).rate for one in fields if isinstance(one, Field)]
    return pace * rates[1] / rates[0]


def make_inputs(situation: Situation, knowledge: Knowledge, fit: tuple[Pool, ...]) -> Inputs:
    """Return the question about a job and the pools that fit it."""
    job = situation.job
    supplies = _supplies(situation, fit)
    budget = job.objective.budget_usd
    floor = 0 if job.spot is SpotUse.ONLY else job.on_demand_floor
    inputs = Inputs(
        steps_left=max(situation.steps_left, 1),
        global_batch=job.global_batch_size,
        uses_servers=job.uses_servers,
        servers=_servers(job),
        sizes=job.sizes(),
        on_demand_floor=floor,
        gpus_per_worker=job.gpus_per_worker,
        processes_per_worker=job.processes_per_worker,
        minimize=job.objective.minimize,
        due=situation.due,
        budget_left_usd=None if budget is None else budget - situation.spent_usd,
        spent_usd=situation.spent_usd,
        pools=tuple(
            PoolState(
                pool=pool,
                free=_free(pool, situation),
                life=knowledge.life(pool, situation.now, situation.past(pool.name)),
                supply=supplies[pool.name],
            )
            for pool in fit
        ),
        speed=knowledge.speed(situation.workload, fit),
        overheads=knowledge.overheads(situation.workload),
        checkpoint_interval=job.checkpoint_interval,
        spares=job.spares,
        running=_running(situation),
        tells_losers=situation.tells_losers,
    )
    return replace(inputs, guard=find_guard(inputs, situation.now, tick=situation.interval))


def _supplies(situation: Situation, fit: tuple[Pool, ...]) -> dict[str, Supply]:
    """Return how often each pool gives nodes; those of one market stand in for one another."""
    found: dict[str, Supply] = {}
    for market in Market:
        found |= supplies_of(
            {pool.name: situation.past(pool.name) for pool in fit if pool.market is market},
            situation.now,
            move=situation.wait + situation.start,
            time_scale=situation.time_scale,
        )
    return found


def _servers(job: Job) -> tuple[int, int]:
    """Return the fewest and the most servers; beyond one for each worker none is of use."""
    if job.servers is None:
        return 1, min(job.max_replicas, MAX_SERVERS)
    return (job.servers, job.servers) if job.servers else (1, 1)


def _running(situation: Situation) -> Running:
    """Return what the plan before has running, as far as there is anything."""
    before = situation.before.plan
    if before is None or not situation.rooms:
        return Running()
    workers = _numbers(before.shares)
    return Running(
        workers=workers,
        is_there=all(situation.there(name) >= number for name, number in workers.items()),
        servers=before.servers,
        spares=before.spares,
        changes=_recent_changes(situation),
    )


def _clip(running: Running, held: Numbers) -> Running:
    clipped = {
        pool: min(number, held.get(pool, number)) for pool, number in running.workers.items()
    }
    return replace(running, workers={pool: n for pool, n in clipped.items() if n})


def _free(pool: Pool, situation: Situation) -> int:
    """Return how many nodes the job can have, those it has included."""
    if pool.gpus_per_node <= 0:
        return pool.max_nodes
    taken = -(-situation.other_gpus.get(pool.name, 0) // pool.gpus_per_node)
    return max(pool.max_nodes - taken, 0)


def _nodes(pool: Pool, workers: int, gpus_per_worker: int) -> int:
    return -(-workers // pool.workers_per_node(gpus_per_worker))


def _if_other(wish: Plan, found: Plan) -> tuple[Share, ...]:
    return () if _numbers(wish.shares) == _numbers(found.shares) else wish.shares


def _is_short(plan_: Plan) -> bool:
    return plan_.workers < sum(share.replicas for share in plan_.awaited)


def _numbers(shares: tuple[Share, ...]) -> dict[str, int]:
    return {share.pool: share.replicas for share in shares}


def _count_changes(situation: Situation, chosen: Plan) -> tuple[datetime, ...]:
    """Return when the plan was changed within the last hour, this time included if it is."""
    before, recent = situation.before.plan, _recent_changes(situation)
    if before is None or before.is_like(chosen):
        return recent
    return (*recent, situation.now)


def _recent_changes(situation: Situation) -> tuple[datetime, ...]:
    return tuple(when for when in situation.before.changes if when > situation.now - HOUR)
