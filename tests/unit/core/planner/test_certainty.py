"""What certainty may cost: a surer fleet is worth so much more, and no more."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ebbtide.core.planner.inputs import Guard, Inputs, Overheads, Running
from ebbtide.core.planner.planning import plan
from ebbtide.core.values.plan import Plan
from support.questions import NOW, ask, living, planned, pool_of, workers_of

SPOT = pool_of("spot", 1.0, spot=True, life=living(2.0))
DEMAND = pool_of("demand", 9.0)
DELAYS = Overheads(start_s=300.0, save_s=2.0, restore_s=20.0, reform_s=2.0)
AMPLE = Guard(slack_s=7200.0, samples_per_hour=1e9, changeover_s=300.0, tick_s=60.0)


def question(*, due_s: float, guard: Guard | None = AMPLE, is_there: bool = True) -> Inputs:
    """Ask for four workers, which are on spot now."""
    running = Running(workers={"spot": 4}, is_there=is_there)
    due = NOW + timedelta(seconds=due_s)
    return ask(
        SPOT,
        DEMAND,
        due=due,
        overheads=DELAYS,
        sizes=(4,),
        steps_left=36_000,
        running=running,
        guard=guard,
    )


def chance(found: Plan) -> float:
    assert found.predicted.deadline_probability is not None
    return found.predicted.deadline_probability


@pytest.fixture(scope="module")
def late_s() -> float:
    """Return in how many seconds the spot fleet has ended nine times of ten."""
    free = planned(plan(question(due_s=1e6, guard=None), NOW))
    assert workers_of(free) == {"spot": 4}
    return (free.predicted.finish_late - NOW).total_seconds()


def test_a_fleet_just_below_nine_in_ten_is_not_left_for_a_much_dearer_one(
    late_s: float,
) -> None:
    found = planned(plan(question(due_s=late_s - 1), NOW))

    assert workers_of(found) == {"spot": 4}
    assert 0.8 < chance(found) < 0.9
    assert "would keep it" in found.reason


@pytest.mark.parametrize("how", ["no guard", "nodes are gone", "slack is used up"])
def test_it_is_left_where_on_demand_could_not_step_in_later(late_s: float, how: str) -> None:
    asked = question(due_s=late_s - 1)
    guard = {"no guard": None, "slack is used up": replace(AMPLE, slack_s=600.0)}.get(how, AMPLE)
    running = replace(asked.running, is_there=how != "nodes are gone")

    found = planned(plan(replace(asked, guard=guard, running=running), NOW))

    assert "demand" in workers_of(found)
