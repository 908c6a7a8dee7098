"""The coordinator: one at a time, its Service turned to it, and what it must be told."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ebbtide.core.lifecycle.ledger import is_live, is_retired
from ebbtide.core.lifecycle.signs import Outlook, Sign
from ebbtide.core.lifecycle.workers import after_create, after_stumbles
from ebbtide.core.values.decision import Action, ApplyService, CreatePod, CreateSecret, Tell
from ebbtide.core.values.job import Job
from ebbtide.core.values.observed import Observed, Pod, Role
from ebbtide.core.values.settings import Settings
from ebbtide.core.values.status import Attempts
from ebbtide.wire.messages import WorkSpec

KEY = f"{Role.COORDINATOR}-0"
UNPLANNED_INTERVAL = timedelta(seconds=60)  # between checkpoints, where nothing says better
STILL_THERE: frozenset[str] = frozenset({"joining", "member", "spare", "leaving"})


def work_of(
    job: Job,
    *,
    desired: int,
    settings: Settings,
    planned_interval: timedelta | None = None,
    num_done: int = 0,
    servers: int = 0,
) -> WorkSpec:
    """
    Return the working fields of the spec, as the trainer gets them.

    `num_done` workers have exited for good, their work done: the others train without them.
    """
    interval = job.checkpoint_interval or planned_interval or UNPLANNED_INTERVAL
    return WorkSpec(
        job=str(job.key),
        steps=job.steps,
        global_batch_size=job.global_batch_size,
        min_replicas=max(1, min(job.min_replicas, desired - num_done))
        if num_done
        else job.min_replicas,
        desired=desired,
        processes_per_worker=job.processes_per_worker,
        checkpoint_interval=interval.total_seconds(),
        checkpoint_retain=job.checkpoint_retain,
        coordinator_grace=settings.coordinator_grace.total_seconds(),
        heartbeat=settings.heartbeat.total_seconds(),
        regroup=0.0 if job.counts_steps else settings.regroup.total_seconds(),
        servers=servers,
        max_staleness=job.max_staleness,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """The coordinator's pod after this pass."""

    attempts: Attempts
    actions: tuple[Action, ...] = ()
    current: Pod | None = None
    timer: timedelta | None = None


def seat(
    observed: Observed,
    attempts: Mapping[str, Attempts],
    *,
    signs: Mapping[str, Sign],
    work: WorkSpec,
    now: datetime,
) -> Seat:
    """
    See that there is one coordinator, with a token and a name.

    A second one is made only when the first has ended or its node is lost.
    """
    entry = attempts.get(KEY, Attempts())
    pods = [pod for pod in observed.pods if pod.role is Role.COORDINATOR]
    live = [pod for pod in pods if is_live(pod, entry, signs[pod.name])]
    actions: list[Action] = []
    if not observed.has_secret:
        actions.append(CreateSecret())
    if live:
        current = max(live, key=lambda pod: pod.attempt)
        if observed.service_attempt != current.attempt:
            actions.append(ApplyService(attempt=current.attempt))
        return Seat(attempts=entry, actions=tuple(actions), current=current)
    wait = after_stumbles(entry, now=now) - now
    if wait > timedelta(0):
        return Seat(attempts=entry, actions=tuple(actions), timer=wait)
    attempt = 1 + max(entry.last, observed.former_attempts.get(KEY, 0))
    create = CreatePod(role=Role.COORDINATOR, index=0, attempt=attempt, work=work)
    actions += [ApplyService(attempt=attempt), create]
    return Seat(attempts=after_create(entry, attempt), actions=tuple(actions))


def instruct(
    observed: Observed,
    *,
    signs: Mapping[str, Sign],
    work: WorkSpec,
    now: datetime,
    forsaken: AbstractSet[str] = frozenset(),
) -> tuple[Action, ...]:
    """
    Tell the coordinator what it does not know yet: working fields, warnings, losses, stops.

    `forsaken` are workers whose node goes and for whom nobody comes: they stop at once, so that
    what they hold is saved.
    """
    report = observed.coordinator.report
    if report is None or observed.coordinator.error:
        return ()
    tells: list[Tell] = []
    if report.work != work:
        tells.append(Tell(call="configure", work=work))
    pods = {pod.name: pod for pod in observed.pods}
    for worker in report.workers:
        if worker.state not in STILL_THERE:
            continue
        pod = pods.get(worker.worker)
        if pod is None or pod.ended or signs[pod.name].outlook is Outlook.LOST:
            tells.append(Tell(call="expel", worker=worker.worker))
            continue
        at_risk = signs[pod.name].outlook in (Outlook.WARNED, Outlook.NOT_READY)
        if at_risk != worker.warned:
            tells.append(Tell(call="warn", worker=worker.worker, on=at_risk))
        left = _notice_left(pod, observed, signs=signs, now=now)
        if left is None and pod.name in forsaken and signs[pod.name].certain:
            left = _stop_before_end(pod, observed)
        if left is not None and worker.state != "leaving":
            tells.append(Tell(call="stop", worker=worker.worker, seconds=left))
    lost = [one.server for one in report.servers if _is_gone(pods.get(one.server), signs)]
    tells += [Tell(call="expel", worker=server) for server in lost]
    return tuple(tells)


def dismiss_servers(observed: Observed) -> tuple[Action, ...]:
    """
    Let the servers of a job that is to stop go at once, when no worker is left.

    Told to go like others they would wait for somebody to take over what they hold.
    """
    report = observed.coordinator.report
    workers = any(pod.role is Role.WORKER and not pod.ended for pod in observed.pods)
    if report is None or observed.coordinator.error or workers:
        return ()
    return tuple(Tell(call="expel", worker=server.server) for server in report.servers)


def _is_gone(pod: Pod | None, signs: Mapping[str, Sign]) -> bool:
    return pod is None or pod.ended or signs[pod.name].outlook is Outlook.LOST


def next_stop(observed: Observed, *, signs: Mapping[str, Sign], now: datetime) -> timedelta | None:
    """Return how long until a worker whose notice runs must be told to stop."""
    stops = []
    for pod in observed.pods:
        end = None if pod.ended else _notice_end(pod, observed, signs=signs)
        if end is not None:
            stops.append(end - timedelta(seconds=_stop_before_end(pod, observed)) - now)
    return min((stop for stop in stops if stop > timedelta(0)), default=None)


def retire_all(pods: tuple[Pod, ...], attempts: Mapping[str, Attempts]) -> dict[str, Attempts]:
    """
    Retire every pod that is not yet; coordinator and servers only when no worker is left.

    Until then they are needed: to save what the workers have trained.
    """
    after = dict(attempts)
    workers = any(pod.role is Role.WORKER and not pod.ended for pod in pods)
    for pod in pods:
        entry = after.get(pod.index_key, Attempts())
        if is_retired(pod, entry) or (pod.role is not Role.WORKER and workers and not pod.ended):
            continue
        after[pod.index_key] = replace(entry, retired=tuple(sorted({*entry.retired, pod.attempt})))
    return after


def _notice_left(
    pod: Pod, observed: Observed, *, signs: Mapping[str, Sign], now: datetime
) -> float | None:
    """Return the seconds of notice left once it is nearly used up; None before, or if none runs."""
    end = _notice_end(pod, observed, signs=signs)
    if end is None:
        return None
    left = (end - now).total_seconds()
    return max(left, 1.0) if left <= _stop_before_end(pod, observed) else None


def _notice_end(pod: Pod, observed: Observed, *, signs: Mapping[str, Sign]) -> datetime | None:
    """
    Return when a notice that runs is used up.

    It began when the replacement was made: that is when the warning was first seen.
    """
    if not signs[pod.name].certain or all(pool.name != pod.pool for pool in observed.pools):
        return None
    later = [
        p.created for p in observed.pods if p.index_key == pod.index_key and p.attempt > pod.attempt
    ]
    return min(later) + _notice_of(pod, observed) if later else None


def _stop_before_end(pod: Pod, observed: Observed) -> float:
    """Return how many seconds before its notice is used up a worker is told to stop."""
    return _notice_of(pod, observed).total_seconds() / 3


def _notice_of(pod: Pod, observed: Observed) -> timedelta:
    found = (pool.notice for pool in observed.pools if pool.name == pod.pool)
    return next(found, timedelta(0))
