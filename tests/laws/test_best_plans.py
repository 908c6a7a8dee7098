"""Plans against every fleet of small questions, with starts, unlike nodes, budgets and servers."""

from dataclasses import replace
from random import Random

import pytest

from ebbtide.core.planner import menu
from ebbtide.core.planner.candidates import find_best
from ebbtide.core.planner.inputs import Inputs, Running
from ebbtide.core.planner.outlook import Fleet, look_ahead
from ebbtide.core.planner.planning import plan
from ebbtide.core.planner.scoring import Level, Scored
from ebbtide.core.values.plan import Infeasible, Plan
from support.all_fleets import draw_question, field_of, judge, judge_plan, list_all, with_more
from support.questions import NOW

QUESTIONS = 150
SEEDS = range(3)
NEAR = 1.001
"""The gap that the search along a front may leave."""


def is_as_good(found: Scored, best: Scored, *, factor: float) -> bool:
    if found.level is not best.level:
        return found.level < best.level
    return found.value <= best.value * factor + 1e-9


def draw_many(seed: int, *, servers: bool) -> list[Inputs]:
    chance = Random(seed)
    return [draw_question(chance, servers=servers) for _ in range(QUESTIONS)]


@pytest.mark.parametrize("servers", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_fleet_is_better_than_the_plan_and_no_goal_that_can_be_met_is_refused(
    seed: int, *, servers: bool
) -> None:
    answered = 0
    for question in draw_many(seed, servers=servers):
        field = field_of(question)
        fleets = [] if field is None else list_all(field)
        if field is None or not fleets:
            continue

        found = plan(question, NOW)

        if isinstance(found, Infeasible):
            assert fleets[0].level is Level.MISSED, question
        else:
            answered += 1
            assert is_as_good(judge_plan(field, found), fleets[0], factor=1 + 1e-6), question
    assert answered > QUESTIONS // 4


@pytest.mark.parametrize("servers", [False, True])
def test_so_it_is_within_a_small_gap_where_the_solver_is_asked(
    monkeypatch: pytest.MonkeyPatch, *, servers: bool
) -> None:
    for limit in ("TINY", "MIDDLE", "SHORT"):
        monkeypatch.setattr(menu, limit, 0)
    for question in draw_many(7, servers=servers)[: QUESTIONS // 3]:
        pools = tuple(
            replace(state, pool=replace(state.pool, gpus_per_node=1)) for state in question.pools
        )
        field = field_of(replace(question, pools=pools))
        fleets = [] if field is None else list_all(field)
        if field is None or not fleets or fleets[0].level is Level.MISSED:
            continue

        found = find_best(field)

        assert found is not None
        assert is_as_good(found, fleets[0], factor=NEAR), question


@pytest.mark.parametrize("seed", SEEDS)
def test_what_takes_the_place_of_a_running_fleet_is_the_best_one_nearly_always(seed: int) -> None:
    """What a change costs depends on what both have: those fleets are searched, not all listed."""
    chance = Random(seed)
    answered, worse = 0, 0
    for question in draw_many(seed, servers=False):
        field = field_of(question)
        fleets = [] if field is None else list_all(field)
        if field is None or not fleets:
            continue
        runs = chance.choice(fleets).outlook.fleet
        running = Running(workers=dict(runs.workers), servers=runs.servers)
        field = field_of(replace(question, running=running))
        assert field is not None
        best, found = list_all(field)[0], find_best(field)

        assert found is not None
        taken = min(found, judge(field, runs), key=lambda one: one.key)
        if best.level is not Level.MISSED:
            answered += 1
            worse += not is_as_good(taken, best, factor=1.01)
            assert taken.level is not Level.MISSED, question
    assert worse <= 0.02 * answered


@pytest.mark.parametrize("servers", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_more_capacity_is_never_a_worse_plan_by_what_plans_are_judged_by(
    seed: int, *, servers: bool
) -> None:
    chance = Random(seed)
    for question in draw_many(seed + 100, servers=servers):
        before = plan(question, NOW)
        richer = with_more(question, chance)

        after = plan(richer, NOW)

        if isinstance(before, Plan):
            assert isinstance(after, Plan), question
            field = field_of(richer)
            assert field is not None
            old, new = judge_plan(field, before), judge_plan(field, after)
            assert is_as_good(new, old, factor=1 + 1e-6), question


@pytest.mark.parametrize("seed", SEEDS)
def test_servers_are_no_bottleneck_where_one_more_pays(seed: int) -> None:
    limited = 0
    for question in draw_many(seed + 200, servers=True):
        found, field = plan(question, NOW), field_of(question)
        if isinstance(found, Infeasible) or field is None:
            continue
        chosen = judge_plan(field, found)
        fleet = chosen.outlook.fleet
        more = Fleet(workers=fleet.workers, servers=fleet.servers + 1)
        if not field.can_have(more):
            continue
        limited += chosen.outlook.hours > chosen.outlook.free_hours
        other = judge(field, more)
        is_sooner_and_cheaper = other.outlook.hours < chosen.outlook.hours * (
            1 - 1e-9
        ) and other.outlook.usd < chosen.outlook.usd * (1 - 1e-9)
        assert not (is_sooner_and_cheaper and other.key <= chosen.key), question
    assert limited  # where a server costs money, servers may be what limits


@pytest.mark.parametrize("seed", SEEDS)
def test_one_more_server_never_makes_an_end_less_likely(seed: int) -> None:
    chance = Random(seed)
    for question in draw_many(seed + 300, servers=True):
        field = field_of(question)
        fleets = [] if field is None else list_all(field)
        for one in chance.sample(fleets, min(len(fleets), 10)):
            assert field is not None
            fleet = one.outlook.fleet
            more = look_ahead(field, Fleet(workers=fleet.workers, servers=fleet.servers + 1))
            for hours in (0.2, 0.7, 1.5, 4.0, 30.0):
                assert more.probability(hours) >= one.outlook.probability(hours) - 1e-12
            assert more.probability(more.hours_high) >= 0.9 - 1e-6
            assert more.probability(more.hours) >= 0.5 - 1e-6
