"""How long an answer of the planner stands, and what ends it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.planner.knowledge import Workload
from ebbtide.core.planner.situation import Situation
from ebbtide.core.planner.standing import MOST_INTERVALS, digest, look_again, stands, tick_of
from ebbtide.core.values.objective import Objective
from ebbtide.core.values.past import Life, Past, Spell
from ebbtide.core.values.plan import Infeasible, Measured, Plan, PlanRecord, Refusal, Share
from ebbtide.core.values.pool import Room
from support.builders import ON_DEMAND, SPOT, at, make_job, make_pool
from support.plans import PLAN as FULL

HOUR = 3600.0
MINUTE = timedelta(minutes=1)
SEEN = Measured(workers={"V100": 2}, steps_per_second=1.0)
PLAN = replace(
    FULL,
    shares=(Share(pool="spot", replicas=2, batch_share=1.0),),
    awaited=(),
    predicted=replace(FULL.predicted, finish=at(10 * HOUR), steps_per_second=1.0),
    made_at=at(0),
)
"""Made at the start for ten hours of work, one step a second."""


def situation(seconds: float, **changes: Any) -> Situation:
    """Return a job that is trained as planned, so many seconds after its plan was made."""
    fields: dict[str, Any] = {
        "workload": Workload(
            job=make_job(objective=Objective(deadline_after=timedelta(hours=12))), measured=SEEN
        ),
        "pools": (SPOT, ON_DEMAND),
        "rooms": {"spot": Room(held=2)},
        "steps_left": round(10 * HOUR - seconds),
        "first_start": at(0),
        "training": True,
        "before": PlanRecord(),
        "interval": MINUTE,
        "now": at(seconds),
    }
    return Situation(**{**fields, **changes})


def record(plan: Plan = PLAN, **changes: Any) -> PlanRecord:
    basis = digest(situation(0, **changes))
    return PlanRecord(plan=plan, basis=basis, measured=SEEN)


def stand(seconds: float, plan: Plan = PLAN, **changes: Any) -> bool:
    now = situation(seconds, **changes)
    return stands(record(plan), now, digest(now))


def measured(speed: float, workers: int = 2) -> Workload:
    seen = Measured(workers={"V100": workers}, steps_per_second=speed)
    return replace(situation(0).workload, measured=seen)


def lost(seconds: float) -> dict[str, Past]:
    life = Life(since=at(seconds - 5 * HOUR), lasted=timedelta(hours=5), revoked=True)
    return {"spot": Past(lives=(life,))}


def test_while_all_goes_as_planned_it_stands_for_a_share_of_what_is_left() -> None:
    assert stand(0)
    assert stand(719)
    assert not stand(721), "two hundredths of ten hours"
    assert look_again(record(), situation(60)) == at(720)


def test_of_a_long_job_it_stands_for_so_many_intervals_at_most() -> None:
    long = replace(PLAN, predicted=replace(PLAN.predicted, finish=at(900 * HOUR)))

    assert look_again(record(long), situation(60)) == at(0) + MINUTE * MOST_INTERVALS


def test_towards_the_end_it_stands_for_an_interval() -> None:
    short = replace(PLAN, predicted=replace(PLAN.predicted, finish=at(1200)))

    assert look_again(record(short), situation(30, steps_left=1170)) == at(60)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"training": False}, id="not training"),
        pytest.param({"rooms": {"spot": Room(held=1)}}, id="a worker without a node"),
        pytest.param({"rooms": {"on-demand": Room(held=2)}}, id="elsewhere"),
    ],
)
def test_what_is_not_carried_out_is_looked_at_every_interval(changes: dict[str, Any]) -> None:
    assert stand(59, **changes)
    assert not stand(60, **changes)
    assert look_again(record(), situation(30, **changes)) == at(60)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"workload": measured(1.2)}, id="faster"),
        pytest.param({"workload": measured(0.8)}, id="slower"),
        pytest.param({"workload": measured(1.0, workers=3)}, id="another fleet"),
        pytest.param({"pasts": lost(20)}, id="a node was taken"),
        pytest.param({"steps_left": round(10 * HOUR + 800)}, id="late"),
    ],
)
def test_what_can_wait_is_answered_after_an_interval(changes: dict[str, Any]) -> None:
    assert stand(59, **changes)
    assert not stand(61, **changes)


def test_what_is_no_news_changes_nothing() -> None:
    assert stand(600, workload=measured(1.1))
    assert stand(600, workload=measured(0.9))
    assert stand(600, steps_left=round(10 * HOUR - 600 + 700)), "late by less than that share"
    assert stand(600, steps_left=100), "early"


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"pools": (SPOT,)}, id="a pool is gone"),
        pytest.param({"pools": (make_pool("spot", max_nodes=99), ON_DEMAND)}, id="another limit"),
        pytest.param({"pools": (replace(SPOT, labels={"a": "b"}), ON_DEMAND)}, id="other labels"),
        pytest.param({"other_gpus": {"spot": 1}}, id="another job's pods"),
        pytest.param(
            {"rooms": {"spot": Room(held=1, waiting_since=at(-400), dry_since=at(-400))}}, id="dry"
        ),
        pytest.param({"workload": Workload(job=make_job(generation=2), measured=SEEN)}, id="spec"),
        pytest.param({"workload": Workload(job=make_job())}, id="no speed is known"),
        pytest.param({"first_start": None}, id="not started"),
    ],
)
def test_what_must_be_answered_at_once_ends_it(changes: dict[str, Any]) -> None:
    assert not stand(1, **changes)


def test_a_refusal_stands_for_an_interval() -> None:
    no = Refusal(why=Infeasible(reason="no"), made_at=at(0))
    kept = PlanRecord(refusal=no, basis=digest(situation(0)), measured=SEEN)

    assert stands(kept, situation(59), digest(situation(59)))
    assert not stands(kept, situation(60), digest(situation(60)))


def test_without_an_answer_nothing_stands() -> None:
    now = situation(0)

    assert not stands(PlanRecord(basis=digest(now)), now, digest(now))
    assert look_again(PlanRecord(), now) == at(60)


def test_a_clock_that_went_back_ends_it() -> None:
    assert not stand(-1)


def test_it_is_looked_at_when_a_pool_may_be_tried_again() -> None:
    dry = Past(spells=(Spell(available=False, since=at(-400)),), failed_tries=1, failed_at=at(-100))

    assert look_again(record(), situation(60, pasts={"spot": dry})) == at(500)


@pytest.mark.parametrize(
    ("hours", "minutes"),
    [pytest.param(12, 1, id="two hours to spare"), pytest.param(14, 10, id="four")],
)
def test_who_waits_with_ample_time_decides_more_rarely(hours: float, minutes: float) -> None:
    job = make_job(objective=Objective(deadline_after=timedelta(hours=hours)))
    now = situation(0, workload=Workload(job=job, measured=SEEN), training=False, rooms={})
    waiting = replace(PLAN, shares=(), awaited=PLAN.shares)
    kept = PlanRecord(plan=waiting, basis=digest(now), measured=SEEN)

    assert tick_of(now, PLAN) == timedelta(minutes=minutes)
    assert look_again(kept, now) == at(minutes * 60)


def test_who_waits_is_not_late() -> None:
    job = make_job(objective=Objective(deadline_after=timedelta(hours=24)))
    changes = {"workload": Workload(job=job, measured=SEEN), "training": False, "rooms": {}}
    now = situation(500, steps_left=round(10 * HOUR), **changes)
    waiting = replace(PLAN, shares=(), awaited=PLAN.shares)
    kept = PlanRecord(plan=waiting, basis=digest(now), measured=SEEN)

    assert stands(kept, now, digest(now))


@given(
    st.floats(0, 15 * HOUR),
    st.integers(1, 60_000),
    st.integers(0, 3),
    st.sampled_from(["training", "standing still"]),
    st.sampled_from([0.5, 1.0, 2.0]),
)
def test_what_stands_is_looked_at_again_later_and_what_does_not_is_due(
    seconds: float, left: int, held: int, state: str, speed: float
) -> None:
    now = situation(
        seconds,
        steps_left=left,
        rooms={"spot": Room(held=held)},
        training=state == "training",
        workload=measured(speed),
    )
    kept, basis = record(), digest(now)

    if stands(kept, now, basis):
        assert now.now < look_again(kept, now) <= at(0) + MINUTE * MOST_INTERVALS
    else:
        assert now.now >= at(60), "nothing here must be answered at once"
