"""What one pass aims at: a size and a place for every worker, by the user's word or by plan."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol

from ebbtide.core.lifecycle.berths import Quotas
from ebbtide.core.lifecycle.conditions import Claim, no, yes
from ebbtide.core.lifecycle.passing import Pass
from ebbtide.core.lifecycle.posting import Posting, look_for_rooms, post
from ebbtide.core.lifecycle.progress import members_now, read_progress
from ebbtide.core.lifecycle.workers import Crew, Staffing, staff
from ebbtide.core.planner.fixed_size import FixedSize, fix_size
from ebbtide.core.planner.knowledge import Knowledge, Workload
from ebbtide.core.planner.situation import Situation
from ebbtide.core.planner.steering import Course, steer
from ebbtide.core.step.forecast import Goal, judge_forecast
from ebbtide.core.values import reasons
from ebbtide.core.values.job import Job
from ebbtide.core.values.objective import PlanMode
from ebbtide.core.values.plan import Measured, PlanRecord
from ebbtide.core.values.pool import Market
from ebbtide.core.values.status import Attempts

NO_PLAN: Final = PlanRecord()


class Aim(Protocol):
    """A size and a place, or why there is none."""

    @property
    def desired(self) -> int:
        """Workers wanted."""

    @property
    def workers(self) -> int:
        """How many indexes have a pod: those that train, and spares."""

    @property
    def servers(self) -> int:
        """Parameter servers wanted; 0 = the job has none."""

    @property
    def planned(self) -> Claim:
        """What `Planned` should say."""

    @property
    def at_risk(self) -> Claim:
        """What `GoalAtRisk` should say."""

    @property
    def no_plan(self) -> tuple[str, str] | None:
        """Reason and message where nothing can be run."""

    @property
    def checkpoint_interval(self) -> timedelta | None:
        """Of the plan; None: as the user says, or the default."""

    @property
    def record(self) -> PlanRecord:
        """What goes into the status."""

    @property
    def interval(self) -> timedelta | None:
        """When the plan is to be looked at again; None: there is none."""

    def staff(self, crew: Crew, attempts: Mapping[str, Attempts]) -> Staffing:
        """Decide for every index what to make and what to retire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """The user says how many; the cheapest pools with room carry them."""

    job: Job
    placement: FixedSize
    checkpoint_interval: timedelta | None = None
    record: PlanRecord = NO_PLAN
    interval: timedelta | None = None

    @property
    def desired(self) -> int:
        """Workers wanted."""
        return self.placement.desired

    @property
    def workers(self) -> int:
        """Those wanted, and spares."""
        return self.placement.workers

    @property
    def servers(self) -> int:
        """As the user says; Auto: one, since without a plan nobody can say that more pay."""
        return 1 if self.job.servers is None else self.job.servers

    @property
    def planned(self) -> Claim:
        """Say where the workers go."""
        if self.no_plan is not None:
            return no(*self.no_plan)
        by_hand = self.job.plan_mode is PlanMode.MANUAL or self.job.counts_steps
        reason = reasons.MANUAL_SIZE if by_hand else reasons.FIXED_SIZE
        text, dry = _describe(self.job, self.placement), ", ".join(sorted(self.placement.dry))
        return yes(reason, f"no node comes from {dry}: {text}" if dry else text)

    @property
    def at_risk(self) -> Claim:
        """Without a plan nothing is predicted."""
        if not self.job.counts_steps and _has_goal(self.job):
            text = f"launcher {self.job.launcher} tells no progress: the goal cannot be forecast"
            return Claim(status="Unknown", reason=reasons.NO_FORECAST, message=text)
        if not self.job.counts_steps:
            return no(reasons.NO_GOAL, "no goal is set")
        return no(reasons.NO_GOAL, "planMode Manual predicts nothing")

    @property
    def no_plan(self) -> tuple[str, str] | None:
        """Say why some worker has no place at all."""
        hopeless = [i for i in range(self.desired) if not self.placement.candidates(i)]
        return (reasons.NO_POOL, self.placement.explain(hopeless[0])) if hopeless else None

    def staff(self, crew: Crew, attempts: Mapping[str, Attempts]) -> Staffing:
        """Fill every index up to the size."""
        return staff(crew, attempts, self.placement)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The planner says how many, and where."""

    this: Pass
    course: Course
    due: datetime | None = None

    @property
    def desired(self) -> int:
        """Workers wanted, those that wait for a node to come included."""
        return self._quotas(spares=False).workers

    @property
    def workers(self) -> int:
        """Those wanted, and spares."""
        return self._quotas(spares=True).workers

    @property
    def servers(self) -> int:
        """As the user says, else as planned; while there is no plan, as many as there are."""
        job, plan, report = self.this.job, self.course.plan, self.this.report
        if job.servers is not None:
            return job.servers
        if plan is not None:
            return max(plan.servers, 1)
        now = 0 if report is None or report.work is None else report.work.servers
        return max(now, 1)

    @property
    def planned(self) -> Claim:
        """Give the plan's reason."""
        plan = self.course.plan
        if plan is None:
            return no(*(self.no_plan or (reasons.GOAL_INFEASIBLE, "")))
        missing = self.this.observed.profile_error
        return yes(reasons.PLAN_CHOSEN, f"{plan.reason}; {missing}" if missing else plan.reason)

    @property
    def at_risk(self) -> Claim:
        """Say whether the goal is forecast to be missed, and what helps."""
        missed = self.course.no_plan
        if missed is not None and not self.course.no_pool:
            late = missed.nearest_deadline is not None or missed.nearest_budget_usd is None
            reason = reasons.DEADLINE_AT_RISK if late else reasons.BUDGET_AT_RISK
            return yes(reason, missed.reason)
        plan = self.course.plan
        if plan is None or not _has_goal(self.this.job):
            return no(reasons.NO_GOAL, "no goal is set")
        goal = Goal(due=self.due, budget_usd=self.this.job.objective.budget_usd)
        return judge_forecast(plan, goal, risk_before=_risk_before(self.this))

    @property
    def no_plan(self) -> tuple[str, str] | None:
        """Say why nothing can be run."""
        if self.course.plan is not None or self.course.no_plan is None:
            return None
        reason = reasons.NO_POOL if self.course.no_pool else reasons.GOAL_INFEASIBLE
        return reason, self.course.no_plan.reason

    @property
    def checkpoint_interval(self) -> timedelta | None:
        """As planned."""
        return None if self.course.plan is None else self.course.plan.checkpoint_interval

    @property
    def record(self) -> PlanRecord:
        """The plan, and what it rests on."""
        return self.course.record

    @property
    def interval(self) -> timedelta:
        """When the time of this answer is up."""
        return self.course.until - self.this.now

    def _quotas(self, *, spares: bool) -> Quotas:
        now, rather, plan = dict(self.course.now), dict(self.course.rather), self.course.plan
        if spares and plan is not None and plan.spares:
            for numbers in (now, rather):
                numbers[plan.spare_pool] = numbers.get(plan.spare_pool, 0) + plan.spares
        pools = {pool.name: pool for pool in self.this.observed.pools}
        stable_first = sorted(
            now.items(),
            key=lambda one: one[0] in pools and pools[one[0]].market is Market.SPOT,
        )
        return Quotas(now=dict(stable_first), rather=rather, dry=self.course.dry)

    def staff(self, crew: Crew, attempts: Mapping[str, Attempts]) -> Staffing:
        """Give every index its berth."""
        plan = self.course.plan
        posting = Posting(
            quotas=self._quotas(spares=True),
            pools={pool.name: pool for pool in self.this.observed.pools},
            reason="" if plan is None else plan.reason,
            waiting=self.course.waiting,
        )
        return post(crew, attempts, posting)


def aim(this: Pass, crew: Crew, knowledge: Knowledge | None) -> Aim:
    """Choose size and place."""
    job, observed, before = this.job, this.observed, this.before
    if job.plan_mode is PlanMode.MANUAL or knowledge is None or not job.counts_steps:
        placement = fix_size(job, observed.pools, dry=_find_dry(this))
        return Fixed(job=job, placement=placement)
    situation = Situation(
        workload=Workload(
            job=job, profile=observed.profile, measured=_measure(this) or before.plan_measured
        ),
        pools=observed.pools,
        rooms=look_for_rooms(crew, this.books.attempts),
        pasts=observed.pasts,
        other_gpus=observed.pool_load,
        steps_left=job.steps - _read_step(this),
        spent_usd=this.cost.spent_usd,
        first_start=before.first_start,
        training=this.report is not None and this.report.training,
        before=before.record,
        interval=this.settings.plan_interval,
        wait=this.settings.capacity_wait,
        start=this.settings.start,
        time_scale=this.settings.time_scale,
        tells_losers=this.settings.tells_losers,
        now=this.now,
    )
    return Planned(this=this, course=steer(situation, knowledge), due=situation.due)


def _read_step(this: Pass) -> int:
    """Return the step from which training goes on: where nobody holds it, the last one saved."""
    progress = read_progress(this.before.progress, this.report, steps=this.job.steps)
    if this.report is None or this.report.finished or members_now(this.report):
        return progress.step
    return min(progress.last_checkpoint_step or 0, progress.step)


def _find_dry(this: Pass) -> frozenset[str]:
    """Name the pools that gave no node when somebody last asked."""
    wait = this.settings.capacity_wait
    pasts = this.observed.pasts.items()
    return frozenset(name for name, past in pasts if past.dry_since(this.now, wait) is not None)


def _measure(this: Pass) -> Measured | None:
    """Return how fast the job trains, once its speed is steady enough to be told."""
    report = this.report
    if report is None or not report.training or report.steps_per_second <= 0:
        return None
    members = members_now(report)
    pools = {pool.name: pool for pool in this.observed.pools}
    by_gpu: dict[str, int] = {}
    for pod in this.observed.pods:
        if pod.name in members and pod.pool in pools:
            gpu = pools[pod.pool].gpu_type
            by_gpu[gpu] = by_gpu.get(gpu, 0) + 1
    if sum(by_gpu.values()) != len(members):
        return None
    seated = sum(server.in_map for server in report.servers)
    return Measured(workers=by_gpu, servers=seated, steps_per_second=report.steps_per_second)


def _has_goal(job: Job) -> bool:
    goal = job.objective
    return any(x is not None for x in (goal.deadline, goal.deadline_after, goal.budget_usd))


def _risk_before(this: Pass) -> str:
    """Return why this goal was at risk; before a start, or of another spec, it says nothing."""
    told = this.before.condition(reasons.GOAL_AT_RISK)
    if told is None or told.status != "True" or this.before.first_start is None:
        return ""
    return told.reason if told.observed_generation == this.job.generation else ""


def _describe(job: Job, placement: FixedSize) -> str:
    floor = min(placement.floor, placement.desired)
    source = "maxReplicas" if job.replicas is None else "replicas"
    parts = [f"{placement.desired} workers, all from {source}"]
    if floor and placement.on_demand:
        parts.append(f"{floor} on on-demand pool {placement.on_demand[0].name}")
    if floor < placement.desired:
        first = placement.candidates(floor)[:1]
        parts += [f"{placement.desired - floor} on pool {pool.name} first" for pool in first]
    if placement.spares:
        parts.append(f"{placement.spares} more as spares")
    if job.servers is None:
        parts.append("1 parameter server, since without a plan no more can be shown to pay")
    text = ", ".join(parts) + f"; training runs from {job.min_replicas} on"
    if job.counts_steps or job.replicas is not None:
        return text
    return (
        f"{text}; launcher {job.launcher} tells no progress, so no other size can be shown to be"
        " better: planMode Manual and elasticPolicy.replicas set one"
    )
