"""When a goal is said to be at risk, and when it is said to be in reach again."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.lifecycle.conditions import Claim
from ebbtide.core.step.forecast import SAFE_CHANCE, SAFE_SHARE, Goal, judge_forecast
from ebbtide.core.values import reasons
from ebbtide.core.values.plan import Plan
from support.builders import at
from support.plans import PLAN

DUE = at(3600)
DEADLINE = Goal(due=DUE)
BUDGET = Goal(budget_usd=Decimal("100.00"))


def by_chance(chance: float) -> Plan:
    """Return a plan whose end is the earlier the likelier the deadline is kept."""
    early = timedelta(seconds=3600 * (chance - 0.5))
    said = replace(PLAN.predicted, finish=DUE - early, deadline_probability=chance)
    return replace(PLAN, predicted=said)


def by_cost(usd: float) -> Plan:
    return replace(PLAN, predicted=replace(PLAN.predicted, cost_usd=Decimal(f"{usd:.2f}")))


def told(plans: list[Plan], goal: Goal) -> list[Claim]:
    """Judge one plan after another, each in the light of what was said before."""
    found: list[Claim] = []
    before = ""
    for plan in plans:
        found.append(judge_forecast(plan, goal, risk_before=before))
        before = found[-1].reason if found[-1].status == "True" else ""
    return found


def turns(claims: list[Claim]) -> list[int]:
    return [n for n, (one, two) in enumerate(pairwise(claims), 1) if one.status != two.status]


def test_even_odds_are_the_edge_and_better_ones_the_way_back() -> None:
    chances = [0.7, 0.51, 0.49, 0.51, 0.64, 0.66, 0.51]

    claims = told([by_chance(chance) for chance in chances], DEADLINE)

    assert [claim.status for claim in claims] == [
        *("False", "False", "True", "True", "True", "False", "False")
    ]
    assert "or a later deadline" in claims[2].message
    assert f"kept 51% of the time: at risk until that is {SAFE_CHANCE:.0%}" in claims[3].message


def test_a_budget_is_in_reach_again_with_a_little_to_spare() -> None:
    claims = told([by_cost(usd) for usd in (99, 101, 99, 97.5, 96.9, 99)], BUDGET)

    assert [claim.status for claim in claims] == ["False", "True", "True", "True", "False", "False"]
    assert claims[1].reason == claims[2].reason == reasons.BUDGET_AT_RISK
    assert "at risk until that is 97.00" in claims[2].message


def test_a_risk_of_one_kind_does_not_hold_the_other() -> None:
    both = Goal(due=DUE, budget_usd=Decimal("100.00"))
    dear = replace(
        by_chance(0.55), predicted=replace(by_chance(0.55).predicted, cost_usd=Decimal(101))
    )
    cheap = replace(dear, predicted=replace(dear.predicted, cost_usd=Decimal(90)))

    claims = told([dear, cheap], both)

    assert [claim.reason for claim in claims] == [reasons.BUDGET_AT_RISK, reasons.GOAL_IN_REACH]


def test_without_odds_the_expected_end_alone_decides() -> None:
    unsure = by_chance(0.55)
    unsure = replace(unsure, predicted=replace(unsure.predicted, deadline_probability=None))

    assert told([by_chance(0.4), unsure], DEADLINE)[1].status == "False"


@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=40))
def test_between_two_turns_the_odds_have_moved_by_more_than_the_gap(chances: list[float]) -> None:
    claims = told([by_chance(chance) for chance in chances], DEADLINE)

    for one, two in pairwise(turns(claims)):
        assert abs(chances[two] - chances[one]) >= SAFE_CHANCE - 0.5 - 1e-6


@given(
    st.floats(0.0, 1.0),
    st.lists(st.floats(-0.07, 0.07), min_size=2, max_size=40),
)
def test_a_forecast_that_wavers_turns_once_at_most(around: float, noise: list[float]) -> None:
    plans = [by_chance(min(max(around + one, 0.0), 1.0)) for one in noise]

    assert len(turns(told(plans, DEADLINE))) <= 1


@given(st.floats(50.0, 150.0), st.lists(st.floats(-1.4, 1.4), min_size=2, max_size=40))
def test_a_cost_that_wavers_turns_once_at_most(around: float, noise: list[float]) -> None:
    plans = [by_cost(around + one) for one in noise]

    assert len(turns(told(plans, BUDGET))) <= 1


@pytest.mark.parametrize("goal", [DEADLINE, BUDGET], ids=["deadline", "budget"])
def test_what_is_well_within_is_never_at_risk(goal: Goal) -> None:
    plan = replace(
        by_chance(0.9), predicted=replace(by_chance(0.9).predicted, cost_usd=Decimal(50))
    )

    for before in ("", reasons.DEADLINE_AT_RISK, reasons.BUDGET_AT_RISK):
        assert judge_forecast(plan, goal, risk_before=before).status == "False"
    assert 0 < SAFE_SHARE < 1
