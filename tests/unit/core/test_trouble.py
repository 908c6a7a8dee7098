"""What only a human, or patience, can help: through `step` alone."""

from dataclasses import replace
from datetime import timedelta

from ebbtide.core.step import step
from ebbtide.core.values import reasons
from ebbtide.core.values.decision import CreatePod
from ebbtide.core.values.job import BrokenJob
from ebbtide.core.values.observed import Role
from ebbtide.core.values.settings import Settings
from support.builders import ON_DEMAND, SPOT, make_job
from support.stage import NAMES, Stage, on_stage, reason, workers


def test_the_coordinator_goes_on_no_pool() -> None:
    made = [a for a in on_stage().actions if isinstance(a, CreatePod)]

    assert [a.pool for a in made if a.role is Role.COORDINATOR] == [None]


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


def test_b018_a_worker_without_capacity_moves_on_and_the_others_train() -> None:
    stage = Stage(make_job(), SPOT, ON_DEMAND)
    stage.full.add("spot")
    stage.job = replace(stage.job, min_replicas=1)
    stage.settle()
    assert stage.status.is_true(reasons.RUNNING)
    assert reason(stage, reasons.DEGRADED) == "BelowTarget"
    restarted = stage.pods["digits-worker-0-1"]

    stage.wait(301)

    assert stage.pods["digits-worker-0-1"].uid == restarted.uid
    assert stage.pods["digits-worker-1-2"].pool == "on-demand"
    assert stage.status.display.ready == "3/3"
    assert "FellBackToOnDemand" in [event.reason for event in stage.events]
    assert stage.status.counters.restarts == 0


def test_a_wait_is_called_a_lack_of_capacity_only_when_it_is_long() -> None:
    stage = Stage(make_job(), SPOT, ON_DEMAND)
    stage.full |= {"spot", "on-demand"}
    stage.settle()
    assert reason(stage, reasons.RUNNING) == "Starting"

    stage.wait(301)

    assert reason(stage, reasons.RUNNING) == "NoCapacity"
    assert [e.reason for e in stage.events].count("NoCapacity") == 1


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
