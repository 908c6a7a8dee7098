"""
The status sub-resource and the value of the core, both ways.

Times that users read are cut to whole seconds, as everywhere in Kubernetes; those that the ledger
counts with keep their fractions. What is None or empty is left out, counters never are.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from ebbtide.api.fields import Schema, as_decimal
from ebbtide.api.job_status import AttemptsStatus, CostStatus, ProgressStatus, Status
from ebbtide.api.plan_status import parse_record, render_record
from ebbtide.api.stored import read_stored
from ebbtide.api.texts import MICRO, Json, render_rate, render_second, render_time, render_usd, slim
from ebbtide.core.values.status import (
    Attempts,
    Condition,
    Cost,
    Counters,
    Display,
    JobStatus,
    LastFailure,
    NodeCharge,
    Progress,
    RefusedImage,
    Replicas,
    RoleStatus,
)

LONGEST_MESSAGE: Final = 32768
LONGEST_TEXT: Final = 128
"""Of a column. One text that is too long would have the server refuse the whole status."""


def parse_status(status: Mapping[str, Any] | None) -> JobStatus:
    """Return a stored status; nothing stored gives the status of a job nobody has seen."""
    stored = read_stored(Status, status)
    record = parse_record(stored.plan)
    return JobStatus(
        observed_generation=stored.observed_generation,
        state=stored.state,
        conditions=tuple(
            Condition(
                type=found.type,
                status=found.status,
                reason=found.reason,
                message=found.message,
                observed_generation=found.observed_generation,
                last_transition=found.last_transition_time,
            )
            for found in stored.conditions
        ),
        first_start=stored.first_start_time,
        start=stored.start_time,
        completion=stored.completion_time,
        generation=stored.generation.number,
        members=stored.generation.members,
        replicas=Replicas(**_fields(stored.replicas)),
        replica_statuses={
            role: RoleStatus(**_fields(counts)) for role, counts in stored.replica_statuses.items()
        },
        selector=stored.selector,
        attempts={key: _attempts(found) for key, found in stored.attempts.items()},
        progress=_progress(stored.progress),
        cost=_cost(stored.cost),
        counters=Counters(**_fields(stored.counters)),
        last_failure=(
            None if stored.last_failure is None else LastFailure(**_fields(stored.last_failure))
        ),
        refused_image=(
            None if stored.refused_image is None else RefusedImage(**_fields(stored.refused_image))
        ),
        display=Display(**_fields(stored.display)),
        plan=record.plan,
        plan_changes=record.changes,
        plan_basis=record.basis,
        plan_measured=record.measured,
        plan_refusal=record.refusal,
    )


def render_status(status: JobStatus) -> Json:
    """Return the status as it is stored."""
    return slim({
        "observedGeneration": status.observed_generation,
        "state": status.state,
        "display": slim({
            "ready": status.display.ready[:LONGEST_TEXT],
            "gpu": status.display.gpu[:LONGEST_TEXT],
            "spot": status.display.spot[:LONGEST_TEXT],
            "progress": status.display.progress[:LONGEST_TEXT],
            "plan": status.display.plan[:LONGEST_TEXT],
        }),
        "conditions": [_render_condition(condition) for condition in status.conditions],
        "firstStartTime": _whole_seconds(status.first_start),
        "startTime": _whole_seconds(status.start),
        "completionTime": _whole_seconds(status.completion),
        "generation": {"number": status.generation, "members": status.members},
        "replicas": {
            "desired": status.replicas.desired,
            "ready": status.replicas.ready,
            "spot": status.replicas.spot,
            "onDemand": status.replicas.on_demand,
            "spares": status.replicas.spares,
        },
        "replicaStatuses": {
            role: {
                "active": counts.active,
                "ready": counts.ready,
                "succeeded": counts.succeeded,
                "failed": counts.failed,
            }
            for role, counts in status.replica_statuses.items()
        },
        "selector": status.selector,
        "attempts": {
            key: _render_attempts(found)
            for key, found in status.attempts.items()
        },
        "progress": _render_progress(status.progress),
        "cost": _render_cost(status.cost),
        "counters": {
            "revocations": status.counters.revocations,
            "failures": status.counters.failures,
            "restarts": status.counters.restarts,
            "stepsLost": status.counters.steps_lost,
        },
        "lastFailure": _render_last_failure(status.last_failure),
        "refusedImage": _render_refused_image(status.refused_image),
        "plan": render_record(status.record),
    })  # fmt: skip


def _progress(stored: ProgressStatus) -> Progress:
    return Progress(
        step=stored.step,
        steps=stored.steps,
        steps_per_second=stored.steps_per_second,
        predicted_steps_per_second=stored.predicted_steps_per_second,
        percentage=stored.percentage,
        estimated_remaining_seconds=stored.estimated_remaining_seconds,
        last_checkpoint_step=stored.last_checkpoint_step,
        last_checkpoint_time=stored.last_checkpoint_time,
        updated=stored.last_updated_time,
    )


def _cost(stored: CostStatus) -> Cost:
    return Cost(
        spent_usd=as_decimal(stored.spent_usd),
        settled_usd=as_decimal(stored.settled_usd),
        nodes=tuple(
            NodeCharge(
                node=charge.node,
                uid=charge.uid,
                pool=charge.pool,
                usd_per_hour=as_decimal(charge.usd_per_hour),
                since=charge.since,
            )
            for charge in stored.nodes
        ),
    )


def _attempts(stored: AttemptsStatus) -> Attempts:
    return Attempts(
        last=stored.last,
        judged=stored.judged,
        retired=tuple(stored.retired),
        tried=tuple(stored.tried),
        lost=stored.lost,
        stumbles=stored.stumbles,
        ended=stored.ended,
        failed=stored.failed,
        followed=stored.followed,
        done=stored.done,
    )


def _render_attempts(attempts: Attempts) -> Json:
    return slim({
        "last": attempts.last,
        "judged": attempts.judged,
        "retired": list(attempts.retired),
        "tried": list(attempts.tried),
        "lost": attempts.lost or None,
        "stumbles": attempts.stumbles or None,
        "ended": _exact(attempts.ended),
        "failed": attempts.failed or None,
        "followed": attempts.followed or None,
        "done": attempts.done or None,
    })  # fmt: skip


def _render_condition(condition: Condition) -> Json:
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message[:LONGEST_MESSAGE],
        "observedGeneration": condition.observed_generation,
        "lastTransitionTime": _whole_seconds(condition.last_transition),
    }


def _render_progress(progress: Progress) -> Json:
    return slim({
        "step": progress.step,
        "steps": progress.steps,
        "stepsPerSecond": render_rate(progress.steps_per_second),
        "predictedStepsPerSecond": (
            None
            if progress.predicted_steps_per_second is None
            else render_rate(progress.predicted_steps_per_second)
        ),
        "percentage": progress.percentage,
        "estimatedRemainingSeconds": progress.estimated_remaining_seconds,
        "lastCheckpointStep": progress.last_checkpoint_step,
        "lastCheckpointTime": _whole_seconds(progress.last_checkpoint_time),
        "lastUpdatedTime": _exact(progress.updated),
    })  # fmt: skip


def _render_cost(cost: Cost) -> Json:
    return slim({
        "spentUsd": render_usd(cost.spent_usd),
        "settledUsd": render_usd(cost.settled_usd, MICRO),
        "nodes": [
            {
                "node": charge.node,
                "uid": charge.uid,
                "pool": charge.pool,
                "usdPerHour": render_usd(charge.usd_per_hour, MICRO),
                "since": render_time(charge.since),
            }
            for charge in cost.nodes
        ],
    })  # fmt: skip


def _render_last_failure(failure: LastFailure | None) -> Json | None:
    if failure is None:
        return None
    return slim({
        "generation": failure.generation,
        "time": render_time(failure.time),
        "message": failure.message[:LONGEST_MESSAGE],
    })  # fmt: skip


def _render_refused_image(refused: RefusedImage | None) -> Json | None:
    if refused is None:
        return None
    return slim({
        "image": refused.image,
        "since": render_time(refused.since),
        "message": refused.message[:LONGEST_MESSAGE],
    })  # fmt: skip


def _fields(model: Schema) -> Json:
    return {name: getattr(model, name) for name in type(model).model_fields}


def _whole_seconds(moment: datetime | None) -> str | None:
    return None if moment is None else render_second(moment)


def _exact(moment: datetime | None) -> str | None:
    return None if moment is None else render_time(moment)
