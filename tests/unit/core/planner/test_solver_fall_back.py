"""Another solver is asked where the list would be too long, and never believed unchecked."""

import math
from typing import Any

import numpy as np
import pytest

from ebbtide.core.planner.solver import solving
from ebbtide.core.planner.solver.answer import Answer, Method
from ebbtide.core.planner.solver.checking import find_breaches
from ebbtide.core.planner.solver.cover import Cover
from ebbtide.core.planner.solver.goals import Pick
from ebbtide.core.planner.solver.highs import ask_highs, read
from ebbtide.core.planner.solver.question import (
    CheapestAt,
    FastestFor,
    FastestWithin,
    Fleet,
    Goal,
    LeastTotal,
    PoolOffer,
    Question,
    Servers,
)
from ebbtide.core.planner.solver.search import Limits, Other
from ebbtide.core.planner.solver.solving import BrokenPlanError, solve
from support.fleets import expect, value_of

NO_CUTS = Limits(cuts=-1, states=0.0, seconds=5.0)
"""The fall-back is asked at once."""


def draw_fleet(*, seed: int = 3, **more: Any) -> Fleet:
    rng = np.random.default_rng(seed)
    prices, rates = rng.uniform(0.5, 10, 12), rng.uniform(0.5, 10, 12)
    pools = [
        PoolOffer(f"p{place:02d}", float(prices[place]), float(rates[place]), 9, place % 3 == 0)
        for place in range(12)
    ]
    return Fleet(pools=tuple(pools), **more)


FLEET = draw_fleet(most_nodes=17)
GOAL = CheapestAt(61.7)


def ask_with(other: Other, goal: Goal = GOAL) -> Answer:
    def fall_back(cover: Cover, *, seconds: float) -> Other:
        return other

    return expect(solve(Question(FLEET, goal), limits=NO_CUTS, fall_back=fall_back))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(Other(None, -math.inf), id="time is up and there is no plan"),
        pytest.param(Other(np.full(13, 5.0), -math.inf), id="a plan that breaks a limit"),
        pytest.param(Other(np.full(13, 5.0), 0.1), id="said to be the best, and breaks a limit"),
        pytest.param(Other(np.full(13, np.nan), -math.inf), id="numbers that are none"),
        pytest.param(Other(np.full(13, 0.5), -math.inf), id="halves"),
    ],
)
def test_b094_what_another_solver_says_is_checked_and_the_own_plan_is_legal(other: Other) -> None:
    answer = ask_with(other)

    assert not find_breaches(Question(FLEET, GOAL), answer.counts, answer.servers)
    assert not answer.proven
    assert answer.method is Method.HIGHS
    assert answer.gap > 0
    assert answer.bound < answer.cost


@pytest.mark.parametrize(
    ("status", "x", "dual_bound", "expected"),
    [
        pytest.param(0, [1.0, 2.0], 3.0, ([1.0, 2.0], 6.0), id="optimal"),
        pytest.param(0, [1.0000001, 2.0], 3.0, ([1.0, 2.0], 6.0), id="nearly whole"),
        pytest.param(1, [1.0, 2.0], 2.5, ([1.0, 2.0], 5.0), id="time is up, with a plan"),
        pytest.param(1, None, 2.5, (None, 5.0), id="time is up, without"),
        pytest.param(2, [9.0, 9.0], 9.0, (None, math.inf), id="infeasible, with numbers"),
        pytest.param(3, None, None, (None, -math.inf), id="unbounded"),
        pytest.param(4, [math.nan, 0.0], math.nan, (None, -math.inf), id="it failed"),
    ],
)
def test_b094_each_status_is_read_as_what_it_is(
    status: int, x: list[float] | None, dual_bound: float | None, expected: tuple[Any, float]
) -> None:
    found = read(status, None if x is None else np.array(x), dual_bound, unit=2.0)

    assert (None if found.plan is None else found.plan.tolist(), found.bound) == expected


@pytest.mark.parametrize(
    ("fleet", "goal"),
    [
        pytest.param(FLEET, GOAL, id="cost"),
        pytest.param(FLEET, FastestFor(40.0), id="rate"),
        pytest.param(FLEET, LeastTotal(61.7), id="total"),
        pytest.param(FLEET, FastestWithin(0.7), id="within"),
        pytest.param(draw_fleet(most_nodes=17, on_demand_floor=5), GOAL, id="floor"),
        pytest.param(draw_fleet(sizes=(4, 8, 16)), GOAL, id="legal sizes"),
        pytest.param(
            draw_fleet(servers=Servers(0.5, 12.0, 9)), LeastTotal(30.0), id="total with servers"
        ),
        pytest.param(
            draw_fleet(servers=Servers(0.5, 12.0, 9)), FastestWithin(0.7), id="within, with servers"
        ),
    ],
)
def test_highs_and_the_list_agree(fleet: Fleet, goal: Goal) -> None:
    question = Question(fleet, goal)

    by_highs = expect(solve(question, limits=NO_CUTS, fall_back=ask_highs))
    by_list = expect(solve(question))

    assert by_list.method is Method.LIST
    assert by_list.proven
    assert value_of(question, by_highs) == pytest.approx(value_of(question, by_list), rel=1e-6)


@pytest.mark.parametrize(
    "goal", [GOAL, FastestFor(40.0), LeastTotal(61.7), FastestWithin(0.7)], ids=str
)
def test_a_bound_without_proof_is_still_a_bound(goal: Goal) -> None:
    best = expect(solve(Question(FLEET, goal)))

    found = ask_with(Other(None, -math.inf), goal)

    is_least = isinstance(goal, CheapestAt | LeastTotal)
    value, limit = value_of(Question(FLEET, goal), best), found.bound
    assert limit <= value * (1 + 1e-9) if is_least else limit >= value * (1 - 1e-9)


def test_prices_in_proportion_to_rates_are_hard_and_told_so() -> None:
    rates = np.random.default_rng(5).uniform(0.5, 10, 40)
    pools = tuple(
        PoolOffer(f"p{place:02d}", 0.5 * float(rate), float(rate), 9)
        for place, rate in enumerate(rates)
    )
    question = Question(Fleet(pools=pools, most_nodes=23), CheapestAt(101.3))

    def give_up(cover: Cover, *, seconds: float) -> Other:
        return Other(None, -math.inf)

    answer = expect(solve(question, limits=Limits(cuts=3), fall_back=give_up))

    # Half of the rate would be the least: the best of a few pools comes within a thousandth.
    assert answer.bound <= answer.cost
    assert answer.cost == pytest.approx(0.5 * 101.3, rel=1e-3)


def test_b094_a_broken_plan_of_our_own_is_never_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_it(question: Question, ground: Any) -> Pick:
        return Pick(np.zeros(len(ground.kinds.cost)), 0, 0.0)

    monkeypatch.setattr(solving, "_pick", break_it)

    with pytest.raises(BrokenPlanError, match="no node at all; a rate of 0, below"):
        solve(Question(FLEET, GOAL))
