"""The slack that on-demand needs, and what is not waited for or tried without it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ebbtide.core.planner.guarding import find_closed, find_guard, hurry, is_waiting
from ebbtide.core.planner.inputs import Guard, Inputs
from ebbtide.core.planner.knowledge import Workload
from ebbtide.core.planner.situation import Situation
from ebbtide.core.planner.steering import make_inputs
from ebbtide.core.values.job import SpotUse
from ebbtide.core.values.objective import Minimize, Objective, PlanMode
from ebbtide.core.values.plan import PlanRecord
from ebbtide.core.values.pool import Room
from support.builders import ON_DEMAND, SPOT, START, at, make_job
from support.knowing import Known

TICK = timedelta(seconds=60)
LEAST_S = 2 * 65.0 + 60.0
"""Of `Known`: twice a start and a load, and a tick."""
HOUR = 3600
SAVE_S = 1.0
"""What one save makes an hour's work wait."""
WAITS = {"spot": Room(coming=1, waiting_since=at(0))}


def situation(*, due_s: float = 2 * HOUR, **changes: Any) -> Situation:
    """Return a job of an hour's work for each of two workers, a step a second."""
    objective = changes.pop("objective", Objective(deadline_after=timedelta(seconds=due_s)))
    job = make_job(
        steps=2 * HOUR,
        global_batch_size=64,
        min_replicas=1,
        max_replicas=2,
        on_demand_floor=0,
        plan_mode=PlanMode.AUTO,
        objective=objective,
        spot=changes.pop("spot", SpotUse.ALLOW),
    )
    one = Situation(
        workload=Workload(job=job),
        pools=(SPOT, ON_DEMAND),
        rooms=WAITS,
        steps_left=2 * HOUR,
        first_start=START,
        before=PlanRecord(),
        interval=TICK,
        now=at(0),
    )
    return replace(one, **changes)


def inputs_of(one: Situation) -> Inputs:
    return make_inputs(one, Known(efficiency=(1.0, 1.0)), one.pools)


def guard_of(one: Situation) -> Guard:
    guard = inputs_of(one).guard
    assert guard is not None
    return guard


def test_slack_is_what_the_largest_fleet_on_demand_would_leave() -> None:
    guard = guard_of(situation(due_s=1.5 * HOUR))

    assert guard.slack_s == pytest.approx(0.5 * HOUR - SAVE_S)
    assert guard.least_s == LEAST_S
    assert guard.samples_per_hour == pytest.approx(2 * 64 * HOUR, rel=1e-3)


def test_few_nodes_on_demand_leave_less() -> None:
    few = replace(ON_DEMAND, max_nodes=1)

    slack_s = guard_of(situation(due_s=2.5 * HOUR, pools=(SPOT, few))).slack_s
    assert slack_s == pytest.approx(0.5 * HOUR - 2 * SAVE_S)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"objective": Objective()}, id="no deadline"),
        pytest.param(
            {
                "objective": Objective(
                    minimize=Minimize.TIME, deadline_after=timedelta(seconds=2 * HOUR)
                )
            },
            id="least time",
        ),
        pytest.param({"pools": (SPOT,)}, id="no on-demand pool"),
        pytest.param({"due_s": HOUR - 1}, id="out of reach"),
    ],
)
def test_nothing_is_guarded(changes: dict[str, Any]) -> None:
    one = situation(**changes)

    assert inputs_of(one).guard is None
    assert find_guard(inputs_of(one), one.now, tick=TICK) is None
    assert hurry(inputs_of(one), one) == (one, None)
    assert not find_closed(inputs_of(one), one)


@pytest.mark.parametrize("more_s", [0.1, 1, 600])
def test_a_pool_is_waited_for_until_the_slack_is_used_up(more_s: float) -> None:
    one = situation(due_s=HOUR + SAVE_S + LEAST_S + more_s)

    same, until = hurry(inputs_of(one), one)

    assert same == one
    assert until is not None
    assert (until - one.now).total_seconds() == pytest.approx(max(more_s, 1), abs=0.01)


def test_without_slack_it_is_dry_at_once_and_others_are_not() -> None:
    one = situation(due_s=HOUR + LEAST_S - 1, rooms={**WAITS, "on-demand": Room(coming=1)})

    hurried, until = hurry(inputs_of(one), one)

    assert until is None
    assert hurried.dry == {"spot": at(0)}
    assert hurried.there("spot") == 0
    assert hurried.there("on-demand") == 1


@pytest.mark.parametrize(("more_s", "closed"), [(0.1, set()), (-0.1, {"spot"})])
def test_spot_is_not_tried_without_the_slack_for_a_start(more_s: float, closed: set[str]) -> None:
    one = situation(due_s=HOUR + SAVE_S + LEAST_S + 65 + more_s, rooms={})

    assert find_closed(inputs_of(one), one) == closed
    assert not find_closed(inputs_of(one), replace(one, training=True))
    assert not find_closed(inputs_of(one), replace(one, rooms=WAITS)), "it is under way"


def test_who_has_a_node_or_is_dry_does_not_wait() -> None:
    one = situation()

    assert is_waiting(SPOT, one)
    assert not is_waiting(ON_DEMAND, replace(one, rooms={"on-demand": WAITS["spot"]}))
    assert not is_waiting(SPOT, replace(one, rooms={"spot": Room(held=1)}))
    assert not is_waiting(
        SPOT, replace(one, rooms={"spot": replace(WAITS["spot"], dry_since=at(0))})
    )
