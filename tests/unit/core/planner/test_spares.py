"""Whether a warm spare pays, where it goes, and what it does to cost and finish."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from ebbtide.core.planner.inputs import Inputs, Overheads, PoolState, Running
from ebbtide.core.planner.planning import plan
from ebbtide.core.planner.spares import HOLD, TAKE
from ebbtide.core.values.objective import Minimize
from support.questions import NOW, ask, living, planned, pool_of, workers_of

SLOW_START = Overheads(start_s=600.0, save_s=2.0, restore_s=20.0, reform_s=0.1)
RISKY = pool_of("spot", 1.0, spot=True, life=living(1.0))
"""Nodes that live for an hour: with eight of them one is lost every 7.5 minutes."""
EIGHT = (8,)
"""No legal size but this: a loss holds all of them up."""


def question(*pools: PoolState, sizes: tuple[int, ...] = EIGHT, **more: Any) -> Inputs:
    given = pools or (replace(RISKY, pool=replace(RISKY.pool, max_nodes=16)),)
    fields: dict[str, Any] = {"sizes": sizes, "overheads": SLOW_START, "spares": None, **more}
    return ask(*given, **fields)


def test_a_spare_is_taken_where_every_loss_holds_up_everybody() -> None:
    found = planned(plan(question(), NOW))

    assert (found.spares, found.spare_pool) == (1, "spot")
    assert "1 spare on spot for 1.00 USD an hour: lost workers would cost" in found.reason


def test_none_is_taken_where_few_are_lost_and_the_others_go_on() -> None:
    found = planned(plan(question(pool_of("spot", 1.0, spot=True), sizes=tuple(range(1, 9))), NOW))

    assert found.spares == 0
    assert any(text.startswith("no spare: ") for text in found.assumptions)


def test_none_is_taken_where_nothing_is_lost() -> None:
    found = planned(plan(question(pool_of("demand", 1.0, nodes=16)), NOW))

    assert found.spares == 0
    assert not any("spare" in text for text in (found.reason, *found.assumptions))


@pytest.mark.parametrize("spares", [1, 2, 5])
def test_as_many_as_are_asked_for_are_planned_and_paid(spares: int) -> None:
    without = planned(plan(question(pool_of("demand", 1.0, nodes=16), spares=0), NOW))

    found = planned(plan(question(pool_of("demand", 1.0, nodes=16), spares=spares), NOW))

    assert (found.spares, found.spare_pool) == (spares, "demand")
    assert workers_of(found) == workers_of(without)
    ratio = found.predicted.cost_usd / without.predicted.cost_usd
    assert float(ratio) == pytest.approx((8 + spares) / 8, rel=0.01)
    assert found.predicted.finish == without.predicted.finish


def test_what_is_lost_is_a_share_of_the_whole_time() -> None:
    """Eight losses an hour of ten minutes each, for everybody: 80 minutes beside each hour."""
    found = planned(plan(question(), NOW))

    assert f"would cost {80 / 140:.1%} of the time" in found.reason


def test_a_spare_makes_the_end_earlier_but_no_earlier_than_without_losses() -> None:
    without = planned(plan(question(spares=0), NOW))
    lossless = planned(plan(question(pool_of("demand", 1.0), spares=0), NOW))

    found = planned(plan(question(), NOW))

    assert lossless.predicted.finish < found.predicted.finish < without.predicted.finish
    assert found.predicted.steps_per_second > without.predicted.steps_per_second


def test_a_pool_without_room_gives_none() -> None:
    found = planned(plan(question(RISKY), NOW))  # eight nodes, all of which train

    assert (found.spares, found.spare_pool) == (0, "")
    assert any("no pool has room" in text for text in found.assumptions)


def test_a_dearer_pool_takes_it_where_the_cheapest_is_full_and_of_the_same_gpus() -> None:
    others = (pool_of("k80", 0.5, gpu="K80"), pool_of("demand", 2.0))

    found = planned(plan(question(RISKY, *others, spares=1), NOW))

    assert found.spare_pool == "demand"


def test_where_time_counts_a_spare_is_for_a_fleet_that_cannot_grow() -> None:
    at_most = planned(plan(question(minimize=Minimize.TIME), NOW))
    can_grow = planned(plan(question(minimize=Minimize.TIME, sizes=(8, 32)), NOW))

    assert at_most.spares == 1
    assert can_grow.spares == 0


def test_a_spare_that_would_break_the_budget_is_not_taken() -> None:
    dear = pool_of("k80", 50.0, gpu="K80", nodes=1)
    asked = question(RISKY, dear, minimize=Minimize.TIME)
    without = planned(plan(replace(asked, spares=0), NOW))
    budget = without.predicted.cost_high_usd + Decimal("0.10")

    rich = planned(plan(asked, NOW))
    tight = planned(plan(replace(asked, budget_left_usd=budget), NOW))

    assert (rich.spares, rich.spare_pool) == (1, "k80")
    assert tight.spares == 0


def test_the_answer_does_not_flicker_near_the_price() -> None:
    """At a price between the two limits what is there stays, and what is not is not taken."""
    running = Running(workers={"spot": 8})
    first = planned(plan(question(running=running), NOW))
    usd = first.reason.partition("of the time, ")[2].partition(" USD")[0]
    price = float(usd) / ((HOLD + TAKE) / 2)
    demand = pool_of("spare", round(price, 2), nodes=1)
    asked = question(RISKY, demand, running=running)

    taken = planned(plan(asked, NOW))
    kept = planned(plan(replace(asked, running=replace(running, spares=1)), NOW))

    assert (taken.spares, kept.spares) == (0, 1)
