"""The front of cost and time."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise
from random import Random

import pytest

from ebbtide.core.planner.outlook import look_ahead
from ebbtide.core.planner.pareto import pareto
from ebbtide.core.planner.planning import plan
from ebbtide.core.values.objective import Minimize
from support.all_fleets import draw_question, field_of, list_fleets
from support.questions import NOW, ask, planned, pool_of, speed_of, workers_of

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


@pytest.mark.parametrize("servers", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_no_fleet_of_all_is_missing(seed: int, *, servers: bool) -> None:
    question = draw_question(Random(seed), servers=servers)
    field = field_of(question)
    looks = [] if field is None else [look_ahead(field, one) for one in list_fleets(field)]
    best: list[float] = []
    ends: list[float] = []
    for look in sorted(looks, key=lambda one: (one.hours, one.usd)):
        if not best or look.usd < best[-1] * (1 - 1e-9):
            best.append(look.usd)
            ends.append(look.hours)

    front = pareto(question, NOW)

    assert len(front) == len(best)
    for plan_, usd, hours in zip(front, best, ends, strict=True):
        assert float(plan_.predicted.cost_usd) == pytest.approx(usd, abs=0.006)
        assert (plan_.predicted.finish - NOW).total_seconds() == pytest.approx(hours * 3600, abs=1)


def test_a_long_front_is_listed_speed_by_speed() -> None:
    pools = [pool_of(f"p{place}", 1.0 + 0.13 * place, nodes=40) for place in range(8)]
    question = ask(*pools, sizes=tuple(range(1, 200)), speed=speed_of({"V100": 400.0}))

    front = pareto(question, NOW)

    assert 40 < len(front) < 160  # of 160 sizes that are on it


def test_spares_are_in_the_front_as_they_are_in_plans() -> None:
    question = replace(QUESTION, spares=2, sizes=tuple(range(1, 9)))

    front = pareto(question, NOW)

    chosen = planned(plan(question, NOW))
    assert {one.spares for one in front} == {2}
    same = next(one for one in front if workers_of(one) == workers_of(chosen))
    assert same.predicted == chosen.predicted
