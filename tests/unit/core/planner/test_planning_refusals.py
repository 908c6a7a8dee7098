"""No plan: which value, which limit, and what would work, which is then tried."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest

from ebbtide.core.models.survival import Survival
from ebbtide.core.planner.inputs import Inputs, Overheads
from ebbtide.core.planner.planning import plan
from ebbtide.core.planner.speed import Pace, Speed
from support.questions import NOW, ask, planned, pool_of, refused, workers_of

SPOT = pool_of("spot", 1.0, spot=True)
DEMAND = pool_of("demand", 3.0)
START = Overheads(start_s=300.0, save_s=2.0, restore_s=20.0, reform_s=2.0)


def in_hours(hours: float) -> datetime:
    return NOW + timedelta(hours=hours)


def test_an_impossible_deadline_names_the_nearest_one_that_works() -> None:
    question = ask(SPOT, DEMAND, overheads=START, due=NOW + timedelta(minutes=9))

    found = refused(plan(question, NOW))

    assert found.nearest_deadline is not None
    assert found.nearest_budget_usd is None
    assert found.nearest_deadline.strftime("%H:%M:%S") in found.reason
    planned(plan(replace(question, due=found.nearest_deadline), NOW))
    a_little_less = found.nearest_deadline - timedelta(seconds=5)
    refused(plan(replace(question, due=a_little_less), NOW))


def test_a_deadline_that_is_past_says_so() -> None:
    found = refused(plan(ask(DEMAND, due=in_hours(-1)), NOW))

    assert "which is past" in found.reason
    assert found.nearest_deadline is not None
    assert found.nearest_deadline > NOW


def test_a_budget_that_is_too_small_names_the_least() -> None:
    question = ask(DEMAND, due=in_hours(4), budget_left_usd=Decimal(5), spent_usd=Decimal("1.00"))

    found = refused(plan(question, NOW))

    assert found.nearest_deadline is None
    assert found.nearest_budget_usd is not None
    assert str(found.nearest_budget_usd) in found.reason
    left = found.nearest_budget_usd - 1
    assert float(left) == pytest.approx(7.5, abs=0.03)
    planned(plan(replace(question, budget_left_usd=left), NOW))


def test_where_either_would_do_both_are_named() -> None:
    few = pool_of("spot", 1.0, spot=True, nodes=2)
    question = ask(few, DEMAND, due=in_hours(0.4), budget_left_usd=Decimal(4))

    found = refused(plan(question, NOW))

    assert found.nearest_deadline is not None
    assert found.nearest_budget_usd is not None
    planned(plan(replace(question, due=found.nearest_deadline), NOW))
    planned(plan(replace(question, budget_left_usd=found.nearest_budget_usd), NOW))


def test_where_both_are_needed_that_is_said() -> None:
    question = ask(DEMAND, due=NOW + timedelta(minutes=5), budget_left_usd=Decimal(1))

    found = refused(plan(question, NOW))

    assert "both are needed" in found.reason
    both = replace(question, due=found.nearest_deadline, budget_left_usd=found.nearest_budget_usd)
    planned(plan(both, NOW))


NEVER = Survival(unit_s=10.0, alive=np.array([1.0, 0.0]))


@pytest.mark.parametrize(
    ("question", "says"),
    [
        pytest.param(ask(), "no CapacityPool", id="no pools"),
        pytest.param(ask(pool_of("free", 0)), "one above 0 is right", id="zero price"),
        pytest.param(ask(DEMAND, sizes=(12,)), "8 or fewer would work", id="above every limit"),
        pytest.param(ask(DEMAND, sizes=()), "leave none", id="no legal size"),
        pytest.param(ask(pool_of("x", 1.0, gpu="X9")), "known are: A100, K80", id="unknown GPU"),
        pytest.param(
            ask(pool_of("s", 1.0, spot=True, life=NEVER), overheads=START),
            "training is loaded and saved once",
            id="never lives",
        ),
        pytest.param(
            ask(SPOT, on_demand_floor=1), "carry 0 workers, so 0 or fewer", id="no on-demand"
        ),
        pytest.param(ask(DEMAND, on_demand_floor=20), "16 is the largest", id="floor above sizes"),
        pytest.param(ask(DEMAND, steps_left=0), "must be at least 1", id="no work"),
        pytest.param(ask(DEMAND, gpus_per_worker=2), "a node has 1", id="too few GPUs"),
        pytest.param(ask(replace(DEMAND, free=0)), "no node can be had now", id="nothing free"),
        pytest.param(
            ask(pool_of("p", 4.0, per_node=4, nodes=1), sizes=(5, 6)), "4 or fewer", id="sizes"
        ),
        pytest.param(
            ask(DEMAND, uses_servers=True, servers=(3, 1)), "servers from 3 to 1", id="servers"
        ),
    ],
)
def test_bad_input_is_named_with_what_would_work(question: Inputs, says: str) -> None:
    found = refused(plan(question, NOW))

    assert says in found.reason


def test_a_bad_pool_is_left_out_where_another_will_do() -> None:
    never = pool_of("s", 1.0, spot=True, life=NEVER)

    found = planned(plan(ask(never, pool_of("free", 0), DEMAND, overheads=START), NOW))

    assert set(workers_of(found)) == {"demand"}
    assert len(found.assumptions) == 2


def test_what_is_left_out_is_named_where_the_others_do_not_meet_the_goal_either() -> None:
    never = pool_of("s", 1.0, spot=True, life=NEVER)

    found = refused(plan(ask(never, DEMAND, overheads=START, due=in_hours(0.1)), NOW))

    assert found.nearest_deadline is not None
    assert "left out: pool s" in found.reason
    assert "at least 1% are needed" in found.reason


def test_a_budget_alone_is_told_in_a_whole_sentence() -> None:
    found = refused(plan(ask(DEMAND, budget_left_usd=Decimal("0.50")), NOW))

    assert found.reason.startswith("3600 steps of 1000 samples cannot be done for 0.50 USD more:")


def test_the_nearest_deadline_is_that_of_the_fleet_that_is_expected_first() -> None:
    """The fleet that is first in bad cases may be expected later, where another starts sooner."""
    quick = pool_of("quick", 3.0, gpu="A", nodes=1)
    sure = pool_of("sure", 3.0, gpu="B", nodes=1)
    speed = Speed(
        paces={
            "A": Pace(value=500.0, low=250.0, high=1000.0, source="a test"),
            "B": Pace(value=450.0, low=440.0, high=460.0, source="a test"),
        }
    )
    question = ask(quick, sure, sizes=(1,), speed=speed, due=in_hours(1))

    found = refused(plan(question, NOW))

    assert found.nearest_deadline is not None
    hours = (found.nearest_deadline - NOW).total_seconds() / 3600
    assert hours == pytest.approx(2.0, abs=0.01)
    assert workers_of(planned(plan(replace(question, due=found.nearest_deadline), NOW))) == {
        "quick": 1
    }
