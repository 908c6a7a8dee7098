"""The end of a pass: the status that is written once, and what goes with it."""

from dataclasses import replace
from datetime import timedelta

from ebbtide.core.lifecycle.clearing import clear
from ebbtide.core.lifecycle.conditions import derive_state, tell_changes, update
from ebbtide.core.lifecycle.cost import settle
from ebbtide.core.lifecycle.judging import Verdict
from ebbtide.core.lifecycle.ledger import Counted, is_retired
from ebbtide.core.lifecycle.passing import Outcome, Pass
from ebbtide.core.lifecycle.progress import (
    count_lost_steps,
    count_replicas,
    count_roles,
    members_of,
    read_progress,
    show,
    show_plan,
)
from ebbtide.core.lifecycle.signs import Outlook
from ebbtide.core.values import reasons
from ebbtide.core.values.decision import Action, Decision, Event
from ebbtide.core.values.status import Attempts, JobStatus
from ebbtide.wire.names import LABEL_JOB_NAME, LABEL_ROLE, ROLE_WORKER

AT_ONCE = timedelta(0)
LOOK_AGAIN = timedelta(seconds=60)  # a safety net: events bring us back sooner


def conclude(this: Pass, outcome: Outcome) -> Decision:
    """Put what a branch decided into one decision: actions, the status to write, events."""
    after = _next_status(this, outcome)
    changed = _without_volatile(after) != _without_volatile(this.before)
    due = this.before.progress.updated
    interval = this.settings.progress_interval
    fresh = due is not None and this.now - due < interval
    status = this.before if not changed and (fresh or after == this.before) else after
    if status is after:
        status = replace(status, progress=replace(status.progress, updated=this.now))
    clearing: tuple[Action, ...] = ()
    zombie_timer: timedelta | None = None
    if not outcome.ended:
        clearing, zombie_timer = clear(
            this.observed.pods,
            this.before.attempts,
            nodes=this.observed.nodes,
            now=this.now,
            settings=this.settings,
            keep_dead=not outcome.suspended,
        )
    events = (*_tell_ends(this.books.counted, finished=this.finished), *outcome.events)
    decide_after = _next_decision(this, outcome, zombie=zombie_timer)
    return Decision(
        actions=(*outcome.actions, *clearing),
        status=status,
        events=(*events, *tell_changes(this.before, status)),
        requeue_after=min(_next_look(this), LOOK_AGAIN if decide_after is None else decide_after),
        decide_after=decide_after,
    )


def _next_status(this: Pass, outcome: Outcome) -> JobStatus:
    before, report, observed = this.before, this.report, this.observed
    pools = {pool.name: pool for pool in observed.pools}
    conditions = update(
        before.conditions, outcome.claims, generation=this.job.generation, now=this.now
    )
    progress = read_progress(before.progress, report, steps=this.job.steps)
    if this.finished:
        progress = replace(
            progress, step=this.job.steps, percentage=100, estimated_remaining_seconds=0
        )
    members = members_of(this.job, observed.pods, report)
    replicas = count_replicas(
        observed.pods, report, members=members, desired=outcome.desired, pools=pools
    )
    record = before.record if outcome.record is None else outcome.record
    counters = this.books.counters
    counters = replace(counters, steps_lost=counters.steps_lost + count_lost_steps(before, report))
    after = replace(
        before,
        observed_generation=this.job.generation,
        conditions=conditions,
        generation=max(before.generation, report.generation if report else 0),
        members=replicas.ready,
        replicas=replicas,
        replica_statuses=count_roles(observed.pods),
        selector=f"{LABEL_JOB_NAME}={this.job.key.name},{LABEL_ROLE}={ROLE_WORKER}",
        attempts=dict(outcome.attempts),
        progress=progress,
        cost=settle(this.cost, now=this.now) if outcome.ended else this.cost,
        counters=counters,
        last_failure=this.books.last_failure,
        refused_image=this.refused_image,
        display=replace(
            show(observed.pods, replicas, members=members, progress=progress, pools=pools),
            plan=show_plan(record.plan),
        ),
        plan=record.plan,
        plan_basis=record.basis,
        plan_changes=record.changes,
        plan_measured=record.measured,
        plan_refusal=record.refusal,
    )
    after = _clocks(after, this, outcome)
    # Pods of a job that is to run nothing are on their way out.
    has_pods = bool(observed.pods) and not outcome.idle
    return replace(after, state=derive_state(after, suspend=this.job.suspend, has_pods=has_pods))


def _clocks(after: JobStatus, this: Pass, outcome: Outcome) -> JobStatus:
    planned = after.is_true(reasons.PLANNED)
    if after.first_start is None and planned and not (outcome.suspended or outcome.idle):
        after = replace(after, first_start=this.now)
    if outcome.suspended or outcome.idle:
        return replace(after, start=None)
    if after.start is None and after.is_true(reasons.RUNNING):
        after = replace(after, start=this.now)
    if outcome.ended:
        after = replace(after, completion=this.now)
    return after


def _without_volatile(status: JobStatus) -> JobStatus:
    """Leave out what moves all the time and may wait for `progressSeconds`."""
    progress = replace(status.progress, updated=None, step=0, steps_per_second=0.0, percentage=0)
    progress = replace(progress, estimated_remaining_seconds=None, last_checkpoint_step=None)
    progress = replace(progress, last_checkpoint_time=None)
    cost = replace(status.cost, spent_usd=status.cost.settled_usd)
    display = replace(status.display, progress="")
    return replace(status, progress=progress, cost=cost, display=display)


def _next_look(this: Pass) -> timedelta:
    """Return when progress and cost are worth another look."""
    is_training = this.report is not None and this.report.training
    return min(LOOK_AGAIN, this.settings.progress_interval) if is_training else LOOK_AGAIN


def _next_decision(this: Pass, outcome: Outcome, *, zombie: timedelta | None) -> timedelta | None:
    timers = [*outcome.timers]
    if zombie is not None:
        timers.append(zombie)
    timers += [sign.recheck for sign in this.signs.values() if sign.recheck is not None]
    timers += [
        sign.since + this.settings.node_lost - this.now
        for sign in this.signs.values()
        if sign.outlook is Outlook.NOT_READY and sign.since is not None
    ]
    retired = any(
        is_retired(pod, outcome.attempts.get(pod.index_key, Attempts()))
        and not is_retired(pod, this.before.attempts.get(pod.index_key, Attempts()))
        for pod in this.observed.pods
    )
    if retired:
        timers.append(AT_ONCE)
    return max(min(timers), AT_ONCE) if timers else None


def _tell_ends(counted: tuple[Counted, ...], *, finished: bool) -> list[Event]:
    told = {
        Verdict.REVOCATION: (reasons.POD_PREEMPTED, "was taken away", False),
        Verdict.RESTART: (reasons.POD_RESTARTED, "ended by nobody's fault", False),
        Verdict.FAILURE: (reasons.POD_FAILED, "failed", True),
    }
    events = []
    for end in counted:
        if end.judgement.verdict not in told:
            continue
        reason, words, warning = told[end.judgement.verdict]
        if finished and end.judgement.verdict is Verdict.FAILURE:
            reason, words, warning = reasons.LATE_EXIT, "ended badly after the work was done", False
        message = f"{end.index_key} attempt {end.attempt} {words}: {end.judgement.cause}"
        events.append(Event(reason=reason, message=message[:1000], warning=warning))
    return events
