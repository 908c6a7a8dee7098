"""How a job ends, and what stays: through `step` alone."""

from datetime import timedelta

import pytest

from ebbtide.core.values import reasons
from ebbtide.core.values.decision import EndPod
from ebbtide.core.values.job import CleanPodPolicy
from ebbtide.core.values.settings import Settings
from support.builders import ON_DEMAND, SPOT, make_job
from support.stage import NAMES, Stage, on_stage, reason, until, workers


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


def test_a_worker_that_fails_again_within_the_window_has_failed_twice() -> None:
    settings = Settings(failure_delay=timedelta(seconds=1), failure_window=timedelta(seconds=10))
    stage = Stage(make_job(backoff_limit=2), SPOT, ON_DEMAND, settings=settings)
    for attempt in (1, 2, 3):
        name = f"digits-worker-1-{attempt}"
        stage.wait(0 if name in stage.pods else 5)
        stage.end_pod(name, 1)
        stage.settle()

    assert stage.status.counters.failures == 3
    assert stage.status.state == "Failed"


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
