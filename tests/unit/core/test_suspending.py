"""Suspend and resume: through `step` alone."""

from dataclasses import replace

from ebbtide.core.values import reasons
from ebbtide.core.values.decision import DeletePod
from support.stage import on_stage, reason, workers


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
