"""From the API's pods and nodes to the values that the core reasons about."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from ebbtide.cluster.shapes import (
    ConditionShape,
    ContainerStatus,
    Meta,
    NodeShape,
    PodShape,
    Terminated,
)
from ebbtide.core.values.job import JobKey
from ebbtide.core.values.observed import Node, Pod, PodPhase, Role, Taint
from ebbtide.wire import names

GPU: Final = "nvidia.com/gpu"
_MOST_DIGITS: Final = 6  # generations are attempts times a million, and fit into the status
_ROLES: Final = frozenset(str(role) for role in Role)
_PHASES: Final = {str(phase): phase for phase in PodPhase}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_STILL_STARTING: Final = frozenset({"", "ContainerCreating", "PodInitializing"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedPod:
    """A pod of some job of ours, as the cache keeps it."""

    job: JobKey
    job_uid: str  # of the TrainingJob that controls it; "" = nobody of ours does
    version: int
    pod: Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedNode:
    """A node, as the cache keeps it."""

    version: int
    labels: Mapping[str, str]
    node: Node


def read_pod(shape: PodShape) -> CachedPod | None:
    """Return what matters of a pod; None for one whose labels are not of our making."""
    meta, labels = shape.metadata, shape.metadata.labels
    role = labels.get(names.LABEL_ROLE, "")
    index, attempt = labels.get(names.LABEL_INDEX, ""), labels.get(names.LABEL_ATTEMPT, "")
    if role not in _ROLES or not (index.isdecimal() and attempt.isdecimal()):
        return None
    if max(len(index), len(attempt)) > _MOST_DIGITS:  # the ledger could not be stored
        return None
    owner = meta.controller()
    ours = owner is not None and owner.kind == names.TRAINING_JOB
    return CachedPod(
        job=JobKey(meta.namespace, labels.get(names.LABEL_JOB_NAME, "")),
        job_uid=owner.uid if ours and owner is not None else "",
        version=meta.version,
        pod=_read_pod(shape, Role(role), int(index), int(attempt)),
    )


def _read_pod(shape: PodShape, role: Role, index: int, attempt: int) -> Pod:
    meta, status = shape.metadata, shape.status
    conditions = {condition.type: condition for condition in status.conditions or ()}
    scheduled = _when(conditions, "PodScheduled", status="False", reason="Unschedulable")
    disruption = _when(conditions, "DisruptionTarget", status="True")
    inits, mains = status.init_container_statuses or [], status.container_statuses or []
    trainer = shape.spec.containers[0].name if shape.spec.containers else ""
    waiting = _waiting([*inits, *mains])
    containers = [*(shape.spec.init_containers or ()), *shape.spec.containers]
    ended = _ended([*inits, *mains], trainer)
    container, end = ended or ("", None)
    return Pod(
        name=meta.name,
        uid=meta.uid,
        role=role,
        index=index,
        attempt=attempt,
        created=meta.creation_timestamp or _EPOCH,
        pool=meta.labels.get(names.LABEL_POOL, ""),
        node=shape.spec.node_name,
        phase=_PHASES.get(status.phase, PodPhase.UNKNOWN),
        reason=status.reason or "",
        message=status.message or "",
        deletion_requested=_deletion(meta),
        bound_since=status.start_time,
        unschedulable_since=None if scheduled is None else scheduled.last_transition_time,
        unschedulable_message=(scheduled and scheduled.message) or "",
        ready=_when(conditions, "Ready", status="True") is not None,
        started=any(_has_run(one) for one in mains if one.name == trainer),
        waiting_reason=waiting[0],
        waiting_message=waiting[1],
        waiting_image=next((one.image for one in containers if one.name == waiting[2]), ""),
        exit_container=container if end is not None and end.exit_code else "",
        exit_code=None if end is None else end.exit_code,
        exit_reason=(end and end.reason) or "",
        exit_message=(end and end.message) or "",
        finished_at=None if end is None else end.finished_at,
        disruption=(disruption and disruption.reason) or "",
        disruption_message=(disruption and disruption.message) or "",
        boot_id=meta.annotations.get(names.ANNOTATION_BOOT_ID, ""),
        template_hash=meta.annotations.get(names.ANNOTATION_TEMPLATE_HASH, ""),
        ip=status.pod_ip,
        active_deadline=shape.spec.active_deadline_seconds,
        gpus=sum(
            count_gpus(container.resources.limits or {}) for container in shape.spec.containers
        ),
    )


def _when(
    conditions: Mapping[str, ConditionShape], kind: str, *, status: str, reason: str | None = None
) -> ConditionShape | None:
    found = conditions.get(kind)
    if found is None or found.status != status or reason not in (None, found.reason):
        return None
    return found


def _deletion(meta: Meta) -> datetime | None:
    if meta.deletion_timestamp is None:
        return None
    seconds = meta.deletion_grace_period_seconds or 0
    try:
        return meta.deletion_timestamp - timedelta(seconds=seconds)
    except OverflowError:  # a template may ask for any number of seconds
        return meta.creation_timestamp or _EPOCH


def _waiting(statuses: Iterable[ContainerStatus]) -> tuple[str, str, str]:
    """Return why which container waits: one that is in trouble before one that only starts."""
    reasons = [
        (one.state.waiting.reason or "", one.state.waiting.message or "", one.name)
        for one in statuses
        if one.state.waiting is not None
    ]
    troubled = (found for found in reasons if found[0] not in _STILL_STARTING)
    return next(troubled, reasons[0] if reasons else ("", "", ""))


def _ended(statuses: Iterable[ContainerStatus], trainer: str) -> tuple[str, Terminated] | None:
    """Return the container that ended badly, the earliest one, else the trainer's own end."""
    ends = [(one.name, end) for one in statuses if (end := one.state.terminated) is not None]
    bad = [found for found in ends if found[1].exit_code != 0]
    if bad:
        return min(bad, key=lambda found: found[1].finished_at or _EPOCH)
    return next((found for found in ends if found[0] == trainer), None)


def _has_run(status: ContainerStatus) -> bool:
    if status.state.running is not None:
        return True
    end = status.state.terminated or status.last_state.terminated
    return end is not None and end.started_at is not None and end.started_at > _EPOCH


def count_gpus(quantities: Mapping[str, str | int | float]) -> int:
    """Return how many GPUs are asked for or offered; 0 for what is not a whole number."""
    text = str(quantities.get(GPU, "0"))
    return int(text) if text.isdecimal() else 0


def read_node(shape: NodeShape) -> CachedNode:
    """Return what matters of a node."""
    conditions = {condition.type: condition for condition in shape.status.conditions or ()}
    ready = conditions.get("Ready", ConditionShape())
    return CachedNode(
        version=shape.metadata.version,
        labels=shape.metadata.labels,
        node=Node(
            name=shape.metadata.name,
            uid=shape.metadata.uid,
            ready=ready.status == "True",
            ready_reason=ready.reason or "",
            ready_changed=(
                ready.last_transition_time or shape.metadata.creation_timestamp or _EPOCH
            ),
            boot_id=shape.status.node_info.boot_id,
            unschedulable=shape.spec.unschedulable,
            taints=tuple(
                Taint(key=taint.key, effect=taint.effect, value=taint.value)
                for taint in shape.spec.taints or ()
            ),
            gpus=count_gpus(shape.status.allocatable or {}),
        ),
    )
