"""Plans that hold, change, wait and come back: through `step` alone, on an obliging cluster."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from typing_extensions import override

from ebbtide.core.planner.knowledge import Workload
from ebbtide.core.planner.planning import plan
from ebbtide.core.planner.situation import Situation
from ebbtide.core.planner.speed import Speed
from ebbtide.core.planner.steering import describe_drought, make_inputs
from ebbtide.core.values import reasons
from ebbtide.core.values.decision import Tell
from ebbtide.core.values.job import SpotUse
from ebbtide.core.values.objective import Minimize, Objective, PlanMode
from ebbtide.core.values.observed import Role
from ebbtide.core.values.past import Past, Spell
from ebbtide.core.values.plan import Plan, PlanRecord
from ebbtide.core.values.pool import Pool, Room
from support.builders import ON_DEMAND, SPOT, at, make_job, make_pool
from support.knowing import Known
from support.stage import Stage, reason

HOUR = 3600


def planned(objective: Objective | None = None, *pools: Any, **job: Any) -> Stage:
    """One step a second from two workers on; the whole is an hour's work for two."""
    fields: dict[str, Any] = {
        "steps": 2 * HOUR,
        "global_batch_size": 64,
        "min_replicas": 1,
        "max_replicas": 4,
        "on_demand_floor": 0,
        "plan_mode": PlanMode.AUTO,
        "objective": objective or Objective(),
    }
    stage = Stage(make_job(**{**fields, **job}), *(pools or (SPOT, ON_DEMAND)), knowledge=Known())
    stage.settle()
    return stage


def within(seconds: float, **more: Any) -> Objective:
    return Objective(deadline_after=timedelta(seconds=seconds), **more)


def places(stage: Stage) -> Counter[str]:
    """Count members by pool."""
    return Counter(stage.pods[name].pool for name in stage.members())


def pods(stage: Stage, pool: str) -> list[str]:
    return [p.name for p in stage.pods.values() if p.pool == pool and p.role is Role.WORKER]


def test_a_loose_deadline_goes_to_spot() -> None:
    stage = planned(within(8 * HOUR))

    assert set(places(stage)) == {"spot"}
    assert reason(stage, reasons.PLANNED) == reasons.PLAN_CHOSEN
    assert stage.status.plan is not None


def test_the_size_comes_from_the_models() -> None:
    fast = planned(within(4 * HOUR))
    slow = Stage(fast.job, *fast.pools, knowledge=Known(samples_per_s={"V100": 24.0}))
    slow.settle()

    assert len(slow.members()) > len(fast.members())


def test_an_impossible_goal_runs_nothing_names_the_nearest_and_starts_when_loosened() -> None:
    stage = planned(within(600))

    assert not stage.pods
    assert stage.status.first_start is None
    condition = stage.status.condition(reasons.PLANNED)
    assert condition is not None
    assert condition.reason == reasons.GOAL_INFEASIBLE
    assert "nearest" in condition.message
    assert reason(stage, reasons.STALLED) == reasons.GOAL_INFEASIBLE

    stage.job = replace(stage.job, objective=within(6 * HOUR), generation=2)
    stage.settle()

    assert stage.status.state == "Running"
    assert stage.status.condition(reasons.STALLED) is None


def test_a_dry_run_plans_and_runs_nothing() -> None:
    stage = planned(within(8 * HOUR), plan_mode=PlanMode.DRY_RUN)

    assert not stage.pods
    assert stage.status.plan is not None
    assert stage.status.first_start is None
    assert reason(stage, reasons.RUNNING) == reasons.DRY_RUN


def test_with_time_to_spare_a_job_waits_for_spot() -> None:
    stage = planned(within(20 * HOUR))
    stage.full = {"spot"}
    for name in list(stage.members()):
        stage.lose_node(f"node-of-{name}")

    stage.wait(400)

    assert not pods(stage, "on-demand")
    assert len(pods(stage, "spot")) == 1  # the one whose pending brings a node
    assert reason(stage, reasons.RUNNING) == reasons.NO_CAPACITY

    stage.full = set()
    stage.wait(60)

    assert set(places(stage)) == {"spot"}


def test_on_demand_stands_in_for_the_missing_part_only_and_goes_when_spot_is_back() -> None:
    stage = planned(within(1.3 * HOUR), min_replicas=2)
    before = places(stage)
    assert before["spot"] >= 2, before
    stage.full = {"spot"}
    stage.lose_node(f"node-of-{stage.members()[0]}")

    stage.wait(400)

    during = places(stage)
    assert during["spot"] == before["spot"] - 1
    assert during["on-demand"] >= 1
    assert any(event.reason == reasons.FELL_BACK for event in stage.events)

    stage.full = set()
    stage.wait(120)

    assert set(places(stage)) == {"spot"}
    assert not pods(stage, "on-demand")
    assert [event.reason for event in stage.events].count(reasons.RETURNED) == during["on-demand"]


def test_nothing_changes_while_nothing_happens() -> None:
    stage = planned(within(8 * HOUR))
    made = stage.num_passes
    before = sorted(stage.pods)
    record = stage.status.record

    stage.settle()
    assert stage.status.record == record

    stage.at_step = 600
    stage.wait(600)
    assert sorted(stage.pods) == before
    assert stage.num_passes > made


def test_a_job_that_started_is_never_stopped_for_want_of_time() -> None:
    stage = planned(within(2 * HOUR))

    stage.wait(1.9 * HOUR)

    assert stage.status.state == "Running"
    assert reason(stage, reasons.GOAL_AT_RISK) == reasons.DEADLINE_AT_RISK
    assert reason(stage, reasons.STALLED) == ""


def test_the_least_time_takes_as_many_as_it_may() -> None:
    stage = planned(Objective(minimize=Minimize.TIME))

    assert len(stage.members()) == 4


def test_spot_never_and_spot_only_are_kept() -> None:
    assert set(places(planned(within(8 * HOUR), spot=SpotUse.NEVER))) == {"on-demand"}
    assert set(places(planned(Objective(minimize=Minimize.TIME), spot=SpotUse.ONLY))) == {"spot"}


def test_no_pool_says_so() -> None:
    stage = planned(
        within(8 * HOUR), make_pool("small", max_nodes=8, gpus_per_node=0), gpus_per_worker=2
    )

    assert reason(stage, reasons.PLANNED) == reasons.NO_POOL


def test_a_budget_limits_the_plan() -> None:
    stage = planned(Objective(minimize=Minimize.TIME, budget_usd=Decimal("2.50")))

    chosen = stage.status.plan
    assert chosen is not None
    assert chosen.predicted.cost_usd <= Decimal("2.50")


@pytest.mark.parametrize("floor", [1, 2])
def test_the_floor_stays_on_on_demand(floor: int) -> None:
    stage = planned(within(2 * HOUR), on_demand_floor=floor, min_replicas=2)

    assert places(stage)["on-demand"] >= floor
    assert stage.pods[stage.members()[0]].pool == "on-demand"


def test_the_last_holder_of_the_state_stops_when_nobody_comes_for_it() -> None:
    """A planned wait makes no replacement: what a warned worker holds must still be saved."""
    stage = planned(within(20 * HOUR), min_replicas=1, max_replicas=1)
    [name] = stage.members()
    stage.full = {"spot"}
    # another job's pod shows nothing here: the pool is dry because our own replacement waited
    stage.warn_node(f"node-of-{name}", key="aws-node-termination-handler/spot-itn")
    stage.wait(400)

    stops = [a for a in stage.actions if isinstance(a, Tell) and a.call == "stop"]
    assert name in {stop.worker for stop in stops}


def test_a_stop_has_a_timer_of_its_own() -> None:
    stage = planned(within(20 * HOUR), min_replicas=1, max_replicas=1)
    stage.settings = replace(stage.settings, progress_interval=timedelta(hours=1))
    [name] = stage.members()
    stage.warn_node(f"node-of-{name}", key="aws-node-termination-handler/spot-itn")
    stage.full = {"spot"}
    decision = stage.settle()

    assert decision.requeue_after is not None
    assert decision.requeue_after <= timedelta(seconds=20)


def test_who_is_held_below_the_least_size_is_never_given_back_to_wait() -> None:
    """Their node would look like the return of the pool, and they would be made again for ever."""
    stage = planned(within(20 * HOUR), min_replicas=2, max_replicas=2)
    kept, lost = stage.members()
    stage.full = {"spot"}
    stage.lose_node(f"node-of-{lost}")

    stage.wait(1000)

    assert kept in stage.members()
    assert places(stage) == {"spot": 1, "on-demand": 1}
    assert max(entry.last for entry in stage.status.attempts.values()) <= 4


# ---------------------------------------------------------------- what is told, and kept


def told(stage: Stage, *wanted: str) -> list[str]:
    return [event.reason for event in stage.events if event.reason in wanted]


def test_a_goal_at_risk_is_told_when_it_turns_and_when_it_turns_back() -> None:
    stage = planned(within(2 * HOUR))
    stage.wait(1.9 * HOUR)
    stage.settle()

    assert told(stage, reasons.GOAL_AT_RISK, reasons.GOAL_IN_REACH) == [reasons.GOAL_AT_RISK]
    assert reason(stage, reasons.GOAL_AT_RISK) == reasons.DEADLINE_AT_RISK

    stage.job = replace(stage.job, objective=within(9 * HOUR), generation=2)
    stage.wait(600)

    goal = told(stage, reasons.GOAL_AT_RISK, reasons.GOAL_IN_REACH)
    assert goal == [reasons.GOAL_AT_RISK, reasons.GOAL_IN_REACH]
    assert [e.warning for e in stage.events if e.reason in goal] == [True, False]


def test_a_goal_that_is_taken_away_is_at_risk_no_more() -> None:
    stage = planned(within(2 * HOUR))
    stage.wait(1.9 * HOUR)
    stage.job = replace(stage.job, objective=Objective(), generation=2)
    stage.settle()

    assert told(stage, reasons.GOAL_AT_RISK, reasons.NO_GOAL) == [
        reasons.GOAL_AT_RISK,
        reasons.NO_GOAL,
    ]


def test_a_goal_that_cannot_be_met_is_told_once_and_not_as_a_risk_too() -> None:
    stage = planned(within(600))
    stage.wait(300)

    assert told(stage, reasons.GOAL_INFEASIBLE, reasons.GOAL_AT_RISK) == [reasons.GOAL_INFEASIBLE]
    assert stage.status.is_true(reasons.GOAL_AT_RISK)

    stage.job = replace(stage.job, objective=within(6 * HOUR), generation=2)
    stage.settle()
    stage.job = replace(stage.job, objective=within(6 * HOUR), generation=3)
    stage.settle()

    assert told(stage, reasons.GOAL_IN_REACH) == [reasons.GOAL_IN_REACH]


@dataclass(frozen=True, kw_only=True)
class Asked(Known):
    """Notes each workload that a plan is made for."""

    asked: list[Workload] = field(default_factory=list)

    @override
    def speed(self, workload: Workload, pools: Sequence[Pool]) -> Speed:
        self.asked.append(workload)
        return super().speed(workload, pools)


def test_a_refusal_is_kept_as_a_plan_is() -> None:
    knowledge = Asked()
    stage = planned(within(600))
    stage.knowledge = knowledge
    stage.wait(59)
    assert knowledge.asked == []

    stage.wait(2)
    assert len(knowledge.asked) == 1
    for _ in range(5):
        stage.settle()
    assert len(knowledge.asked) == 1

    stage.pools = (replace(SPOT, max_nodes=9), ON_DEMAND)
    stage.settle()
    assert len(knowledge.asked) == 2


def test_a_dry_run_of_a_job_that_trained_is_pending_and_its_clock_begins_anew() -> None:
    stage = planned(within(8 * HOUR))
    assert stage.status.state == "Running"
    stage.at_step = 100
    stage.wait(120)
    first = stage.status.first_start

    stage.job = replace(stage.job, plan_mode=PlanMode.DRY_RUN, generation=2)
    stage.pass_once()
    assert stage.status.state == "Pending"
    assert stage.pods
    stage.wait(60)
    assert stage.status.state == "Pending"
    assert stage.status.start is None
    assert not [pod for pod in stage.pods.values() if pod.role is Role.WORKER]

    stage.job = replace(stage.job, plan_mode=PlanMode.AUTO, generation=3)
    stage.settle()
    assert stage.status.state == "Running"
    assert stage.status.start == stage.now
    assert stage.status.first_start == first


def test_the_plan_is_shown_in_words() -> None:
    mixed = planned(within(2 * HOUR), on_demand_floor=1, min_replicas=2)
    assert mixed.status.display.plan == "3 spot + 1 on-demand"

    waiting = planned(within(20 * HOUR), max_replicas=1)
    waiting.full = {"spot"}
    for name in list(waiting.members()):
        waiting.lose_node(f"node-of-{name}")
    waiting.wait(400)
    assert waiting.status.display.plan == "waits for 1 spot"

    assert planned(within(600)).status.display.plan == ""


# ---------------------------------------------------------------- what is remembered of pools


def droughts(*, days: int, up_h: float, down_h: float) -> Past:
    """Return a past of so many days up to now, when there are nodes."""
    spells, when = [], -days * 24.0 * HOUR
    while when < 0:
        spells += [Spell(available=True, since=at(when))]
        when += up_h * HOUR
        spells += [Spell(available=False, since=at(when))] if when + down_h * HOUR < 0 else []
        when += down_h * HOUR
    return Past(spells=tuple(spells))


def remembering(past: Past, objective: Objective) -> Stage:
    stage = Stage(
        make_job(
            steps=8 * HOUR,
            min_replicas=2,
            max_replicas=4,
            on_demand_floor=0,
            plan_mode=PlanMode.AUTO,
            objective=objective,
        ),
        SPOT,
        ON_DEMAND,
        knowledge=Known(efficiency=()),
    )
    stage.pasts = {"spot": past}
    stage.settle()
    return stage


def test_a_plan_counts_on_less_of_a_pool_that_has_often_run_dry() -> None:
    """Four on spot do eight hours of work for one in two, were they always there."""
    goal = within(2.6 * HOUR)

    fresh = remembering(Past(), goal)
    burnt = remembering(droughts(days=4, up_h=2.0, down_h=2.0), goal)

    assert fresh.status.display.plan == "4 spot"
    assert places(burnt)["on-demand"] >= 1
    assert burnt.status.plan is not None
    assert "spot is counted on for" in burnt.status.plan.reason


def test_the_deadline_policy_is_told_the_pace_while_there_are_nodes() -> None:
    """It knows itself how often there are: what is missing is not to be counted twice."""
    told = []
    for past in (Past(), droughts(days=4, up_h=2.0, down_h=2.0)):
        job = remembering(past, within(30 * HOUR)).job
        situation = Situation(
            workload=Workload(job=job),
            pools=(SPOT, ON_DEMAND),
            rooms={"spot": Room(dry_since=at(-400))},
            pasts={"spot": past},
            steps_left=8 * HOUR,
            before=PlanRecord(),
            interval=timedelta(minutes=1),
            now=at(0),
        )
        inputs = make_inputs(situation, Known(efficiency=()), situation.pools)
        inputs = replace(inputs, sizes=(4,))
        wish = plan(inputs, situation.now)
        assert isinstance(wish, Plan)
        drought = describe_drought(inputs, wish, situation, frozenset({"spot"}))
        assert drought is not None
        told.append((wish.predicted.steps_per_second, drought.work_s))

    (often, work_s), (rarely, same_s) = told
    assert rarely < 0.9 * often
    assert same_s == pytest.approx(work_s)
