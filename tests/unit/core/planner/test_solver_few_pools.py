"""At most so many pools in a plan: as good as HiGHS with a yes or no for every pool."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from ebbtide.core.planner.solver import few
from ebbtide.core.planner.solver.answer import Answer, Infeasible
from ebbtide.core.planner.solver.checking import find_breaches
from ebbtide.core.planner.solver.question import (
    CheapestAt,
    FastestFor,
    Fleet,
    Goal,
    LeastTotal,
    Question,
    QuestionError,
)
from ebbtide.core.planner.solver.solving import solve
from solver.families import draw
from support.fleets import expect, make_fleet, value_of


def best_of_few(question: Question, most: int) -> float | None:
    """Ask HiGHS: x_i <= most_i y_i, and so many y at most."""
    pools, goal = question.fleet.pools, question.goal
    num = len(pools)
    usd = np.array([pool.usd_per_hour for pool in pools])
    rate = np.array([pool.rate for pool in pools])
    limit = np.array([float(pool.most) for pool in pools])
    nothing, ones = np.zeros(num), np.ones(num)
    rows = [
        LinearConstraint(np.hstack([np.eye(num), -np.diag(limit)]), -np.inf, 0),
        LinearConstraint(np.concatenate([nothing, ones]), 1, most),
        LinearConstraint(
            np.concatenate([ones, nothing]), 1, question.fleet.most_nodes or limit.sum()
        ),
    ]
    if isinstance(goal, CheapestAt):
        cost = usd
        rows.append(LinearConstraint(np.concatenate([rate, nothing]), goal.rate, np.inf))
    else:
        assert isinstance(goal, FastestFor)
        cost = -rate
        rows.append(LinearConstraint(np.concatenate([usd, nothing]), 0, goal.usd_per_hour))
    found = milp(
        np.concatenate([cost, nothing]),
        constraints=rows,
        bounds=Bounds(0, np.concatenate([limit, ones])),
        integrality=np.ones(2 * num),
        options={"mip_rel_gap": 0.0},
    )
    return None if found.x is None else abs(float(found.fun))


@pytest.mark.parametrize("kind", ["plain cost", "plain rate"])
@pytest.mark.parametrize("family", ["cloud", "uniform", "shapes"])
@pytest.mark.parametrize("most", [1, 2, 3])
def test_highs_finds_no_better_plan_of_as_few_pools(family: str, kind: str, most: int) -> None:
    answered = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        question = draw(rng, family=family, kind=kind, num=10, cap=30, share=0.2)
        best = best_of_few(question, most)

        outcome = solve(replace(question, fleet=replace(question.fleet, most_pools=most)))

        if best is None:
            assert isinstance(outcome, Infeasible)
            continue
        answer = expect(outcome)
        assert answer.proven
        assert len(answer.counts) <= most
        assert value_of(question, answer) == pytest.approx(best, rel=1e-6)
        answered += 1
    assert answered


FLEET = make_fleet((1.0, 1.0, 3), (2.1, 2.0, 2), (4.5, 4.0, 1))


@pytest.mark.parametrize(
    ("most", "counts"),
    [
        pytest.param(3, {"a": 3, "b": 2, "c": 1}, id="all are needed"),
        pytest.param(2, None, id="two give 8 at most"),
    ],
)
def test_few_pools_may_not_do(most: int, counts: dict[str, int] | None) -> None:
    outcome = solve(Question(replace(FLEET, most_pools=most), CheapestAt(11.0)))

    if counts is None:
        assert outcome == Infeasible("no plan of at most 2 pools meets the limits", None)
    else:
        assert expect(outcome).counts == counts


@pytest.mark.parametrize("goal", [CheapestAt(6.0), LeastTotal(6.0)], ids=str)
def test_fewer_pools_cost_more_and_a_limit_that_does_not_bind_nothing(goal: Goal) -> None:
    free = expect(solve(Question(FLEET, goal)))
    costs = [
        expect(solve(Question(replace(FLEET, most_pools=most), goal))).cost_over_rate
        for most in (2, 3)
    ]

    assert costs == sorted(costs, reverse=True)
    assert costs[-1] == free.cost_over_rate


def test_what_is_left_open_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    question = draw(rng, family="cloud", kind="plain cost", num=20, cap=20, share=0.25)
    limited = replace(question, fleet=replace(question.fleet, most_pools=2))
    best = expect(solve(limited))
    proofs = set()
    for asked in range(1, 60):
        monkeypatch.setattr(few, "QUESTIONS", asked)
        outcome = solve(limited)
        if isinstance(outcome, Answer):
            assert outcome.bound <= best.cost * (1 + 1e-9)
            assert math.isfinite(outcome.bound)
            assert (outcome.gap > 0) != outcome.proven
            proofs.add(outcome.proven)
        else:
            assert "tries" in outcome.reason

    assert False in proofs


def test_the_limit_is_checked() -> None:
    with pytest.raises(QuestionError, match="at most 0 pools; 1 or more is right"):
        Fleet(pools=FLEET.pools, most_pools=0)

    question = Question(replace(FLEET, most_pools=1), CheapestAt(1.0))
    assert find_breaches(question, {"a": 1, "b": 1}, 0) == ("nodes of 2 pools, more than 1",)
