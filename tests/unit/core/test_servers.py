"""Parameter servers: made, replaced, resized, given back; through `step` alone."""

from dataclasses import replace

import pytest

from ebbtide.core.values import reasons
from ebbtide.core.values.decision import CreatePod, DeletePod
from ebbtide.core.values.job import CleanPodPolicy
from ebbtide.core.values.objective import Minimize, Objective, PlanMode
from ebbtide.core.values.observed import Role
from support.builders import ON_DEMAND, SPOT, make_job
from support.knowing import Known
from support.stage import NAMES, Stage, on_stage, reason, workers

SOON = Objective(minimize=Minimize.TIME)
SERVERS = ["digits-server-0-1", "digits-server-1-1"]


def servers(stage: Stage) -> list[str]:
    return sorted(
        pod.name for pod in stage.pods.values() if pod.role is Role.SERVER and not pod.ended
    )


def test_servers_are_made_beside_the_workers_and_belong_to_no_pool() -> None:
    stage = on_stage(servers=2, max_staleness=4)

    assert servers(stage) == SERVERS
    assert all(stage.pods[name].pool == "" for name in SERVERS)
    assert workers(stage) == NAMES
    assert stage.work is not None
    assert (stage.work.servers, stage.work.max_staleness) == (2, 4)
    assert stage.status.replica_statuses["server"].ready == 2
    assert stage.status.replicas.desired == 3
    assert stage.status.state == "Running"


def test_all_reduce_has_no_servers() -> None:
    stage = on_stage()

    assert servers(stage) == []
    assert stage.work is not None
    assert stage.work.servers == 0


def test_b078_a_lost_server_is_replaced_at_once_and_counts_as_a_revocation() -> None:
    stage = on_stage(servers=2)

    stage.lose_node("node-of-digits-server-1-1")
    decision = stage.pass_once()
    stage.settle()

    made = [action for action in decision.actions if isinstance(action, CreatePod)]
    assert [(a.role, a.index, a.attempt, a.pool) for a in made] == [(Role.SERVER, 1, 2, None)]
    assert servers(stage) == ["digits-server-0-1", "digits-server-1-2"]
    assert stage.members() == tuple(NAMES)
    counters = stage.status.counters
    assert (counters.revocations, counters.failures, counters.restarts) == (1, 0, 0)
    assert any(event.reason == reasons.REPLACEMENT_CREATED for event in stage.events)
    assert not stage.status.is_true(reasons.REPLACING)


def test_the_coordinator_is_told_of_a_lost_server_it_still_counts_on() -> None:
    stage = on_stage(servers=2)
    stage.half_open.add("digits-server-1-1")

    stage.lose_node("node-of-digits-server-1-1")
    stage.settle()

    assert stage.expelled == {"digits-server-1-1"}


@pytest.mark.parametrize(
    ("code", "counted"),
    [
        pytest.param(1, (0, 1, 0), id="a failure"),
        pytest.param(137, (0, 1, 0), id="killed"),
        pytest.param(82, (0, 0, 1), id="it left unasked"),
        pytest.param(0, (0, 1, 0), id="done before the work is"),
    ],
)
def test_the_end_of_a_server_is_judged_like_a_workers(
    code: int, counted: tuple[int, int, int]
) -> None:
    stage = on_stage(servers=2)

    stage.end_pod("digits-server-0-1", code)
    stage.wait(20)

    counters = stage.status.counters
    assert (counters.revocations, counters.failures, counters.restarts) == counted
    assert servers(stage) == ["digits-server-0-2", "digits-server-1-1"]


def test_a_server_that_fails_is_made_again_only_after_a_while() -> None:
    stage = on_stage(servers=1)

    stage.end_pod("digits-server-0-1", 1)
    stage.settle()
    at_once = servers(stage)
    stage.wait(11)

    assert at_once == []
    assert servers(stage) == ["digits-server-0-2"]


def test_servers_that_always_fail_use_up_the_limit_of_failures() -> None:
    stage = on_stage(servers=1, backoff_limit=2)

    for attempt in (1, 2, 3):
        stage.end_pod(f"digits-server-0-{attempt}", 1)
        stage.wait(60)

    assert reason(stage, reasons.FAILED) == reasons.BACKOFF_LIMIT_EXCEEDED


def test_who_is_told_to_go_has_somebody_to_hand_its_part_to() -> None:
    stage = on_stage(servers=1)
    old = stage.pods["digits-server-0-1"]
    stage.pods[old.name] = replace(
        old, deletion_requested=stage.now, disruption="EvictionByEvictionAPI"
    )

    stage.settle()
    beside = servers(stage)
    stage.end_pod(old.name, 82)
    stage.settle()

    assert beside == ["digits-server-0-1", "digits-server-0-2"]
    assert servers(stage) == ["digits-server-0-2"]
    assert stage.status.counters.restarts == 1
    assert stage.status.counters.failures == 0


@pytest.mark.parametrize("number", [1, 3])
def test_their_number_changes_while_the_job_trains(number: int) -> None:
    stage = on_stage(servers=2)
    stage.actions.clear()

    stage.job = replace(stage.job, servers=number, generation=2)
    stage.settle()

    assert servers(stage) == [f"digits-server-{index}-1" for index in range(number)]
    assert stage.work is not None
    assert stage.work.servers == number
    assert stage.members() == tuple(NAMES)
    counters = stage.status.counters
    assert (counters.revocations, counters.failures, counters.restarts) == (0, 0, 0)


def test_at_rest_nothing_more_is_decided() -> None:
    stage = on_stage(servers=2)
    stage.lose_node("node-of-digits-server-1-1")
    stage.settle()
    stage.actions.clear()

    stage.pass_once()

    assert stage.actions == []


def test_suspending_ends_them_after_the_workers_and_resuming_makes_new_ones() -> None:
    stage = on_stage(servers=2)
    stage.actions.clear()

    stage.job = replace(stage.job, suspend=True, generation=2)
    stage.settle()
    deleted = [action.name for action in stage.actions if isinstance(action, DeletePod)]
    left = dict(stage.pods)
    stage.job = replace(stage.job, suspend=False, generation=3)
    stage.settle()

    assert set(deleted[:3]) == set(NAMES)
    assert set(SERVERS) < set(deleted[3:])
    assert left == {}
    assert stage.expelled == set(SERVERS)  # or they would wait for others to take over
    assert servers(stage) == ["digits-server-0-2", "digits-server-1-2"]
    assert stage.status.state == "Running"


@pytest.mark.parametrize(
    ("policy", "left"),
    [
        pytest.param(CleanPodPolicy.RUNNING, [], id="running"),
        pytest.param(CleanPodPolicy.ALL, [], id="all"),
        pytest.param(CleanPodPolicy.NONE, SERVERS, id="none"),
    ],
)
def test_at_the_end_they_go_as_the_policy_says(policy: CleanPodPolicy, left: list[str]) -> None:
    stage = on_stage(servers=2, clean_pod_policy=policy)

    stage.finish()
    stage.settle()

    assert stage.status.state == "Complete"
    assert servers(stage) == []
    assert [name for name in SERVERS if name in stage.pods] == left


def test_servers_that_exit_when_the_work_is_done_have_not_failed() -> None:
    stage = on_stage(servers=2)

    stage.finish()
    for name in SERVERS:
        if name in stage.pods:
            stage.end_pod(name, 0)
    stage.settle()

    assert stage.status.state == "Complete"
    assert stage.status.counters.failures == 0


def test_a_server_without_a_node_is_named_while_training_waits_for_it() -> None:
    stage = on_stage(servers=1)
    stage.full.add("")  # nowhere but on the GPUs of spot nodes is there room
    stage.lose_node("node-of-digits-server-0-1")
    stage.unregistered = True

    stage.settle()
    at_first = stage.status.condition(reasons.RUNNING)
    stage.wait(stage.settings.capacity_wait.total_seconds())
    later = stage.status.condition(reasons.RUNNING)

    assert at_first is not None
    assert later is not None
    assert "server 0 waits for a node since 12:00:00" in at_first.message
    assert (at_first.status, at_first.reason) == ("False", reasons.STARTING)
    assert (later.status, later.reason) == ("False", reasons.NO_CAPACITY)


def test_auto_without_a_plan_is_one_server_and_says_why() -> None:
    stage = on_stage(servers=None, plan_mode=PlanMode.MANUAL, replicas=3)

    assert servers(stage) == ["digits-server-0-1"]
    planned = stage.status.condition(reasons.PLANNED)
    assert planned is not None
    assert "1 parameter server, since without a plan" in planned.message


def test_b078_auto_asks_the_plan_how_many_keep_up_with_the_workers() -> None:
    stage = planned(servers=None, through=50.0)

    assert stage.status.plan is not None
    assert stage.status.plan.servers == 4  # of 50 samples a second for three workers of 64
    assert servers(stage) == [f"digits-server-{index}-1" for index in range(4)]
    assert stage.work is not None
    assert stage.work.servers == 4


def test_a_fixed_number_is_planned_with_and_limits_the_speed() -> None:
    few, many = (planned(servers=number, through=50.0) for number in (1, 4))

    assert few.status.plan is not None
    assert many.status.plan is not None
    assert (few.status.plan.servers, many.status.plan.servers) == (1, 4)
    slow = few.status.plan.predicted.steps_per_second
    assert slow == pytest.approx(50 / 64, rel=0.01)
    assert many.status.plan.predicted.steps_per_second > 2 * slow
    assert len(servers(few)) == 1


def test_auto_takes_one_server_where_nothing_is_known_of_them() -> None:
    stage = planned(servers=None, through=None)

    assert servers(stage) == ["digits-server-0-1"]


def test_what_was_measured_says_with_how_many_servers() -> None:
    stage = planned(servers=2, through=50.0)

    assert stage.status.plan_measured is not None
    assert stage.status.plan_measured.servers == 2


def planned(*, servers: int | None, through: float | None) -> Stage:
    """Return a job of three workers in planMode Auto; a server lets so many samples through."""
    job = make_job(servers=servers, min_replicas=3, max_replicas=4, objective=SOON)
    stage = Stage(job, SPOT, ON_DEMAND, knowledge=Known(server_samples_per_s=through))
    stage.settle()
    return stage
