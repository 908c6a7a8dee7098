"""Workers and coordinators that are lost, warned, replaced: through `step` alone."""

from dataclasses import replace

import pytest

from ebbtide.core.step import step
from ebbtide.core.values import reasons
from ebbtide.core.values.decision import CreatePod, DeletePod, Tell
from ebbtide.core.values.observed import CoordinatorView
from support.builders import ON_DEMAND, SPOT, make_job, make_pool
from support.stage import NAMES, Stage, on_stage, workers


@pytest.mark.parametrize("index", [0, 1, 2])
def test_only_the_lost_worker_is_replaced(index: int) -> None:
    stage = on_stage()

    stage.lose_node(f"node-of-digits-worker-{index}-1")
    stage.settle()

    assert workers(stage) == sorted({*NAMES, f"digits-worker-{index}-2"} - {NAMES[index]})
    assert stage.status.counters.revocations == 1
    assert stage.status.counters.failures == 0


def test_b010_every_worker_deleted_by_hand_comes_back_and_the_job_does_not_fail() -> None:
    stage = on_stage(backoff_limit=0)

    for name in NAMES:
        stage.vanish_pod(name)
    stage.settle()

    assert workers(stage) == [f"digits-worker-{i}-2" for i in range(3)]
    assert stage.status.counters.restarts == 3
    assert stage.status.counters.failures == 0


def test_b010_the_only_worker_comes_back() -> None:
    stage = on_stage(min_replicas=1, max_replicas=1)

    stage.vanish_pod("digits-worker-0-1")
    stage.settle()

    assert workers(stage) == ["digits-worker-0-2"]
    assert stage.status.state == "Running"


def test_b017_a_mass_loss_is_made_good_in_one_pass() -> None:
    stage = Stage(make_job(max_replicas=32), make_pool(max_nodes=64), ON_DEMAND)
    stage.settle()
    for index in range(2, 32):
        stage.lose_node(f"node-of-digits-worker-{index}-1")
    stage.actions.clear()

    decision = stage.pass_once()

    assert sum(isinstance(action, CreatePod) for action in decision.actions) == 30


def test_a_warning_makes_a_replacement_beside_the_warned_worker() -> None:
    stage = on_stage()

    stage.warn_node("node-of-digits-worker-1-1")
    stage.settle()

    assert workers(stage) == sorted([*NAMES, "digits-worker-1-2"])
    assert stage.warned == {"digits-worker-1-1"}
    assert stage.status.counters.revocations == 0
    assert "digits-worker-1-1" in stage.members()


def test_b007_a_warning_that_passes_costs_nothing_and_counts_nothing() -> None:
    stage = on_stage()
    stage.warn_node("node-of-digits-worker-1-1")
    stage.settle()

    stage.reprieve_node("node-of-digits-worker-1-1")
    stage.settle()

    assert workers(stage) == NAMES
    assert not stage.warned
    counters = stage.status.counters
    assert (counters.revocations, counters.restarts, counters.failures) == (0, 0, 0)


def test_a_warned_worker_that_goes_leaves_its_place_to_the_replacement() -> None:
    stage = on_stage()
    stage.warn_node("node-of-digits-worker-1-1")
    stage.settle()

    stage.end_pod("digits-worker-1-1", 82, disruption="EvictionByEvictionAPI")
    stage.settle()

    assert "digits-worker-1-2" in stage.members()
    assert stage.status.counters.revocations == 1
    assert not stage.status.is_true(reasons.REPLACING)


def test_a_replacement_that_dies_before_the_warned_worker_is_counted_after_it() -> None:
    stage = on_stage()
    stage.warn_node("node-of-digits-worker-1-1")
    stage.settle()

    stage.lose_node("node-of-digits-worker-1-2")
    stage.settle()
    assert "digits-worker-1-3" in workers(stage)
    assert stage.status.counters.revocations == 0

    stage.lose_node("node-of-digits-worker-1-1")
    stage.settle()
    assert stage.status.counters.revocations == 2
    assert workers(stage) == sorted([NAMES[0], NAMES[2], "digits-worker-1-3"])


def test_the_notice_nearly_used_up_is_a_stop() -> None:
    stage = on_stage()
    stage.warn_node("node-of-digits-worker-1-1", key="aws-node-termination-handler/spot-itn")
    stage.settle()

    stage.wait(21)

    stops = [a for a in stage.actions if isinstance(a, Tell) and a.call == "stop"]
    assert stops
    assert {stop.worker for stop in stops} == {"digits-worker-1-1"}


def test_b001_at_most_one_dead_pod_is_kept_for_each_index() -> None:
    stage = on_stage()
    for number in range(1, 6):
        stage.end_pod(f"digits-worker-1-{number}", 143, reason="Terminated")
        stage.settle()

    dead = [pod for pod in stage.pods.values() if pod.ended]
    assert [pod.name for pod in dead] == ["digits-worker-1-5"]


def test_a_lost_coordinator_is_replaced_alone() -> None:
    stage = on_stage()

    stage.end_pod("digits-coordinator-0-1", 1)
    stage.settle()

    assert "digits-coordinator-0-2" in stage.pods
    assert stage.service == 2
    assert workers(stage) == NAMES
    counters = stage.status.counters
    assert (counters.restarts, counters.failures, counters.revocations) == (1, 0, 0)


def test_a_second_coordinator_is_never_made_beside_a_live_one() -> None:
    stage = on_stage()
    stage.warn_node("node-of-digits-coordinator-0-1")
    stage.settle()

    assert [n for n in stage.pods if "coordinator" in n] == ["digits-coordinator-0-1"]


def test_an_operator_that_died_between_pod_and_status_makes_no_second_pod() -> None:
    stage = Stage(make_job(), SPOT, ON_DEMAND)
    before = stage.status
    stage.pass_once()
    stage.status = before  # the write was lost

    stage.settle()

    assert workers(stage) == NAMES
    assert stage.status.attempts["worker-1"].last == 1


def test_b015_a_zombie_on_a_vanished_node_is_forced_away() -> None:
    stage = on_stage()
    pod = stage.pods["digits-worker-1-1"]
    stage.pods[pod.name] = replace(pod, deletion_requested=stage.now)
    stage.lose_node(pod.node)

    stage.pass_once()
    decision = stage.pass_once()

    forced = [a.name for a in decision.actions if isinstance(a, DeletePod) and a.force]
    assert forced == [pod.name]


@pytest.mark.parametrize("ended", [True, False])
def test_an_evicted_pod_whose_object_is_gone_already_is_still_a_revocation(*, ended: bool) -> None:
    stage = on_stage()
    node = "node-of-digits-worker-1-1"
    stage.warn_node(node)
    stage.settle()
    if ended:
        stage.end_pod("digits-worker-1-1", 82)
    pod = replace(stage.pods["digits-worker-1-1"], disruption="EvictionByEvictionAPI")
    stage.vanish_pod("digits-worker-1-1")
    stage.departed = (pod,)

    stage.settle()

    assert stage.status.counters.revocations == 1
    assert stage.status.counters.restarts == 0


def test_a_fresh_operator_waits_for_the_coordinator_s_word_before_it_decides() -> None:
    stage = on_stage()
    stage.lose_node("node-of-digits-worker-1-1")
    stage.settle()
    pods = tuple(replace(pod, ip="10.0.0.1") for pod in stage.pods.values())
    look = replace(stage.observe(), pods=pods, coordinator=CoordinatorView())

    decision = step(look, now=stage.now, settings=stage.settings)

    assert decision.actions == ()
    assert decision.status == stage.status
    assert decision.requeue_after is not None


def test_no_replacement_goes_while_nobody_knows_whether_the_older_one_is_there() -> None:
    stage = on_stage()
    stage.warn_node("node-of-digits-worker-1-1")
    stage.settle()
    stage.reprieve_node("node-of-digits-worker-1-1")
    error = CoordinatorView(error="no route", heard=stage.now)
    look = replace(stage.observe(), coordinator=error)

    decision = step(look, now=stage.now, settings=stage.settings)

    assert decision.status is not None
    assert decision.status.attempts["worker-1"].retired == ()


@pytest.mark.parametrize("way", ["silent", "unregistered"])
def test_a_replacement_goes_without_the_coordinator_s_word_where_nothing_has_trained_yet(
    way: str,
) -> None:
    stage = Stage(make_job(), SPOT, ON_DEMAND)
    setattr(stage, way, True)
    stage.settle()
    stage.warn_node("node-of-digits-worker-1-1")
    stage.settle()
    assert "digits-worker-1-2" in workers(stage)

    stage.reprieve_node("node-of-digits-worker-1-1")
    stage.settle()

    assert workers(stage) == NAMES


def test_running_does_not_flap_while_enough_members_re_form() -> None:
    stage = on_stage()
    stage.reforming = True

    stage.settle()

    assert stage.status.is_true(reasons.RUNNING)
    assert stage.status.display.ready == "3/3"


def test_running_is_false_while_too_few_members_hold_on() -> None:
    stage = on_stage()
    stage.reforming = True
    stage.full |= {"spot", "on-demand"}
    for index in (1, 2):
        stage.lose_node(f"node-of-digits-worker-{index}-1")

    stage.settle()

    assert not stage.status.is_true(reasons.RUNNING)
    assert stage.status.state == "Recovering"
