"""
One step of a job: everything observed goes in, one decision comes out.

The operator and the simulator call this same function. It is level-triggered: nothing depends on
what changed, and a second call on the state that the first one led to decides nothing new.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ebbtide.core.lifecycle import images
from ebbtide.core.lifecycle.claiming import (
    Findings,
    claim,
    claim_checkpoints,
    claim_suspended,
    find_missing,
    find_stall,
)
from ebbtide.core.lifecycle.clearing import clean_up
from ebbtide.core.lifecycle.concluding import AT_ONCE, conclude
from ebbtide.core.lifecycle.conditions import derive_state, no, tell_changes, update, yes
from ebbtide.core.lifecycle.coordination import KEY as COORDINATOR_KEY
from ebbtide.core.lifecycle.coordination import (
    dismiss_servers,
    instruct,
    next_stop,
    retire_all,
    seat,
    work_of,
)
from ebbtide.core.lifecycle.cost import Meter, charge
from ebbtide.core.lifecycle.ending import (
    Ending,
    done_indexes,
    find_completion,
    find_exits,
    find_failure,
    finish_began,
    is_over,
)
from ebbtide.core.lifecycle.judging import Work
from ebbtide.core.lifecycle.ledger import Scene, count_ends
from ebbtide.core.lifecycle.passing import Outcome, Pass
from ebbtide.core.lifecycle.progress import count_roles, members_of
from ebbtide.core.lifecycle.servers import staff_servers
from ebbtide.core.lifecycle.signs import Outlook, read_sign
from ebbtide.core.lifecycle.workers import Crew, Staffing, live_pods
from ebbtide.core.planner.knowledge import Knowledge
from ebbtide.core.step.aims import Aim, aim
from ebbtide.core.values import reasons
from ebbtide.core.values.decision import Action, Decision, DeleteJob, Event, MarkBoot
from ebbtide.core.values.job import BrokenJob, Job
from ebbtide.core.values.objective import PlanMode
from ebbtide.core.values.observed import Observed, PodPhase, Role
from ebbtide.core.values.settings import Settings
from ebbtide.wire.messages import WorkSpec
from ebbtide.wire.names import CONTROLLER

LOOK_SOON = timedelta(seconds=1)
RETRY_REJECTED = timedelta(seconds=30)


def step(
    observed: Observed, *, now: datetime, settings: Settings, knowledge: Knowledge | None = None
) -> Decision:
    """
    Decide what to do for one job.

    Args:
        observed: one consistent look at the job and everything of it.
        now: the time, aware.
        settings: delays and limits.
        knowledge: models for the planner; None: every job runs at a fixed size.

    Returns:
        Actions in order, the status to write, events to emit once it is written, and when to look
        again. `status` is None for a job that another controller manages or that is being deleted.

    """
    job = observed.job
    if job.managed_by not in ("", CONTROLLER):
        return Decision()
    if isinstance(job, BrokenJob):
        return _refuse(observed, job, now=now)
    if job.deleting:
        return Decision()  # the garbage collector does the rest, with or without us
    if is_over(observed.status):
        return _after_the_end(observed, job, now=now, settings=settings)
    if _is_partial(observed):
        return Decision(status=observed.status, requeue_after=LOOK_SOON, decide_after=LOOK_SOON)
    this = _begin(observed, job, now=now, settings=settings)
    return conclude(this, _branch(this, knowledge))


def _is_partial(observed: Observed) -> bool:
    """
    Tell whether a job that trains is being looked at before its coordinator could be asked.

    So it is right after the operator has started: deciding then would take members for strangers.
    The link to the coordinator answers, or says why not, within seconds.
    """
    view = observed.coordinator
    asked = view.report is not None or view.error or view.heard is not None
    there = any(
        pod.role is Role.COORDINATOR and pod.phase is PodPhase.RUNNING and pod.ip
        for pod in observed.pods
    )
    return there and not asked and observed.status.is_true(reasons.RUNNING)


def _begin(observed: Observed, job: Job, *, now: datetime, settings: Settings) -> Pass:
    status, report = observed.status, observed.coordinator.report
    signs = {
        pod.name: read_sign(pod, observed.nodes.get(pod.node), now=now, settings=settings)
        for pod in (*observed.pods, *observed.departed)
    }
    done = job.counts_steps and (
        finish_began(status) is not None or (report is not None and report.finished)
    )
    known = done if done or report is not None else None
    scene = Scene(
        pods=observed.pods,
        departed=observed.departed,
        nodes=observed.nodes,
        signs=signs,
        generations={w.worker: w.generation for w in report.workers} if report else {},
        generation=status.generation,
        work=Work(done=known if job.counts_steps else True),
        exits_tell=not job.counts_steps,
    )
    books = count_ends(
        scene,
        status.attempts,
        counters=status.counters,
        last_failure=status.last_failure,
        now=now,
        settings=settings,
    )
    if done:  # in the tail a bad exit is told, not counted
        counters = replace(books.counters, failures=status.counters.failures)
        books = replace(books, counters=counters, last_failure=status.last_failure)
    meter = Meter(
        pods=observed.pods, nodes=observed.nodes, node_gpus=observed.node_gpus, pools=observed.pools
    )
    cost = charge(status.cost, meter, now=now)
    return Pass(
        job=job,
        observed=observed,
        now=now,
        settings=settings,
        signs=signs,
        books=books,
        cost=cost,
        refused_image=images.judge(job, observed.pods, status.refused_image, now=now),
    )


def _branch(this: Pass, knowledge: Knowledge | None) -> Outcome:
    failure, left = find_failure(
        this.job,
        this.before,
        counters=this.books.counters,
        last_failure=this.books.last_failure,
        now=this.now,
    )
    if failure is not None:
        return _end(this, failure)
    timers = () if left is None else (left,)
    if this.finished:
        outcome = _wind_down(this)
    elif this.job.suspend:
        outcome = _suspend(this)
    else:
        outcome = _run(this, knowledge)
    return replace(outcome, timers=(*outcome.timers, *timers))


# ---------------------------------------------------------------- branches


def _run(this: Pass, knowledge: Knowledge | None) -> Outcome:
    job, observed, settings = this.job, this.observed, this.settings
    this = images.retire_waiting(this)
    crew = _crew(this, work=work_of(job, desired=0, settings=settings))
    target = aim(this, crew, knowledge)
    interval = target.checkpoint_interval
    ending = find_exits(job, this.books.attempts, desired=target.desired)
    if ending is not None:
        return _end(this, ending)
    done = done_indexes(this.books.attempts, desired=target.desired)
    work = work_of(
        job,
        desired=target.desired,
        settings=settings,
        planned_interval=interval,
        num_done=len(done),
        servers=target.servers,
    )
    crew = replace(crew, work=work)
    if job.plan_mode is PlanMode.DRY_RUN or (
        target.no_plan is not None and this.before.first_start is None
    ):
        return _run_nothing(this, target)
    pull, pull_wait = images.find_trouble(this)
    stalled = find_stall(job, observed, pull=pull, crew=crew, no_plan=target.no_plan)
    blocked = bool(observed.rejected or observed.foreign or target.no_plan)
    staffed = _Staffed(staffing=Staffing(attempts=dict(this.books.attempts), load={}))
    if pull:
        staffed.staffing.attempts = retire_all(observed.pods, this.books.attempts)
    elif not blocked:
        staffed = _staff(this, target, crew)
    staffing = staffed.staffing
    found = _find(this, target, crew, staffed, stalled=stalled, num_done=len(done))
    stop = next_stop(observed, signs=this.signs, now=this.now)
    timers = [timer for timer in (pull_wait, stop) if timer is not None]
    if observed.rejected or observed.foreign:
        timers.append(RETRY_REJECTED)
    return Outcome(
        claims=images.note(claim(job, observed, found), job, this.refused_image),
        attempts=staffing.attempts,
        desired=target.desired,
        actions=(
            *staffed.actions,
            *instruct(
                observed,
                signs=this.signs,
                work=crew.work,
                now=this.now,
                forsaken=staffing.forsaken,
            ),
            *_mark_boots(this),
        ),
        events=(
            *images.tell(job, this.before.refused_image, this.refused_image),
            *_tell_plan(this, target),
            *staffing.events,
        ),
        timers=(*timers, *staffing.timers, *staffed.timers, *_next_plan(target)),
        record=target.record,
    )


def _find(
    this: Pass,
    target: Aim,
    crew: Crew,
    staffed: "_Staffed",
    *,
    stalled: tuple[str, str] | None,
    num_done: int,
) -> Findings:
    """Put together what the conditions are to say."""
    job, staffing = this.job, staffed.staffing
    training = not job.counts_steps or (this.report is not None and this.report.training)
    was_training = this.before.is_true(reasons.RUNNING)
    live = live_pods(crew, staffing.attempts)
    return Findings(
        desired=target.desired,
        planned=target.planned,
        at_risk=target.at_risk,
        no_plan="" if target.no_plan is None else target.no_plan[1],
        stalled=stalled,
        waits=staffing.waits,
        starved=staffing.starved,
        backing_off=staffing.backing_off,
        coordinator_lost=staffed.coordinator_lost,
        members=len(members_of(job, this.observed.pods, this.report)) + num_done,
        training=training or was_training,
        missing=find_missing(crew, staffing.attempts, live, desired=target.workers),
    )


@dataclass(slots=True, kw_only=True)
class _Staffed:
    """Workers and coordinator after this pass."""

    staffing: Staffing
    actions: tuple[Action, ...] = ()
    timers: tuple[timedelta, ...] = ()
    coordinator_lost: str = ""


def _staff(this: Pass, target: Aim, crew: Crew) -> _Staffed:
    """See that coordinator, servers and every worker of the plan are there, or are being made."""
    attempts = dict(this.books.attempts)
    if not this.job.has_coordinator:
        staffing = target.staff(crew, attempts)
        return _Staffed(staffing=staffing, actions=tuple(staffing.creates))
    chair = seat(this.observed, attempts, signs=this.signs, work=crew.work, now=this.now)
    attempts[COORDINATOR_KEY] = chair.attempts
    staffing = target.staff(crew, attempts)
    staff_servers(this.observed.pods, crew=crew, out=staffing)
    lost = chair.current is None and chair.attempts.ended is not None
    return _Staffed(
        staffing=staffing,
        actions=(*chair.actions, *staffing.creates),
        timers=() if chair.timer is None else (chair.timer,),
        coordinator_lost=_coordinator_trouble(this, lost=lost),
    )


def _run_nothing(this: Pass, target: Aim) -> Outcome:
    """Write down the plan, or why there is none, and give back what there may be."""
    attempts = retire_all(this.observed.pods, this.books.attempts)
    reason, text = target.no_plan or (reasons.DRY_RUN, "spec.planMode is DryRun: nothing is run")
    claims = {
        reasons.PLANNED: target.planned,
        reasons.GOAL_AT_RISK: target.at_risk,
        reasons.RUNNING: no(reason, text),
        reasons.DEGRADED: no(reason),
        reasons.REPLACING: no(reasons.NOTHING_LOST),
        reasons.SUSPENDED: no(reasons.NOT_SUSPENDED),
        reasons.COMPLETE: no(reasons.IN_PROGRESS),
        reasons.FAILED: no(reasons.IN_PROGRESS),
    }
    if target.no_plan is not None:
        claims[reasons.STALLED] = yes(reason, text)
    return Outcome(
        claims=claims,
        attempts=attempts,
        desired=target.desired,
        events=_tell_plan(this, target),
        timers=_next_plan(target),
        record=target.record,
        idle=True,
    )


def _tell_plan(this: Pass, target: Aim) -> tuple[Event, ...]:
    """Tell of a plan that is another one than before."""
    plan = target.record.plan
    before = this.before.plan
    if plan is None or (before is not None and before.is_like(plan)):
        return ()
    return (Event(reason=reasons.PLAN_CHOSEN, message=plan.reason[:1000]),)


def _next_plan(target: Aim) -> tuple[timedelta, ...]:
    """Return when the plan is to be looked at again, also where there is none."""
    return () if target.interval is None else (target.interval,)


def _suspend(this: Pass) -> Outcome:
    pods = this.observed.pods
    attempts = retire_all(pods, this.books.attempts)
    attempts = {key: replace(entry, lost=False, tried=()) for key, entry in attempts.items()}
    claims = claim_suspended(pods_left=len(pods))
    checkpoints = claim_checkpoints(this.observed.coordinator)
    if checkpoints is not None:
        claims[reasons.CHECKPOINTS_HEALTHY] = checkpoints
    if pods:
        claims[reasons.RECONCILING] = yes(reasons.SUSPENDING, f"{len(pods)} pods are still there")
    return Outcome(
        claims=claims,
        attempts=attempts,
        desired=this.job.max_replicas,
        actions=dismiss_servers(this.observed),
        suspended=True,
    )


def _wind_down(this: Pass) -> Outcome:
    """The work is done: let the members exit, end everybody else, then the job is Complete."""
    ending, left = find_completion(
        this.observed.pods,
        this.before,
        steps=this.job.steps,
        now=this.now,
        settings=this.settings,
    )
    if ending is not None:
        return _end(this, ending)
    members = set(this.report.members) if this.report is not None else set()
    others = tuple(
        pod
        for pod in this.observed.pods
        if pod.role is Role.WORKER and not pod.ended and not pod.started and pod.name not in members
    )
    attempts = retire_all(others, this.books.attempts)
    claims = {
        reasons.RUNNING: no(reasons.FINISHED, "the work is done, its workers exit"),
        reasons.DEGRADED: no(reasons.FINISHED),
        reasons.REPLACING: no(reasons.FINISHED),
    }
    checkpoints = claim_checkpoints(this.observed.coordinator)
    if checkpoints is not None:
        claims[reasons.CHECKPOINTS_HEALTHY] = checkpoints
    timers = (left,) if left is not None else ()
    return Outcome(claims=claims, attempts=attempts, desired=this.job.max_replicas, timers=timers)


def _end(this: Pass, ending: Ending) -> Outcome:
    failed = ending.condition == reasons.FAILED
    other = reasons.COMPLETE if failed else reasons.FAILED
    claims = {
        ending.condition: yes(ending.reason, ending.message),
        other: no(ending.reason),
        reasons.RUNNING: no(reasons.FINISHED, ending.message),
        reasons.DEGRADED: no(reasons.FINISHED),
        reasons.REPLACING: no(reasons.FINISHED),
        reasons.SUSPENDED: no(reasons.FINISHED),
    }
    if failed:
        claims[reasons.STALLED] = yes(reasons.FAILED, f"{ending.reason}: {ending.message}")
    return Outcome(
        claims=claims,
        attempts=this.books.attempts,
        desired=this.job.max_replicas,
        timers=(AT_ONCE,),
        ended=True,
    )


def _after_the_end(observed: Observed, job: Job, *, now: datetime, settings: Settings) -> Decision:
    status = observed.status
    actions, timer = clean_up(
        observed.pods,
        job.clean_pod_policy,
        nodes=observed.nodes,
        has_service=observed.service_attempt is not None,
        now=now,
        settings=settings,
    )
    timers = [timer] if timer is not None else []
    if job.ttl_after_finished is not None and status.completion is not None:
        left = status.completion + job.ttl_after_finished - now
        if left <= AT_ONCE:
            return Decision(actions=(DeleteJob(),), status=status)
        timers.append(left)
    after = replace(
        status,
        observed_generation=job.generation,
        replica_statuses=count_roles(observed.pods),
    )
    look = min(timers, default=None)
    return Decision(actions=actions, status=after, requeue_after=look, decide_after=look)


def _refuse(observed: Observed, job: BrokenJob, *, now: datetime) -> Decision:
    """Say what is wrong with a manifest, and leave everything that runs alone."""
    if is_over(observed.status):
        return Decision()
    message = "; ".join(job.errors)
    claims = {
        reasons.PLANNED: no(reasons.INVALID_SPEC, message),
        reasons.STALLED: yes(reasons.INVALID_SPEC, message),
    }
    conditions = update(observed.status.conditions, claims, generation=job.generation, now=now)
    after = replace(observed.status, observed_generation=job.generation, conditions=conditions)
    after = replace(after, state=derive_state(after, suspend=False, has_pods=bool(observed.pods)))
    return Decision(status=after, events=tell_changes(observed.status, after))


# ---------------------------------------------------------------- the pieces of a pass


def _crew(this: Pass, *, work: WorkSpec) -> Crew:
    job, observed = this.job, this.observed
    gpus = max(job.gpus_per_worker, 1)
    return Crew(
        job=job,
        pods=tuple(pod for pod in observed.pods if pod.role is Role.WORKER),
        signs=this.signs,
        report=this.report,
        work=work,
        other_load={name: -(-load // gpus) for name, load in observed.pool_load.items()},
        former_attempts=observed.former_attempts,
        failures=this.books.counters.failures,
        now=this.now,
        settings=this.settings,
        image=images.image_for(job, this.refused_image),
        trained=this.before.start is not None,
    )


def _coordinator_trouble(this: Pass, *, lost: bool) -> str:
    view = this.observed.coordinator
    if lost:
        return "the coordinator ended, another one is being made"
    silent = view.heard is None or this.now - view.heard > this.settings.node_lost
    if view.error and this.before.start is not None and silent:
        return f"the coordinator cannot be reached: {view.error}"
    return ""


def _mark_boots(this: Pass) -> list[MarkBoot]:
    return [
        MarkBoot(name=pod.name, uid=pod.uid, boot_id=this.observed.nodes[pod.node].boot_id)
        for pod in this.observed.pods
        if not pod.boot_id and not pod.ended and pod.node in this.observed.nodes
        if this.observed.nodes[pod.node].boot_id and this.signs[pod.name].outlook is Outlook.HEALTHY
    ]
