"""
The plan in the status of a TrainingJob, and the value of the core, both ways.

Money is cut to cents, times that users read and the checkpoint interval to whole seconds. What is
said of plans that lost is bounded, so that the object stays small.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from ebbtide.api.fields import (
    Count,
    LabelValue,
    Moment,
    Money,
    Rate,
    Ratio,
    Schema,
    Short,
    as_decimal,
)
from ebbtide.api.texts import Json, render_rate, render_second, render_time, render_usd, slim
from ebbtide.core.values.plan import (
    Alternative,
    Infeasible,
    Measured,
    Plan,
    PlanRecord,
    Predicted,
    Refusal,
    Share,
)

MOST_POOLS: Final = 256
MOST_POOLS_OF_LOSER: Final = 32
MOST_ALTERNATIVES: Final = 5
MOST_ASSUMPTIONS: Final = 16
MOST_CHANGES: Final = 64
MOST_TYPES: Final = 64
LONGEST_SENTENCE: Final = 1024

Sentence = Annotated[str, StringConstraints(max_length=LONGEST_SENTENCE)]


class ShareStatus(Schema):
    """Workers of one pool."""

    name: LabelValue = Field(description="Name of the pool.")
    replicas: Count = Field(description="Workers there.")
    batch_share: Ratio = Field(description="Their part of the global batch, all together.")


class PredictedStatus(Schema):
    """What is expected of a plan."""

    finish_time: Moment = Field(description="When the work is done, as likely before as after.")
    finish_time_late: Moment = Field(
        description="When it is done at the latest, in nine cases of ten."
    )
    cost_usd: Money = Field(
        description="US dollars for the whole job, what is spent included, as likely less as more."
    )
    cost_high_usd: Money = Field(description="US dollars at the most, in nine cases of ten.")
    deadline_probability: Ratio | None = Field(
        default=None, description="How likely the deadline is met; absent without one."
    )
    steps_per_second: Rate = Field(description="Speed while all workers train.")


class AlternativeStatus(Schema):
    """A plan that lost."""

    pools: Annotated[list[ShareStatus], Field(max_length=MOST_POOLS_OF_LOSER)] = Field(
        default_factory=list, description="Workers by pool."
    )
    servers: Count = Field(default=0, description="Parameter servers.")
    predicted: PredictedStatus = Field(description="What would be expected of it.")
    why: Sentence = Field(default="", description="Why it lost.")


class MeasuredStatus(Schema):
    """How fast a fleet was seen to train."""

    workers: Annotated[dict[LabelValue, Count], Field(max_length=MOST_TYPES)] = Field(
        default_factory=dict, description="Workers by kind of GPU."
    )
    servers: Count = Field(default=0, description="Parameter servers.")
    steps_per_second: Rate = Field(default=0.0, description="Speed that was measured.")


class RefusalStatus(Schema):
    """That no plan meets the goal."""

    reason: Sentence = Field(default="", description="Why, and what would be right.")
    nearest_deadline: Moment | None = Field(
        default=None, description="The earliest that can be met within the budget."
    )
    nearest_budget_usd: Money | None = Field(
        default=None, description="The least, in US dollars, that meets the deadline."
    )
    made_at: Moment = Field(description="When this was found.")


class PlanStatus(Schema):
    """What is wanted to run now, what is expected of it, and what it was chosen over."""

    pools: Annotated[list[ShareStatus], Field(max_length=MOST_POOLS)] = Field(
        default_factory=list, description="Workers by pool, the cheapest first."
    )
    servers: Count = Field(default=0, description="Parameter servers.")
    spares: Count = Field(default=0, description="Warm workers beyond those that train.")
    spare_pool: LabelValue = Field(default="", description="The pool that the spares are in.")
    on_demand_floor: Count = Field(
        default=0, description="Workers that are kept on on-demand nodes."
    )
    checkpoint_interval_seconds: Count | None = Field(
        default=None, description="Seconds between two checkpoints."
    )
    predicted: PredictedStatus | None = Field(default=None, description="What is expected.")
    reason: Sentence = Field(default="", description="Why this plan, in a sentence.")
    awaited: Annotated[list[ShareStatus], Field(max_length=MOST_POOLS_OF_LOSER)] = Field(
        default_factory=list,
        description="Workers by pool that would be better, where a pool gives no node now.",
    )
    alternatives: Annotated[list[AlternativeStatus], Field(max_length=MOST_ALTERNATIVES)] = Field(
        default_factory=list, description="The best plans that lost, the best first."
    )
    assumptions: Annotated[list[Sentence], Field(max_length=MOST_ASSUMPTIONS)] = Field(
        default_factory=list,
        description="What was taken for granted, and how sure each model is.",
    )
    made_at: Moment | None = Field(
        default=None, description="When the plan was made; absent where there is none now."
    )
    changed_at: Annotated[list[Moment], Field(max_length=MOST_CHANGES)] = Field(
        default_factory=list, description="When the plan was changed within the last hour."
    )
    basis: Short = Field(
        default="", description="Tells whether something changed that a plan must answer at once."
    )
    measured: MeasuredStatus | None = Field(
        default=None, description="What the plan knew of the speed."
    )
    refusal: RefusalStatus | None = Field(
        default=None, description="Why there is no plan, where no plan meets the goal."
    )


def parse_record(stored: PlanStatus | None) -> PlanRecord:
    """Return a stored plan with what it rests on."""
    if stored is None:
        return PlanRecord()
    measured = stored.measured
    return PlanRecord(
        plan=_plan(stored),
        basis=stored.basis,
        changes=tuple(stored.changed_at),
        measured=(
            None
            if measured is None
            else Measured(
                workers=dict(measured.workers),
                servers=measured.servers,
                steps_per_second=measured.steps_per_second,
            )
        ),
        refusal=None if stored.refusal is None else _refusal(stored.refusal),
    )


def render_record(record: PlanRecord) -> Json:
    """Return a plan as it is stored; what it rests on stays when the plan goes."""
    measured = record.measured
    return slim({
        **(_render_plan(record.plan) if record.plan is not None else {}),
        "basis": record.basis,
        "changedAt": [render_time(moment) for moment in sorted(record.changes)[-MOST_CHANGES:]],
        "measured": (
            None
            if measured is None
            else {
                "workers": dict(measured.workers),
                "servers": measured.servers,
                "stepsPerSecond": render_rate(measured.steps_per_second),
            }
        ),
        "refusal": None if record.refusal is None else _render_refusal(record.refusal),
    })  # fmt: skip


def _refusal(stored: RefusalStatus) -> Refusal:
    budget = stored.nearest_budget_usd
    return Refusal(
        why=Infeasible(
            reason=stored.reason,
            nearest_deadline=stored.nearest_deadline,
            nearest_budget_usd=None if budget is None else as_decimal(budget),
        ),
        made_at=stored.made_at,
    )


def _render_refusal(refusal: Refusal) -> Json:
    deadline, budget = refusal.why.nearest_deadline, refusal.why.nearest_budget_usd
    return slim({
        "reason": refusal.why.reason[:LONGEST_SENTENCE],
        "nearestDeadline": None if deadline is None else render_time(deadline),
        "nearestBudgetUsd": None if budget is None else render_usd(budget),
        "madeAt": render_time(refusal.made_at),
    })  # fmt: skip


def _plan(stored: PlanStatus) -> Plan | None:
    """Return a plan; None where what is stored is no whole one."""
    if stored.made_at is None or stored.predicted is None:
        return None
    return Plan(
        shares=_shares(stored.pools),
        servers=stored.servers,
        spares=stored.spares,
        spare_pool=stored.spare_pool,
        on_demand_floor=stored.on_demand_floor,
        checkpoint_interval=timedelta(seconds=stored.checkpoint_interval_seconds or 1),
        predicted=_predicted(stored.predicted),
        reason=stored.reason,
        awaited=_shares(stored.awaited),
        alternatives=tuple(_alternative(loser) for loser in stored.alternatives),
        assumptions=tuple(stored.assumptions),
        made_at=stored.made_at,
    )


def _render_plan(plan: Plan) -> Json:
    return slim({
        "pools": _render_shares(plan.shares[:MOST_POOLS]),
        "servers": plan.servers,
        "spares": plan.spares,
        "sparePool": plan.spare_pool or None,
        "onDemandFloor": plan.on_demand_floor,
        "checkpointIntervalSeconds": max(1, round(plan.checkpoint_interval.total_seconds())),
        "predicted": _render_predicted(plan.predicted),
        "reason": plan.reason[:LONGEST_SENTENCE],
        "awaited": _render_shares(plan.awaited[:MOST_POOLS_OF_LOSER]),
        "alternatives": [
            _render_alternative(loser) for loser in plan.alternatives[:MOST_ALTERNATIVES]
        ],
        "assumptions": [text[:LONGEST_SENTENCE] for text in plan.assumptions[:MOST_ASSUMPTIONS]],
        "madeAt": render_time(plan.made_at),
    })  # fmt: skip


def _shares(stored: Iterable[ShareStatus]) -> tuple[Share, ...]:
    return tuple(
        Share(pool=share.name, replicas=share.replicas, batch_share=share.batch_share)
        for share in stored
    )


def _predicted(stored: PredictedStatus) -> Predicted:
    return Predicted(
        finish=stored.finish_time,
        finish_late=stored.finish_time_late,
        cost_usd=as_decimal(stored.cost_usd),
        cost_high_usd=as_decimal(stored.cost_high_usd),
        deadline_probability=stored.deadline_probability,
        steps_per_second=stored.steps_per_second,
    )


def _alternative(stored: AlternativeStatus) -> Alternative:
    return Alternative(
        shares=_shares(stored.pools),
        servers=stored.servers,
        predicted=_predicted(stored.predicted),
        why=stored.why,
    )


def _render_shares(shares: Iterable[Share]) -> list[Json]:
    return [
        {"name": share.pool, "replicas": share.replicas, "batchShare": _ratio(share.batch_share)}
        for share in shares
    ]


def _render_predicted(predicted: Predicted) -> Json:
    chance = predicted.deadline_probability
    return slim({
        "finishTime": render_second(predicted.finish),
        "finishTimeLate": render_second(predicted.finish_late),
        "costUsd": render_usd(predicted.cost_usd),
        "costHighUsd": render_usd(predicted.cost_high_usd),
        "deadlineProbability": None if chance is None else _ratio(chance),
        "stepsPerSecond": render_rate(predicted.steps_per_second),
    })  # fmt: skip


def _render_alternative(loser: Alternative) -> Json:
    return slim({
        "pools": _render_shares(loser.shares[:MOST_POOLS_OF_LOSER]),
        "servers": loser.servers,
        "predicted": _render_predicted(loser.predicted),
        "why": loser.why[:LONGEST_SENTENCE],
    })  # fmt: skip


def _ratio(value: float) -> float:
    """Return a share or a probability as one, whatever rounding made of it."""
    return min(render_rate(value), 1.0)
