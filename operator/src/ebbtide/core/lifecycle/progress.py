"""How far training is, as the coordinator tells it, and the numbers for the columns."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from ebbtide.core.values.job import Job
from ebbtide.core.values.observed import Pod, Role
from ebbtide.core.values.plan import Plan, Share
from ebbtide.core.values.pool import Market, Pool
from ebbtide.core.values.status import Display, JobStatus, Progress, Replicas, RoleStatus
from ebbtide.wire.messages import Report


def read_progress(before: Progress, report: Report | None, *, steps: int) -> Progress:
    """Return the progress; what nobody can tell now stays as it was."""
    if not steps:
        return before  # nobody counts them
    if report is None or (report.generation == 0 and not report.finished):
        return replace(before, steps=steps, steps_per_second=0.0, estimated_remaining_seconds=None)
    step = min(report.step, steps)
    rate = round(report.steps_per_second, 3) if report.training else 0.0
    remaining = round((steps - step) / rate) if rate > 0 else None
    saved = report.checkpoint_step >= 0
    return replace(
        before,
        step=step,
        steps=steps,
        steps_per_second=rate,
        percentage=100 * step // steps if steps else 0,
        estimated_remaining_seconds=0 if step == steps else remaining,
        last_checkpoint_step=report.checkpoint_step if saved else before.last_checkpoint_step,
        last_checkpoint_time=datetime.fromtimestamp(int(report.checkpoint_time), tz=UTC)
        if saved and report.checkpoint_time
        else before.last_checkpoint_time,
    )


def members_now(report: Report | None) -> frozenset[str]:
    """
    Return the workers that train, or hold their state for the next generation.

    While members re-form, for milliseconds or until a replacement is there, the survivors count.
    """
    if report is None:
        return frozenset()
    if report.training:
        return frozenset(report.members)
    return frozenset(worker.worker for worker in report.workers if worker.state == "member")


def members_of(job: Job, pods: Iterable[Pod], report: Report | None) -> frozenset[str]:
    """
    Return the workers that count as training: the coordinator's members, or whoever is Ready.

    Under Torchrun and Command the scripts are on their own terms, so a pod that is Ready is all
    that can be told; of two of one index the older counts.
    """
    if job.counts_steps:
        return members_now(report)
    standing: dict[int, str] = {}
    for pod in sorted(pods, key=lambda pod: pod.attempt):
        if is_standing(pod):
            standing.setdefault(pod.index, pod.name)
    return frozenset(standing.values())


def is_standing(pod: Pod) -> bool:
    """Tell whether a worker's pod is Ready."""
    return pod.role is Role.WORKER and pod.ready and not pod.ended


def count_lost_steps(before: JobStatus, report: Report | None) -> int:
    """Return the steps that the newest start from a checkpoint threw away, each start once."""
    if report is None or report.resumed_generation <= before.generation:
        return 0
    furthest = max(before.progress.step, report.resumed_step + report.steps_redone)
    return max(furthest - report.resumed_step, 0)


def count_replicas(
    pods: Iterable[Pod],
    report: Report | None,
    *,
    members: frozenset[str],
    desired: int,
    pools: Mapping[str, Pool],
) -> Replicas:
    """Count workers by what they do."""
    present = [pod for pod in pods if pod.name in members]
    spot = sum(pod.pool in pools and pools[pod.pool].market is Market.SPOT for pod in present)
    spares = sum(w.state == "spare" for w in report.workers) if report is not None else 0
    return Replicas(
        desired=desired,
        ready=len(members),
        spot=spot,
        on_demand=len(present) - spot,
        spares=spares,
    )


def count_roles(pods: Iterable[Pod]) -> dict[str, RoleStatus]:
    """Count pod objects by role and state."""
    tally: Counter[tuple[str, str]] = Counter()
    for pod in pods:
        state = str(pod.phase.value).lower() if pod.ended else "active"
        tally[pod.role.value, state] += 1
        tally[pod.role.value, "ready"] += pod.ready and not pod.ended
    return {
        role.value: RoleStatus(
            active=tally[role.value, "active"],
            ready=tally[role.value, "ready"],
            succeeded=tally[role.value, "succeeded"],
            failed=tally[role.value, "failed"],
        )
        for role in Role
    }


def show(
    pods: Iterable[Pod],
    replicas: Replicas,
    *,
    members: frozenset[str],
    progress: Progress,
    pools: Mapping[str, Pool],
) -> Display:
    """Put the numbers into the texts of the printer columns."""
    types: Counter[str] = Counter()
    for pod in pods:
        if pod.name in members and pod.gpus and pod.pool in pools:
            types[pools[pod.pool].gpu_type or "GPU"] += pod.gpus
    return Display(
        ready=f"{replicas.ready}/{replicas.desired}",
        gpu=", ".join(f"{count}x {kind}" for kind, count in sorted(types.items())),
        spot=f"{replicas.spot}/{replicas.desired}",
        progress=f"{progress.percentage}%" if progress.steps else "",
    )


def show_plan(plan: Plan | None) -> str:
    """Put a plan into the words of its column: `2 v100-spot + 1 v100-ondemand`."""
    if plan is None:
        return ""
    if not plan.shares:
        return f"waits for {_sum_up(plan.awaited)}" if plan.awaited else "nothing"
    servers = f" + {plan.servers} servers" if plan.servers else ""
    return _sum_up(plan.shares) + servers


def _sum_up(shares: Iterable[Share]) -> str:
    return " + ".join(f"{share.replicas} {share.pool}" for share in shares)
