"""A job's life through `step` alone, on a stage that obeys its decisions."""

from dataclasses import replace
from datetime import timedelta

import pytest
from ebbtide.core.step import step
from ebbtide.core.values import reasons
from ebbtide.core.values.decision import CreatePod, DeletePod, EndPod, Tell
from ebbtide.core.values.job import BrokenJob, CleanPodPolicy
from ebbtide.core.values.observed import Role
from ebbtide.core.values.settings import Settings
from support.builders import ON_DEMAND, SPOT, make_job, make_pool
from support.stage import Stage, until

NAMES = ["digits-worker-0-1", "digits-worker-1-1", "digits-worker-2-1"]


def on_stage(**job: object) -> Stage:
    stage = Stage(make_job(**job), SPOT, ON_DEMAND)
    stage.settle()
    return stage


def workers(stage: Stage) -> list[str]:
    return sorted(p.name for p in stage.pods.values() if p.role is Role.WORKER)


def reason(stage: Stage, kind: str) -> str:
    condition = stage.status.condition(kind)
    return condition.reason if condition else ""


def test_the_first_look_sets_all_nine_conditions() -> None:
    stage = Stage(make_job(), SPOT, ON_DEMAND)
    stage.pass_once()

    assert {c.type for c in stage.status.conditions} >= set(reasons.LASTING)
    assert stage.status.observed_generation == 1
    assert stage.status.is_true(reasons.RECONCILING)
    assert not stage.status.is_true(reasons.RUNNING)


def test_a_job_runs_at_full_size_with_its_floor_on_demand() -> None:
    stage = on_stage()

    assert workers(stage) == NAMES
    assert [stage.pods[name].pool for name in NAMES] == ["on-demand", "spot", "spot"]
    assert stage.status.state == "Running"
    assert stage.status.display.ready == "3/3"
    assert stage.status.display.spot == "2/3"
    assert not stage.status.condition(reasons.RECONCILING)


def test_the_coordinator_goes_on_no_pool() -> None:
    made = [a for a in on_stage().actions if isinstance(a, CreatePod)]

    assert [a.pool for a in made if a.role is Role.COORDINATOR] == [None]


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


def test_a_crash_loop_ends_in_failed_by_the_backoff_limit() -> None:
    stage = on_stage(backoff_limit=2)

    for _ in range(3):
        until(stage, lambda s: any("worker-1" in m for m in s.members()), limit=400)
        name = next(name for name in stage.members() if "worker-1" in name)
        stage.now += timedelta(seconds=20)
        stage.end_pod(name, 1, exit_message="ValueError: no")
        stage.settle()

    assert stage.status.state == "Failed"
    assert reason(stage, reasons.FAILED) == "BackoffLimitExceeded"
    failed = stage.status.condition(reasons.FAILED)
    assert failed is not None
    assert "3 failures, backoffLimit is 2" in failed.message
    assert "ValueError: no" in failed.message
    assert stage.status.is_true(reasons.STALLED)


def test_a_failed_worker_waits_before_it_is_made_again() -> None:
    stage = on_stage()
    stage.end_pod("digits-worker-1-1", 1)
    stage.settle()
    assert "digits-worker-1-2" not in stage.pods

    stage.wait(9)
    assert "digits-worker-1-2" not in stage.pods
    stage.wait(2)

    assert "digits-worker-1-2" in stage.pods


def test_failures_of_one_generation_within_the_window_count_once() -> None:
    stage = on_stage()
    for name in NAMES:
        stage.end_pod(name, 1)
    stage.settle()

    assert stage.status.counters.failures == 1


def test_failures_apart_in_time_count_each() -> None:
    stage = on_stage(min_replicas=1)
    stage.end_pod(NAMES[1], 1)
    stage.settle()
    stage.wait(15)
    stage.end_pod(NAMES[2], 1)
    stage.settle()

    assert stage.status.counters.failures == 2


def test_many_revocations_never_use_up_the_backoff_limit() -> None:
    stage = on_stage(backoff_limit=0)

    for number in range(1, 51):
        stage.lose_node(f"node-of-digits-worker-2-{number}")
        stage.settle()

    assert stage.status.counters.revocations == 50
    assert stage.status.state == "Running"


def test_b001_at_most_one_dead_pod_is_kept_for_each_index() -> None:
    stage = on_stage()
    for number in range(1, 6):
        stage.end_pod(f"digits-worker-1-{number}", 143, reason="Terminated")
        stage.settle()

    dead = [pod for pod in stage.pods.values() if pod.ended]
    assert [pod.name for pod in dead] == ["digits-worker-1-5"]


def test_b005_a_node_that_refuses_every_pod_is_not_fed_in_a_tight_loop() -> None:
    stage = on_stage()
    stage.full.add("spot")
    stage.full.add("on-demand")
    stage.end_pod("digits-worker-1-1", 1, reason="OutOfnvidia.com/gpu")
    for number in range(2, 6):
        stage.wait(40)
        name = f"digits-worker-1-{number}"
        assert name in stage.pods
        stage.end_pod(name, 1, reason="UnexpectedAdmissionError", started=False)
        decision = stage.settle()

    assert decision.requeue_after is not None
    assert decision.requeue_after > timedelta(seconds=1)
    assert stage.status.counters.failures == 0


def test_complete_needs_the_work_done_and_every_member_gone() -> None:
    stage = on_stage()
    stage.at_step, stage.finished = 1000, True
    stage.settle()
    assert not stage.status.is_true(reasons.COMPLETE)

    stage.end_pod(NAMES[0], 0)
    stage.settle()
    assert not stage.status.is_true(reasons.COMPLETE)

    stage.end_pod(NAMES[1], 0)
    stage.end_pod(NAMES[2], 0)
    stage.settle()
    assert stage.status.is_true(reasons.COMPLETE)
    assert stage.status.progress.percentage == 100
    assert stage.status.completion is not None
    assert not stage.status.is_true(reasons.RUNNING)


def test_b019_a_member_lost_after_the_work_is_done_does_not_hold_completion_up() -> None:
    stage = on_stage()
    stage.at_step, stage.finished = 1000, True
    stage.settle()
    stage.end_pod(NAMES[0], 0)
    stage.end_pod(NAMES[1], 0)
    stage.lose_node("node-of-digits-worker-2-1")
    stage.settle()

    assert stage.status.counters.revocations == 1
    assert stage.status.is_true(reasons.COMPLETE)


def test_a_bad_exit_after_the_work_is_done_is_told_and_not_counted() -> None:
    stage = on_stage(backoff_limit=0)
    stage.at_step, stage.finished = 1000, True
    stage.settle()
    for name, code in zip(NAMES, (0, 1, 0), strict=True):
        stage.end_pod(name, code)
    stage.settle()

    assert stage.status.state == "Complete"
    assert stage.status.counters.failures == 0
    assert "LateExit" in [event.reason for event in stage.events]


def test_a_member_that_never_exits_holds_completion_up_for_finish_grace_only() -> None:
    stage = on_stage()
    stage.at_step, stage.finished = 1000, True
    stage.settle()

    stage.wait(299)
    assert not stage.status.is_true(reasons.COMPLETE)
    stage.wait(2)

    assert stage.status.is_true(reasons.COMPLETE)
    assert not workers(stage)


def test_exit_0_before_the_work_is_done_is_a_failure() -> None:
    stage = on_stage()

    stage.end_pod(NAMES[1], 0)
    stage.settle()

    assert stage.status.counters.failures == 1
    assert stage.status.last_failure is not None
    assert "WorkUnfinished" in stage.status.last_failure.message


def test_suspend_ends_every_pod_and_says_so_only_then() -> None:
    stage = on_stage()
    stage.job = replace(stage.job, suspend=True, generation=2)

    stage.pass_once()
    assert not stage.status.is_true(reasons.SUSPENDED)
    assert stage.status.state == "Suspending"
    stage.settle()

    assert not stage.pods
    assert stage.status.is_true(reasons.SUSPENDED)
    assert stage.status.state == "Suspended"
    assert stage.status.start is None
    counters = stage.status.counters
    assert (counters.revocations, counters.restarts, counters.failures) == (0, 0, 0)


def test_suspend_ends_the_coordinator_after_the_workers() -> None:
    stage = on_stage()
    stage.actions.clear()
    stage.job = replace(stage.job, suspend=True, generation=2)
    stage.settle()

    deleted = [a.name for a in stage.actions if isinstance(a, DeletePod)]
    assert deleted[-1] == "digits-coordinator-0-1"


def test_resume_makes_new_attempts_and_keeps_the_counters() -> None:
    stage = on_stage()
    stage.lose_node("node-of-digits-worker-1-1")
    stage.settle()
    stage.job = replace(stage.job, suspend=True, generation=2)
    stage.settle()

    stage.job = replace(stage.job, suspend=False, generation=3)
    stage.settle()

    assert workers(stage) == ["digits-worker-0-2", "digits-worker-1-3", "digits-worker-2-2"]
    assert stage.status.state == "Running"
    assert reason(stage, reasons.SUSPENDED) == "Resumed"
    assert stage.status.counters.revocations == 1
    assert not stage.status.is_true(reasons.REPLACING)


def test_created_suspended_makes_nothing() -> None:
    stage = on_stage(suspend=True)

    assert not stage.pods
    assert stage.status.is_true(reasons.SUSPENDED)
    assert stage.status.first_start is None


def test_the_kill_timer_runs_only_while_the_job_runs() -> None:
    stage = Stage(make_job(active_deadline=timedelta(seconds=60)), SPOT, ON_DEMAND)
    stage.full |= {"spot", "on-demand"}
    stage.wait(120)
    assert not stage.status.is_true(reasons.FAILED)
    assert stage.status.start is None

    stage.full.clear()
    stage.wait(59)
    assert not stage.status.is_true(reasons.FAILED)
    stage.wait(2)

    assert reason(stage, reasons.FAILED) == "DeadlineExceeded"


def test_b018_a_worker_without_capacity_moves_on_and_the_others_train() -> None:
    stage = Stage(make_job(), SPOT, ON_DEMAND)
    stage.full.add("spot")
    stage.job = replace(stage.job, min_replicas=1)
    stage.settle()
    assert stage.status.is_true(reasons.RUNNING)
    assert reason(stage, reasons.DEGRADED) == "NoCapacity"
    restarted = stage.pods["digits-worker-0-1"]

    stage.wait(301)

    assert stage.pods["digits-worker-0-1"].uid == restarted.uid
    assert stage.pods["digits-worker-1-2"].pool == "on-demand"
    assert stage.status.display.ready == "3/3"
    assert "FellBackToOnDemand" in [event.reason for event in stage.events]
    assert stage.status.counters.restarts == 0


def test_a_pending_pod_stays_when_there_is_nowhere_else_to_go() -> None:
    stage = Stage(make_job(on_demand_floor=0), SPOT)
    stage.full.add("spot")
    stage.wait(1000)

    assert workers(stage) == NAMES
    assert reason(stage, reasons.RUNNING) == "NoCapacity"
    assert not stage.status.is_true(reasons.STALLED)
    assert stage.status.is_true(reasons.RECONCILING)


def test_an_image_that_cannot_be_pulled_stalls_the_job_and_frees_its_nodes() -> None:
    stage = Stage(make_job(), SPOT, ON_DEMAND)
    stage.broken_image = True
    stage.wait(121)

    assert reason(stage, reasons.STALLED) == "ImagePullFailed"
    assert reason(stage, reasons.RUNNING) == "ImagePullFailed"
    assert not workers(stage)
    stalled = stage.status.condition(reasons.STALLED)
    assert stalled is not None
    assert "manifest unknown" in stalled.message
    stage.wait(600)
    assert not workers(stage)


def test_a_corrected_image_starts_the_job() -> None:
    stage = Stage(make_job(), SPOT, ON_DEMAND)
    stage.broken_image = True
    stage.wait(121)

    stage.broken_image = False
    stage.job = replace(stage.job, generation=2, template_hash="t2")
    stage.settle()

    assert stage.status.state == "Running"
    assert stage.status.condition(reasons.STALLED) is None


def test_a_changed_template_is_told_and_running_pods_go_on() -> None:
    stage = on_stage()

    stage.job = replace(stage.job, generation=2, template_hash="t2")
    stage.settle()

    assert reason(stage, reasons.STALLED) == "TemplateChanged"
    assert workers(stage) == NAMES
    assert stage.status.is_true(reasons.RUNNING)


def test_no_pool_that_fits_is_told_and_makes_nothing() -> None:
    stage = on_stage(pools=("nowhere",))

    assert not stage.pods
    assert reason(stage, reasons.PLANNED) == "NoPool"
    assert reason(stage, reasons.STALLED) == "NoPool"
    assert stage.status.first_start is None


def test_a_pool_that_comes_later_starts_the_job() -> None:
    stage = Stage(make_job(on_demand_floor=0))
    stage.settle()
    assert not stage.pods

    stage.pools = (SPOT,)
    stage.settle()

    assert stage.status.state == "Running"


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


def test_a_smaller_job_retires_its_highest_indexes() -> None:
    stage = on_stage()

    stage.job = replace(stage.job, max_replicas=2, generation=2)
    stage.settle()

    assert workers(stage) == NAMES[:2]
    assert stage.status.counters.restarts == 0
    assert stage.status.display.ready == "2/2"


@pytest.mark.parametrize("fate", ["complete", "failed"])
@pytest.mark.parametrize("policy", list(CleanPodPolicy))
def test_b020_what_stays_at_the_end_is_what_the_policy_says(
    policy: CleanPodPolicy, fate: str
) -> None:
    stage = on_stage(clean_pod_policy=policy, backoff_limit=0)
    if fate == "complete":
        stage.finish()
    else:
        stage.end_pod(NAMES[1], 1)
    stage.settle()

    running = [pod.name for pod in stage.pods.values() if not pod.ended]
    assert running == []
    match policy:
        case CleanPodPolicy.ALL:
            assert not stage.pods
            assert stage.service is None
        case CleanPodPolicy.RUNNING:
            expected = set(NAMES) if fate == "complete" else {NAMES[1]}
            assert set(stage.pods) == expected
        case CleanPodPolicy.NONE:
            assert set(stage.pods) == {*NAMES, "digits-coordinator-0-1"}
            assert any(isinstance(action, EndPod) for action in stage.actions)


def test_the_time_to_live_deletes_the_job() -> None:
    stage = on_stage(ttl_after_finished=timedelta(seconds=30))
    stage.finish()
    stage.settle()
    assert not stage.gone

    stage.wait(31)

    assert stage.gone


def test_a_job_that_others_manage_is_left_alone() -> None:
    stage = Stage(make_job(managed_by="kueue.x-k8s.io/multikueue"), SPOT)

    decision = stage.pass_once()

    assert decision.status is None
    assert decision.actions == ()


def test_a_manifest_that_cannot_be_read_is_told_with_its_paths() -> None:
    stage = Stage(make_job(), SPOT)
    job = stage.job
    broken = BrokenJob(
        key=job.key,
        uid=job.uid,
        generation=1,
        resource_version="1",
        managed_by="",
        errors=("spec.template.spec.containers[0].command: is missing",),
    )

    decision = step(replace(stage.observe(), job=broken), now=stage.now, settings=Settings())

    assert decision.status is not None
    stalled = decision.status.condition(reasons.STALLED)
    assert stalled is not None
    assert "containers[0].command" in stalled.message
    assert decision.actions == ()


def test_a_pod_that_the_server_refuses_is_told_and_not_counted() -> None:
    stage = Stage(make_job(), SPOT, ON_DEMAND)
    observed = replace(stage.observe(), rejected='Pod "digits-worker-0-1" is invalid: spec.x')

    decision = step(observed, now=stage.now, settings=Settings())

    assert decision.status is not None
    assert decision.status.is_true(reasons.STALLED)
    assert all(entry.last == 0 for entry in decision.status.attempts.values())


def test_b013_a_former_namesakes_pods_are_neither_counted_nor_collided_with() -> None:
    stage = Stage(make_job(), SPOT, ON_DEMAND)
    observed = replace(stage.observe(), former_attempts={"worker-0": 4, "coordinator-0": 1})

    decision = step(observed, now=stage.now, settings=Settings())

    made = {(a.role, a.index, a.attempt) for a in decision.actions if isinstance(a, CreatePod)}
    assert (Role.WORKER, 0, 5) in made
    assert (Role.COORDINATOR, 0, 2) in made
    assert decision.status is not None
    assert decision.status.counters.restarts == 0
    assert decision.status.attempts["worker-0"].judged == 4


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


def test_progress_alone_is_written_at_most_every_interval() -> None:
    stage = on_stage()
    stage.wait(20)
    written = stage.status

    stage.at_step += 1
    stage.pass_once()
    assert stage.status is written
    stage.now += timedelta(seconds=10)
    stage.pass_once()

    assert stage.status.progress.step == 1
