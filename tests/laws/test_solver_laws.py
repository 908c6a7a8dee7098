"""Whatever the fleet and the goal: the best plan, within all limits, in whatever order told."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.planner.solver.answer import Answer, Infeasible
from ebbtide.core.planner.solver.checking import find_breaches
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
from ebbtide.core.planner.solver.solving import solve
from solver.agreement import ask_both, compare, draw_any
from solver.families import draw
from support.fleets import best_by_force, value_of

SAME = 1e-7
PRICES = st.integers(1, 4_000).map(lambda mills: mills / 1_000)
POOLS = st.tuples(PRICES, PRICES, st.integers(0, 3), st.booleans())
SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    drawn = draw(st.lists(POOLS, min_size=1, max_size=5))
    pools = tuple(PoolOffer(f"p{place}", *values) for place, values in enumerate(drawn))
    loss = draw(st.none() | st.floats(0.0, 0.5))
    return Fleet(
        pools=pools,
        sizes=draw(st.just(()) | st.lists(st.integers(1, 12), min_size=1, max_size=4).map(tuple)),
        most_nodes=draw(st.none() | st.integers(1, 12)),
        on_demand_floor=draw(st.integers(0, 2)),
        servers=draw(st.none() | st.builds(Servers, PRICES, PRICES, st.integers(1, 4))),
        efficiency=()
        if loss is None
        else tuple(1 / (1 + loss * (nodes - 1)) for nodes in range(1, 13)),
    )


GOALS: st.SearchStrategy[Goal] = st.one_of(
    st.builds(CheapestAt, st.floats(0.01, 30)),
    st.builds(FastestFor, st.floats(0.01, 40)),
    st.builds(LeastTotal, st.just(0.0) | st.floats(0.01, 30)),
    st.builds(FastestWithin, st.floats(0.05, 5)),
)


@given(fleet=fleets(), goal=GOALS)
def test_no_plan_of_all_is_better_and_every_limit_is_met(fleet: Fleet, goal: Goal) -> None:
    question = Question(fleet, goal)

    outcome = solve(question)

    best = best_by_force(question)
    if isinstance(outcome, Infeasible):
        assert best is None
        return
    assert best is not None
    assert outcome.proven
    assert abs(value_of(question, outcome) - best) <= SAME * best
    assert not find_breaches(question, outcome.counts, outcome.servers)


@given(fleet=fleets(), goal=GOALS, seed=SEEDS)
def test_order_and_names_of_pools_change_nothing(fleet: Fleet, goal: Goal, seed: int) -> None:
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(fleet.pools))
    names = [f"q{place}" for place in rng.permutation(len(fleet.pools))]
    renamed = tuple(
        replace(fleet.pools[place], name=name) for place, name in zip(order, names, strict=True)
    )

    first = solve(Question(fleet, goal))
    second = solve(Question(replace(fleet, pools=renamed), goal))

    if isinstance(first, Infeasible):
        assert second == first
        return
    assert isinstance(second, Answer)
    assert _by_offer(second, renamed) == _by_offer(first, fleet.pools)
    assert (second.servers, second.bound) == (first.servers, first.bound)


def _by_offer(answer: Answer, pools: tuple[PoolOffer, ...]) -> list[tuple[object, ...]]:
    """What is taken of each kind of pool, names aside."""
    taken = [
        (pool.usd_per_hour, pool.rate, pool.is_on_demand, pool.most, answer.counts[pool.name])
        for pool in pools
        if pool.name in answer.counts
    ]
    return sorted(taken)


@given(fleet=fleets(), goal=GOALS, place=st.integers(0, 4), more=st.integers(1, 3))
def test_more_capacity_is_never_a_worse_plan(
    fleet: Fleet, goal: Goal, place: int, more: int
) -> None:
    place %= len(fleet.pools)
    pools = list(fleet.pools)
    pools[place] = replace(pools[place], most=pools[place].most + more)

    before = solve(Question(fleet, goal))
    after = solve(Question(replace(fleet, pools=tuple(pools)), goal))

    if isinstance(before, Answer):
        assert isinstance(after, Answer)
        question = Question(fleet, goal)
        sign = 1 if isinstance(goal, CheapestAt | LeastTotal) else -1
        gain = sign * (value_of(question, before) - value_of(question, after))
        assert gain >= -SAME * value_of(question, before)


@given(fleet=fleets(), rate=st.floats(0.01, 30), later=st.floats(1.0, 5.0))
def test_a_later_deadline_never_costs_more(fleet: Fleet, rate: float, later: float) -> None:
    for goal in (CheapestAt, LeastTotal):
        early, late = (solve(Question(fleet, goal(asked))) for asked in (rate, rate / later))

        if isinstance(early, Answer):
            assert isinstance(late, Answer)
            question = Question(fleet, goal(rate))
            assert value_of(question, late) <= value_of(question, early) * (1 + SAME)


@given(fleet=fleets(), goal=GOALS, seed=SEEDS)
def test_a_warm_answer_is_as_good_as_a_cold_one(fleet: Fleet, goal: Goal, seed: int) -> None:
    rng = np.random.default_rng(seed)
    changed = tuple(
        replace(pool, most=max(0, pool.most + int(rng.integers(-2, 3)))) for pool in fleet.pools
    )
    before = Question(fleet, goal)
    after = Question(replace(fleet, pools=changed), goal)
    answer = solve(before)
    if isinstance(answer, Infeasible):
        return

    cold, warm = solve(after), solve(after, before=(before, answer))

    assert isinstance(warm, Infeasible) == isinstance(cold, Infeasible)
    if isinstance(warm, Answer) and isinstance(cold, Answer):
        assert abs(value_of(after, warm) - value_of(after, cold)) <= SAME * value_of(after, cold)


@given(fleet=fleets(), goal=GOALS)
def test_the_nearest_goal_of_an_infeasible_one_has_a_plan(fleet: Fleet, goal: Goal) -> None:
    outcome = solve(Question(fleet, goal))

    if isinstance(outcome, Infeasible) and outcome.nearest is not None:
        assert isinstance(solve(Question(fleet, type(goal)(outcome.nearest))), Answer)


def test_highs_finds_nothing_better_in_hundreds_of_questions() -> None:
    # Ten thousand, and larger ones, in the bench.
    rng = np.random.default_rng(5)
    found = [
        compare(question, *ask_both(question))
        for question in (draw_any(rng, most_pools=6, cap=4) for _ in range(600))
    ]

    assert found.count("same") >= 590
    assert "differs" not in found
    assert "unproven" not in found


@pytest.mark.parametrize("family", ["cloud", "shapes", "near-proportional", "whole"])
@pytest.mark.parametrize(
    "kind", ["servers cost", "all-reduce cost legal", "plain rate floor", "servers within free"]
)
def test_larger_fleets_that_are_cut_and_thinned_have_the_best_plan(family: str, kind: str) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        question = draw(rng, family=family, kind=kind, num=30, cap=16)
        assert compare(question, *ask_both(question)) == "same"


@pytest.mark.parametrize("kind", ["servers rate", "plain total", "all-reduce cost", "servers cost"])
@pytest.mark.parametrize("family", ["cloud", "shapes", "near-proportional"])
def test_many_pools_have_a_proven_plan_within_the_limits(family: str, kind: str) -> None:
    question = draw(np.random.default_rng(1), family=family, kind=kind, num=64, cap=32)

    outcome = solve(question)

    assert isinstance(outcome, Answer)
    assert outcome.proven
    assert not find_breaches(question, outcome.counts, outcome.servers)
