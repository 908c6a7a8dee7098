"""What the conditions of a job that is not over should say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ebbtide.core.lifecycle.conditions import Claim, no, yes
from ebbtide.core.lifecycle.images import ADVICE
from ebbtide.core.lifecycle.workers import Crew
from ebbtide.core.values import reasons
from ebbtide.core.values.job import Job
from ebbtide.core.values.observed import CoordinatorView, Observed, Pod, Role
from ebbtide.core.values.status import Attempts, JobStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What this pass found out, in words where somebody should read it."""

    desired: int
    planned: Claim  # where the workers go
    at_risk: Claim  # whether the goal is forecast to be missed
    no_plan: str = ""  # why they can go nowhere
    stalled: tuple[str, str] | None = None  # reason and message
    waits: Sequence[str] = ()  # workers without a node
    starved: bool = False  # ... for so long that it is a lack of capacity
    training: bool = False  # the members train, or did until they began to re-form
    backing_off: Sequence[str] = ()
    coordinator_lost: str = ""
    members: int = 0
    missing: Sequence[int] = ()  # lost indexes without a member
    finished: bool = False


def claim(job: Job, observed: Observed, found: Findings) -> dict[str, Claim]:
    """Return the claims of a job that runs, or is to run."""
    running = _claim_running(job, found)
    claims = {
        reasons.PLANNED: found.planned,
        reasons.RUNNING: running,
        reasons.DEGRADED: _claim_degraded(found, running),
        reasons.REPLACING: _claim_replacing(found),
        reasons.SUSPENDED: _claim_resumed(observed.status),
        reasons.GOAL_AT_RISK: found.at_risk,
        reasons.COMPLETE: no(reasons.IN_PROGRESS),
        reasons.FAILED: no(reasons.IN_PROGRESS),
    }
    checkpoints = claim_checkpoints(observed.coordinator)
    if checkpoints is not None:
        claims[reasons.CHECKPOINTS_HEALTHY] = checkpoints
    if found.stalled is not None:
        claims[reasons.STALLED] = yes(*found.stalled)
    elif running.status != "True" and not found.finished:
        claims[reasons.RECONCILING] = yes(running.reason, running.message)
    return claims


def claim_suspended(*, pods_left: int) -> dict[str, Claim]:
    """Return the claims of a job that is, or is being, suspended."""
    text = f"{pods_left} pods are still there" if pods_left else "no pod is left"
    suspended = (
        no(reasons.SUSPENDING, text) if pods_left else yes(reasons.SUSPENDED, f"suspended, {text}")
    )
    return {
        reasons.RUNNING: no(reasons.SUSPENDED, "spec.suspend is true"),
        reasons.DEGRADED: no(reasons.SUSPENDED),
        reasons.REPLACING: no(reasons.SUSPENDED),
        reasons.SUSPENDED: suspended,
    }


def claim_checkpoints(view: CoordinatorView) -> Claim | None:
    """Say how checkpoints fare; None when there is nothing new to say."""
    report = view.report
    if report is None:
        return None
    if report.checkpoint_error:
        return no(reasons.CHECKPOINT_FAILED, report.checkpoint_error)
    if report.checkpoint_step < 0:
        return None
    return yes(reasons.CHECKPOINT_SAVED, "the last save is committed")


def find_stall(  # noqa: PLR0911 -- one return for each rule, the first that matches
    job: Job, observed: Observed, *, pull: str, crew: Crew, no_plan: tuple[str, str] | None
) -> tuple[str, str] | None:
    """Tell whether only a human can help now, and with what."""
    if observed.rejected:
        return reasons.POD_REJECTED, f"the API server refuses our pod: {observed.rejected}"
    if observed.foreign:
        names = ", ".join(sorted(observed.foreign))
        return reasons.NAME_TAKEN, f"{names} is not ours; delete it or give the job another name"
    if no_plan is not None:
        return no_plan
    if pull:
        return reasons.IMAGE_PULL_FAILED, f"{pull}{ADVICE}"
    report = observed.coordinator.report
    if report is not None and report.checkpoint_error and not (report.generation or report.step):
        text = f"spec.checkpoint.path {job.checkpoint_path}: {report.checkpoint_error}"
        return reasons.CHECKPOINT_NOT_WRITABLE, text
    stale = [
        pod.name
        for pod in crew.pods
        if not pod.ended and pod.template_hash not in ("", job.template_hash)
    ]
    if stale:
        text = (
            f"spec.template changed while {len(stale)} pods run with the old one "
            f"({', '.join(sorted(stale)[:3])}): set spec.suspend to true and back to apply it"
        )
        return reasons.TEMPLATE_CHANGED, text
    return None


def find_missing(
    crew: Crew, attempts: Mapping[str, Attempts], live: Sequence[Pod], *, desired: int
) -> tuple[int, ...]:
    """Return the lost indexes that nobody stands for; a spare stands for one of another index."""
    if crew.is_full:
        return ()
    members = {pod.index for pod in live if crew.is_member(pod)}
    at_risk = {pod.index for pod in live if crew.risk(pod)}
    lost = {i for i in range(desired) if attempts.get(f"{Role.WORKER}-{i}", Attempts()).lost}
    return tuple(sorted(i for i in (lost | at_risk) - members if i < desired))


def _claim_running(job: Job, found: Findings) -> Claim:  # noqa: PLR0911 -- one return for each rule, the first that matches
    if found.finished:
        return no(reasons.FINISHED, "the work is done")
    enough = found.training and found.members >= job.min_replicas
    if enough and not found.coordinator_lost:
        return yes(reasons.TRAINING, f"{found.members} of {found.desired} workers train")
    if found.stalled is not None and found.stalled[0] == reasons.IMAGE_PULL_FAILED:
        return no(*found.stalled)
    if found.coordinator_lost:
        return no(reasons.COORDINATOR_LOST, found.coordinator_lost)
    need = f"{found.members} of at least {job.min_replicas} workers train"
    if found.waits or found.no_plan:
        why = "; ".join((*found.waits, *([found.no_plan] if found.no_plan else [])))
        starved = found.starved or found.no_plan
        return no(reasons.NO_CAPACITY if starved else reasons.STARTING, f"{need}: {why}")
    if found.backing_off:
        return no(reasons.BACKING_OFF, f"{need}: {'; '.join(found.backing_off)}")
    return no(reasons.STARTING, need)


def _claim_degraded(found: Findings, running: Claim) -> Claim:
    if running.status != "True":
        return no(running.reason)
    if found.members >= found.desired:
        return no(reasons.FULL_SIZE)
    text = f"{found.members} of {found.desired} workers train"
    if found.waits:
        reason = reasons.NO_CAPACITY if found.starved else reasons.BELOW_TARGET
        return yes(reason, f"{text}: {'; '.join(found.waits)}")
    return yes(reasons.BELOW_TARGET, text)


def _claim_replacing(found: Findings) -> Claim:
    if not found.missing or found.finished:
        return no(reasons.NOTHING_LOST)
    indexes = ", ".join(str(index) for index in found.missing)
    return yes(reasons.WORKER_LOST, f"no member yet in the place of worker {indexes}")


def _claim_resumed(status: JobStatus) -> Claim:
    before = status.condition(reasons.SUSPENDED)
    was = before is not None and (before.status == "True" or before.reason == reasons.SUSPENDING)
    if was or (before is not None and before.reason == reasons.RESUMED):
        return no(reasons.RESUMED, "spec.suspend is false")
    return no(reasons.NOT_SUSPENDED)
