import json
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from ebbtide.api.job_status import Status
from ebbtide.api.status import parse_status, render_status
from ebbtide.core.values.plan import Alternative, Infeasible, Measured, Plan, Refusal
from ebbtide.core.values.status import JobStatus, Progress
from support.plans import MADE, PLAN, PREDICTED, SPOT_SHARE

LATER = MADE + timedelta(minutes=1)


def store(plan: Plan | None, *changes: datetime) -> JobStatus:
    """Write a plan, check it against the definition, and read it again."""
    rendered = render_status(JobStatus(plan=plan, plan_changes=changes))
    Status.model_validate(rendered)  # raises where it is not as the definition says
    return parse_status(json.loads(json.dumps(rendered)))


def test_a_plan_survives_being_stored() -> None:
    again = store(PLAN, MADE, LATER)

    assert again.plan == PLAN
    assert again.plan_changes == (MADE, LATER)


def test_a_plan_has_the_names_that_users_read() -> None:
    assert render_status(JobStatus(plan=PLAN, plan_changes=(MADE,)))["plan"] == {
        "pools": [
            {"name": "v100-spot", "replicas": 3, "batchShare": 0.75},
            {"name": "v100-ondemand", "replicas": 1, "batchShare": 0.25},
        ],
        "servers": 0,
        "spares": 1,
        "onDemandFloor": 1,
        "checkpointIntervalSeconds": 90,
        "predicted": {
            "finishTime": "2030-01-31T18:00:00Z",
            "finishTimeLate": "2030-01-31T19:00:00Z",
            "costUsd": "10.00",
            "costHighUsd": "12.50",
            "deadlineProbability": 0.97,
            "stepsPerSecond": 2.5,
        },
        "reason": "Three spot workers meet the deadline at the least cost.",
        "awaited": [{"name": "v100-spot", "replicas": 4, "batchShare": 1.0}],
        "alternatives": [
            {
                "pools": [{"name": "v100-ondemand", "replicas": 1, "batchShare": 0.25}],
                "servers": 2,
                "predicted": {
                    "finishTime": "2030-01-31T18:00:00Z",
                    "finishTimeLate": "2030-01-31T19:00:00Z",
                    "costUsd": "10.00",
                    "costHighUsd": "12.50",
                    "deadlineProbability": 0.97,
                    "stepsPerSecond": 2.5,
                },
                "why": "It costs twice.",
            }
        ],
        "assumptions": ["The speed is the embedded prior's, within 30 %."],
        "madeAt": "2030-01-31T15:00:00.250000Z",
        "changedAt": ["2030-01-31T15:00:00.250000Z"],
    }


def test_without_a_plan_nothing_is_said_of_one() -> None:
    assert "plan" not in render_status(JobStatus())
    assert store(None) == JobStatus()


def test_when_a_plan_goes_what_it_rests_on_stays() -> None:
    measured = Measured(workers={"V100": 3}, servers=1, steps_per_second=2.5)
    status = JobStatus(plan_changes=(MADE,), plan_basis="4f1c", plan_measured=measured)

    assert parse_status(json.loads(json.dumps(render_status(status)))) == status


@pytest.mark.parametrize(
    "why",
    [
        pytest.param(Infeasible(reason="too little time"), id="for what it says alone"),
        pytest.param(
            Infeasible(reason="late", nearest_deadline=LATER, nearest_budget_usd=Decimal("1.50")),
            id="with the nearest goal",
        ),
    ],
)
def test_why_there_is_no_plan_survives_being_stored(why: Infeasible) -> None:
    status = JobStatus(plan_basis="4f1c", plan_refusal=Refusal(why=why, made_at=MADE))

    rendered = render_status(status)

    Status.model_validate(rendered)
    assert parse_status(json.loads(json.dumps(rendered))) == status


def test_a_plan_to_run_nothing_is_a_plan() -> None:
    idle = replace(PLAN, shares=(), reason="", awaited=(), alternatives=(), assumptions=())

    assert store(idle).plan == idle


def test_a_plan_without_a_deadline_has_no_chance_of_meeting_it() -> None:
    plan = replace(PLAN, predicted=replace(PREDICTED, deadline_probability=None))

    again = store(plan).plan

    assert again == plan


@pytest.mark.parametrize(
    ("interval", "stored"),
    [
        pytest.param(timedelta(milliseconds=10), 1, id="never none at all"),
        pytest.param(timedelta(seconds=89.6), 90, id="to the nearest second"),
    ],
)
def test_the_interval_is_whole_seconds(interval: timedelta, stored: int) -> None:
    again = store(replace(PLAN, checkpoint_interval=interval)).plan

    assert again is not None
    assert again.checkpoint_interval == timedelta(seconds=stored)


def test_what_rounding_made_of_a_share_or_a_chance_can_be_stored() -> None:
    odd = replace(PREDICTED, deadline_probability=1.0000001, steps_per_second=float("nan"))
    plan = replace(PLAN, shares=(replace(SPOT_SHARE, batch_share=1.0000001),), predicted=odd)

    again = store(plan).plan

    assert again is not None
    assert again.shares[0].batch_share == 1.0
    assert again.predicted.deadline_probability == 1.0
    assert again.predicted.steps_per_second == 0.0


def test_a_plan_stays_small_whatever_is_told_of_it() -> None:
    many = tuple(replace(SPOT_SHARE, pool=f"{'p' * 60}{i:03}") for i in range(300))
    talk = "x" * 5000
    loser = Alternative(shares=many, servers=0, predicted=PREDICTED, why=talk)
    plan = replace(
        PLAN, shares=many, reason=talk, alternatives=(loser,) * 9, assumptions=(talk,) * 99
    )
    changes = [MADE + timedelta(seconds=i) for i in range(500)]

    again = store(plan, *changes)

    assert again.plan is not None
    assert len(again.plan.alternatives) == 5
    assert again.plan_changes == tuple(changes[-64:])
    assert len(json.dumps(render_status(again))) < 100_000


def test_a_speed_that_was_predicted_is_told_beside_the_measured_one() -> None:
    progress = Progress(steps_per_second=2.0, predicted_steps_per_second=2.5)

    rendered = render_status(JobStatus(progress=progress))

    assert rendered["progress"]["predictedStepsPerSecond"] == 2.5
    assert parse_status(rendered).progress == progress
