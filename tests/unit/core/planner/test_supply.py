"""How much of the time a pool is counted on, from what is remembered of it."""

import math
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.planner.planning import plan
from ebbtide.core.planner.supply import (
    ALWAYS,
    IMAGINED_DOWN_H,
    IMAGINED_UP_H,
    Supply,
    supplies_of,
    supply_of,
)
from ebbtide.core.values.objective import Minimize
from ebbtide.core.values.past import Followed, Life, Past, Spell
from support.builders import at
from support.questions import NOW as THEN
from support.questions import ask, planned, pool_of, workers_of

HOUR = 3600.0
DAY = 24 * HOUR
NOW = at(0)
means = st.floats(0.01, 1000.0)


def past(*spells: tuple[bool, float]) -> Past:
    """Return a past of spells that began so many hours ago."""
    return Past(spells=tuple(Spell(available=up, since=at(-h * HOUR)) for up, h in spells))


def test_a_pool_of_which_nothing_is_known_is_counted_on() -> None:
    assert supply_of(Past(), NOW) == ALWAYS
    assert supply_of(past((True, 100.0)), NOW) == ALWAYS
    assert ALWAYS.share(1000.0) == 1.0


def test_spells_that_were_seen_stand_beside_imagined_ones() -> None:
    told = supply_of(past((True, 50.0), (False, 30.0), (True, 20.0), (False, 4.0)), NOW)

    assert told.up_h == pytest.approx((20 + 16 + IMAGINED_UP_H) / 2)
    assert told.down_h == pytest.approx((10 + 4 + IMAGINED_DOWN_H) / 2), "the last is not over"


def test_a_past_that_begins_with_a_drought_had_one() -> None:
    told = supply_of(past((False, 6.0)), NOW)

    assert told.up_h == IMAGINED_UP_H
    assert told.down_h == pytest.approx(6 + IMAGINED_DOWN_H)


def test_where_hours_pass_in_minutes_what_is_imagined_shrinks_too() -> None:
    quick = past((True, 50 / 60), (False, 30 / 60), (True, 20 / 60))
    slow = past((True, 50.0), (False, 30.0), (True, 20.0))

    fast, usual = supply_of(quick, NOW, time_scale=60.0), supply_of(slow, NOW)

    assert fast.up_h == pytest.approx(usual.up_h / 60)
    assert fast.long_run == pytest.approx(usual.long_run)


def test_a_share_is_that_of_spells_that_were_drawn() -> None:
    supply, hours = Supply(up_h=3.0, down_h=2.0), 10.0
    chance = np.random.default_rng(7)
    shares = []
    for _ in range(4000):
        clock, is_up, up_h = 0.0, True, 0.0
        while clock < hours:
            spell = chance.exponential(supply.up_h if is_up else supply.down_h)
            up_h += min(spell, hours - clock) if is_up else 0.0
            clock, is_up = clock + spell, not is_up
        shares.append(up_h / hours)

    assert supply.share(hours) == pytest.approx(float(np.mean(shares)), abs=0.01)


@given(means, means, st.floats(0.0, 10_000.0))
def test_a_share_lies_between_the_long_run_and_all_and_falls_with_time(
    up_h: float, down_h: float, hours: float
) -> None:
    supply = Supply(up_h=up_h, down_h=down_h)

    assert supply.long_run - 1e-9 <= supply.share(hours) <= 1 + 1e-9
    assert supply.share(hours * 2) <= supply.share(hours) + 1e-9
    assert supply.share(0.0) == 1.0
    assert math.isclose(supply.share(1e9), supply.long_run, abs_tol=1e-3)


@given(means, means, st.floats(0.1, 1000.0), st.floats(1.0, 10.0))
def test_longer_spells_of_nodes_and_shorter_droughts_are_a_larger_share(
    up_h: float, down_h: float, hours: float, factor: float
) -> None:
    share = Supply(up_h=up_h, down_h=down_h).share(hours)

    assert Supply(up_h=up_h * factor, down_h=down_h).share(hours) >= share - 1e-9
    assert Supply(up_h=up_h, down_h=down_h / factor).share(hours) >= share - 1e-9


@given(st.lists(st.floats(0.1, 50.0), min_size=1, max_size=12), st.floats(0.1, 100.0))
def test_a_drought_that_goes_on_is_never_a_better_supply(gaps: list[float], more: float) -> None:
    spells, when, up = [], NOW, False
    for gap in gaps:
        when -= timedelta(hours=gap)
        spells.append(Spell(available=up, since=when))
        up = not up
    dry = Past(spells=tuple(reversed(spells)))

    later = supply_of(dry, NOW + timedelta(hours=more))

    assert later.long_run <= supply_of(dry, NOW).long_run + 1e-9


# ---------------------------------------------------------------- what a plan makes of it

RARE = Supply(up_h=2.0, down_h=3.0)
ON_DEMAND = pool_of("on-demand", 3.0, nodes=16)


def test_a_deadline_that_a_rare_pool_alone_would_miss_takes_on_demand_and_says_why() -> None:
    goal = {"minimize": Minimize.COST, "due": THEN + timedelta(hours=20), "steps_left": 28_800 * 3}
    spot = pool_of("spot", 1.0, spot=True, nodes=4)

    often = planned(plan(ask(spot, ON_DEMAND, **goal), THEN))
    rare = planned(plan(ask(replace(spot, supply=RARE), ON_DEMAND, **goal), THEN))

    assert workers_of(often).keys() == {"spot"}
    assert workers_of(rare)["on-demand"] >= 1
    assert rare.predicted.cost_usd > often.predicted.cost_usd
    share = "spot is counted on for"
    assert share in rare.reason
    assert any(
        "it gives nodes for 2 h in the mean, then none for 3 h" in a for a in rare.assumptions
    )
    assert share not in often.reason
    assert not any("counted on" in text for text in often.assumptions)


def test_a_pool_that_gives_nodes_more_often_is_taken_before_a_rare_one_of_its_price() -> None:
    rare, often = (pool_of(n, 1.0, spot=True, nodes=4) for n in ("a", "b"))
    question = ask(replace(rare, supply=RARE), often, minimize=Minimize.TIME, sizes=(4,))

    assert workers_of(planned(plan(question, THEN))) == {"b": 4}


def test_a_pool_that_never_gives_nodes_is_left_out() -> None:
    never = pool_of("never", 1.0, supply=Supply(up_h=0.0, down_h=1.0))

    found = planned(plan(ask(never, ON_DEMAND), THEN))

    assert any("nodes can be had 0% of the time" in text for text in found.assumptions)


# ---------------------------------------------------------------- droughts that cost less

MOVE = timedelta(minutes=8)
DROUGHT = past((True, 50.0), (False, 30.0), (True, 20.0))


def test_while_nodes_were_held_there_were_some() -> None:
    kept = Life(since=at(-40 * HOUR), lasted=timedelta(hours=25), revoked=True)
    half = Life(since=at(-40 * HOUR), lasted=timedelta(hours=15), revoked=True)
    now = Followed(node="n", mark="m", since=at(-22 * HOUR))

    assert supply_of(replace(DROUGHT, lives=(kept,)), NOW) == ALWAYS
    assert supply_of(replace(DROUGHT, lives=(half,)), NOW).down_h == pytest.approx((5 + 2) / 2)
    both = replace(DROUGHT, lives=(half,), followed=(now,))
    assert supply_of(both, NOW).down_h == pytest.approx((3 + 2) / 2)


def test_with_another_pool_a_drought_costs_a_move() -> None:
    alone = supplies_of({"a": DROUGHT}, NOW, move=MOVE)
    among = supplies_of({"a": DROUGHT, "b": Past()}, NOW, move=MOVE)

    assert alone["a"] == supply_of(DROUGHT, NOW)
    assert among["a"].up_h == alone["a"].up_h
    assert among["a"].down_h == pytest.approx(8 / 60)
    assert among["b"] == ALWAYS


@given(st.lists(st.floats(0.1, 50.0), min_size=1, max_size=12), st.floats(0.5, 100.0))
def test_another_pool_is_never_a_worse_supply(gaps: list[float], hours: float) -> None:
    spells, when, up = [], NOW, True
    for gap in gaps:
        when -= timedelta(hours=gap)
        spells.append(Spell(available=up, since=when))
        up = not up
    own = Past(spells=tuple(reversed(spells)))

    alone = supplies_of({"a": own}, NOW, move=MOVE)["a"]
    among = supplies_of({"a": own, "b": DROUGHT}, NOW, move=MOVE)["a"]

    assert among.share(hours) >= alone.share(hours) - 1e-9
