"""The front of cost and time."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise

from ebbtide.core.planner.pareto import pareto
from ebbtide.core.planner.planning import plan
from ebbtide.core.values.objective import Minimize
from support.questions import NOW, ask, planned, pool_of, speed_of

SHRINKING = speed_of(efficiency=tuple(1 / (1 + 0.05 * others) for others in range(16)))
QUESTION = ask(pool_of("spot", 1.0, spot=True, nodes=4), pool_of("demand", 3.0), speed=SHRINKING)


def test_none_is_both_cheaper_and_earlier_than_another() -> None:
    front = pareto(QUESTION, NOW)

    assert len(front) > 4
    for earlier, later in pairwise(front):
        assert earlier.predicted.finish < later.predicted.finish
        assert earlier.predicted.cost_usd >= later.predicted.cost_usd


def test_its_ends_are_the_plans_of_least_time_and_least_cost() -> None:
    front = pareto(QUESTION, NOW)

    fastest = planned(plan(replace(QUESTION, minimize=Minimize.TIME), NOW))
    cheapest = planned(plan(QUESTION, NOW))
    assert front[0].predicted == fastest.predicted
    assert front[-1].predicted == cheapest.predicted


def test_deadline_and_budget_are_left_aside() -> None:
    tight = replace(QUESTION, due=NOW + timedelta(hours=1), budget_left_usd=Decimal("0.10"))

    front = pareto(tight, NOW)

    assert [one.shares for one in front] == [one.shares for one in pareto(QUESTION, NOW)]
    chances = [one.predicted.deadline_probability for one in front]
    assert chances[0] == 1.0
    assert chances[-1] == 0.0


def test_there_is_none_where_nothing_can_be_planned() -> None:
    assert pareto(ask(), NOW) == ()
    assert pareto(ask(pool_of("d", 1.0, per_node=2), sizes=(5, 17)), NOW) != ()
