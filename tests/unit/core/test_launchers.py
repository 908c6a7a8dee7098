"""Jobs whose scripts are on their own terms: only readiness and exits of pods are known."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from ebbtide.core.step import step
from ebbtide.core.values import reasons
from ebbtide.core.values.decision import CreatePod
from ebbtide.core.values.job import Launcher
from ebbtide.core.values.objective import Objective, PlanMode
from ebbtide.core.values.observed import Role
from ebbtide.core.values.settings import Settings
from support.builders import ON_DEMAND, SPOT, make_job, make_view
from support.knowing import Known
from support.stage import NAMES, Stage, reason, workers

BOTH = pytest.mark.parametrize("launcher", [Launcher.TORCHRUN, Launcher.COMMAND])


def on_stage(launcher: Launcher = Launcher.TORCHRUN, **job: Any) -> Stage:
    made = make_job(launcher=launcher, steps=0, global_batch_size=0, **job)
    stage = Stage(made, SPOT, ON_DEMAND, knowledge=Known())
    stage.settle()
    return stage


def message(stage: Stage, kind: str) -> str:
    found = stage.status.condition(kind)
    return found.message if found else ""


@BOTH
def test_it_runs_when_enough_pods_are_ready(launcher: Launcher) -> None:
    stage = on_stage(launcher)

    assert stage.status.state == "Running"
    assert (stage.status.replicas.ready, stage.status.replicas.desired) == (3, 3)
    assert stage.status.progress.steps == 0
    assert stage.status.display.progress == ""


@BOTH
def test_the_size_is_fixed_and_the_reason_says_why(launcher: Launcher) -> None:
    stage = on_stage(launcher)

    assert reason(stage, reasons.PLANNED) == "FixedSize"
    assert f"launcher {launcher} tells no progress" in message(stage, reasons.PLANNED)
    assert "planMode Manual and elasticPolicy.replicas set one" in message(stage, reasons.PLANNED)
    assert stage.status.plan is None


def test_a_size_given_by_hand_is_kept() -> None:
    stage = on_stage(plan_mode=PlanMode.MANUAL, replicas=2)

    assert stage.status.replicas.desired == 2
    assert reason(stage, reasons.PLANNED) == "ManualSize"


def test_a_goal_cannot_be_forecast() -> None:
    stage = on_stage(objective=Objective(budget_usd=Decimal("5.00")))

    found = stage.status.condition(reasons.GOAL_AT_RISK)
    assert found is not None
    assert (found.status, found.reason) == ("Unknown", "NoForecast")


def test_a_plain_command_has_no_coordinator() -> None:
    stage = on_stage(Launcher.COMMAND)

    assert {pod.role for pod in stage.pods.values()} == {Role.WORKER}
    assert not stage.secret


def test_a_torchrun_job_meets_through_one() -> None:
    stage = on_stage()

    assert stage.work is not None
    assert (stage.work.steps, stage.work.regroup) == (0, 30.0)


@BOTH
def test_it_is_complete_when_every_index_has_exited_0(launcher: Launcher) -> None:
    stage = on_stage(launcher)
    for name in NAMES[:2]:
        stage.end_pod(name, 0)
        stage.settle()
        assert not stage.status.is_true(reasons.COMPLETE)
        assert name.replace("-1", "-2") not in stage.pods

    stage.end_pod(NAMES[2], 0)
    stage.settle()

    assert stage.status.state == "Complete"
    assert message(stage, reasons.COMPLETE) == "the newest attempt of each of 3 workers exited 0"
    assert stage.status.counters.failures == 0


@BOTH
def test_who_is_done_is_not_missed_while_others_work_on(launcher: Launcher) -> None:
    stage = on_stage(launcher)

    for name in NAMES[:2]:
        stage.end_pod(name, 0)
    stage.wait(100)

    assert stage.status.is_true(reasons.RUNNING)
    assert not stage.status.is_true(reasons.DEGRADED)
    assert workers(stage) == NAMES


def test_those_who_are_left_may_meet_without_those_who_are_done() -> None:
    stage = on_stage()

    for name in NAMES[:2]:
        stage.end_pod(name, 0)
    stage.settle()

    assert stage.work is not None
    assert stage.work.min_replicas == 1


def test_who_leaves_after_the_end_gets_no_replacement_before_its_exit_is_seen() -> None:
    stage = on_stage()
    look = stage.observe()
    report = look.coordinator.report
    assert report is not None
    left = tuple(msgspec.structs.replace(worker, state="left") for worker in report.workers)
    done = msgspec.structs.replace(report, finished=True, workers=left)

    decision = step(
        replace(look, coordinator=make_view(done, heard=stage.now)),
        now=stage.now,
        settings=stage.settings,
        knowledge=Known(),
    )

    assert not [action for action in decision.actions if isinstance(action, CreatePod)]


@BOTH
def test_lost_pods_alone_are_replaced(launcher: Launcher) -> None:
    stage = on_stage(launcher)

    stage.lose_node("node-of-digits-worker-1-1")
    stage.settle()

    assert "digits-worker-1-2" in stage.pods
    assert {NAMES[0], NAMES[2]} <= set(stage.pods)
    assert stage.status.counters.revocations == 1


@BOTH
def test_who_exits_badly_after_anothers_loss_is_not_to_blame(launcher: Launcher) -> None:
    stage = on_stage(launcher)
    stage.lose_node("node-of-digits-worker-1-1")
    stage.settle()
    stage.now += timedelta(seconds=40)

    stage.end_pod(NAMES[0], 1)
    stage.settle()

    counters = stage.status.counters
    assert (counters.revocations, counters.restarts, counters.failures) == (1, 1, 0)
    assert "digits-worker-0-2" in stage.pods  # at once
    assert any("after the loss of worker-1" in event.message for event in stage.events)


def test_loss_and_aftermath_seen_in_one_look_are_told_apart() -> None:
    stage = on_stage()
    stage.end_pod(NAMES[0], 1)
    stage.now += timedelta(seconds=2)

    stage.lose_node("node-of-digits-worker-1-1")
    stage.settle()

    assert (stage.status.counters.revocations, stage.status.counters.restarts) == (1, 1)


def test_a_bad_exit_long_after_a_loss_is_a_failure() -> None:
    stage = on_stage()
    stage.lose_node("node-of-digits-worker-1-1")
    stage.settle()
    stage.now += timedelta(seconds=61)

    stage.end_pod(NAMES[0], 1)
    stage.settle()

    assert stage.status.counters.failures == 1


def test_of_pods_that_fail_together_one_failed_and_the_others_followed() -> None:
    stage = on_stage()

    for name in NAMES:
        stage.end_pod(name, 3)
    stage.settle()

    assert (stage.status.counters.failures, stage.status.counters.restarts) == (1, 2)


def test_pods_that_always_fail_do_not_excuse_each_other_for_ever() -> None:
    settings = Settings(failure_delay=timedelta(seconds=1))
    made = make_job(launcher=Launcher.TORCHRUN, steps=0, global_batch_size=0, backoff_limit=3)
    stage = Stage(made, SPOT, ON_DEMAND, settings=settings)
    stage.settle()

    for _ in range(12):
        for pod in list(stage.pods.values()):
            if pod.role is Role.WORKER and not pod.ended:
                stage.end_pod(pod.name, 1)
        stage.wait(10)
        if stage.status.state == "Failed":
            break

    assert stage.status.state == "Failed"
    assert reason(stage, reasons.FAILED) == "BackoffLimitExceeded"


def test_b052_one_worker_that_always_fails_uses_up_the_backoff_limit() -> None:
    settings = Settings(failure_delay=timedelta(seconds=1))
    made = make_job(launcher=Launcher.TORCHRUN, steps=0, global_batch_size=0, backoff_limit=2)
    stage = Stage(made, SPOT, ON_DEMAND, settings=settings)

    for attempt in (1, 2, 3):
        name = f"digits-worker-1-{attempt}"
        stage.wait(5)
        stage.end_pod(name, 1)
        stage.settle()

    assert stage.status.counters.failures == 3
    assert stage.status.state == "Failed"


def test_a_warned_torchrun_worker_gets_a_replacement_beside_it() -> None:
    stage = on_stage()

    stage.warn_node("node-of-digits-worker-1-1")
    stage.settle()

    assert {"digits-worker-1-1", "digits-worker-1-2"} <= set(stage.pods)
    assert stage.status.replicas.ready == 3


def test_of_a_plain_command_no_two_of_an_index_run_at_a_time() -> None:
    stage = on_stage(Launcher.COMMAND)
    stage.wait(5)

    stage.warn_node("node-of-digits-worker-1-1")
    stage.settle()
    assert workers(stage) == NAMES

    stage.end_pod("digits-worker-1-1", 143, disruption="TerminationByKubelet")
    stage.settle()
    assert "digits-worker-1-2" in stage.pods
    assert stage.status.counters.revocations == 1


@BOTH
def test_suspend_ends_every_pod_and_resume_starts_those_that_are_not_done(
    launcher: Launcher,
) -> None:
    stage = on_stage(launcher)
    stage.end_pod(NAMES[0], 0)
    stage.settle()

    stage.job = replace(stage.job, suspend=True)
    stage.settle()
    assert stage.status.state == "Suspended"
    stage.job = replace(stage.job, suspend=False)
    stage.settle()

    assert workers(stage) == ["digits-worker-1-2", "digits-worker-2-2"]
    assert stage.status.is_true(reasons.RUNNING)


@BOTH
def test_at_rest_nothing_is_made_again(launcher: Launcher) -> None:
    stage = on_stage(launcher)
    made = len([action for action in stage.actions if isinstance(action, CreatePod)])

    stage.wait(300)

    assert len([action for action in stage.actions if isinstance(action, CreatePod)]) == made
