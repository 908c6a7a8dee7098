"""
Whether the goal of a job that runs is forecast to be missed.

It takes more to get out of danger than to get into it: a forecast that wavers about the edge from
plan to plan is no news, and nobody is to be called twice for it.
"""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from ebbtide.core.lifecycle.conditions import Claim, no, yes
from ebbtide.core.values import reasons
from ebbtide.core.values.plan import Plan, Predicted

SAFE_CHANCE: Final = 0.65
"""A deadline is at risk from even odds down, and in reach again from so good odds up."""
SAFE_SHARE: Final = Decimal("0.97")
"""A budget is at risk above all of it, and in reach again at so much of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What is to be kept; at least one of both."""

    due: datetime | None = None
    budget_usd: Decimal | None = None


def judge_forecast(plan: Plan, goal: Goal, *, risk_before: str) -> Claim:
    """Say whether a plan keeps the goal; `risk_before` is the reason why it was at risk, if any."""
    said = plan.predicted
    for risk in (
        _judge_deadline(said, goal.due, risk_before),
        _judge_budget(said, goal.budget_usd, risk_before),
    ):
        if risk is not None:
            return risk
    return no(reasons.GOAL_IN_REACH, "; ".join(_describe(said, goal)))


def _judge_deadline(said: Predicted, due: datetime | None, risk_before: str) -> Claim | None:
    if due is None:
        return None
    if said.finish > due:
        late = f"done at {said.finish:%H:%M:%S} where {due:%H:%M:%S} is the deadline"
        text = f"{late}: allow more workers or faster pools, or a later deadline"
        return yes(reasons.DEADLINE_AT_RISK, text)
    chance = said.deadline_probability
    was_at_risk = risk_before == reasons.DEADLINE_AT_RISK
    if was_at_risk and chance is not None and chance < SAFE_CHANCE:
        text = f"{_describe_deadline(said, due)}: at risk until that is {SAFE_CHANCE:.0%}"
        return yes(reasons.DEADLINE_AT_RISK, text)
    return None


def _judge_budget(said: Predicted, budget: Decimal | None, risk_before: str) -> Claim | None:
    if budget is None:
        return None
    if said.cost_usd > budget:
        text = f"{said.cost_usd} USD are expected, the budget is {budget} USD: raise it, or let the"
        return yes(reasons.BUDGET_AT_RISK, f"{text} job take longer or use cheaper pools")
    safe = budget * SAFE_SHARE
    if risk_before == reasons.BUDGET_AT_RISK and said.cost_usd > safe:
        text = f"{said.cost_usd} of {budget} USD are expected: at risk until that is {safe:.2f}"
        return yes(reasons.BUDGET_AT_RISK, text)
    return None


def _describe(said: Predicted, goal: Goal) -> list[str]:
    parts = []
    if goal.due is not None:
        parts.append(_describe_deadline(said, goal.due))
    if goal.budget_usd is not None:
        parts.append(f"{said.cost_usd} of {goal.budget_usd} USD")
    return parts


def _describe_deadline(said: Predicted, due: datetime) -> str:
    chance = said.deadline_probability
    odds = "" if chance is None else f", kept {chance:.0%} of the time"
    return f"done at {said.finish:%H:%M:%S}, the deadline is {due:%H:%M:%S}{odds}"
