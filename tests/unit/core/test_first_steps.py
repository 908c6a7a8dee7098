"""A job that starts, runs and changes size: through `step` alone."""

from dataclasses import replace
from datetime import timedelta

from ebbtide.core.values import reasons
from support.builders import ON_DEMAND, SPOT, make_job
from support.stage import NAMES, Stage, on_stage, workers


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


def test_a_smaller_job_retires_its_highest_indexes() -> None:
    stage = on_stage()

    stage.job = replace(stage.job, max_replicas=2, generation=2)
    stage.settle()

    assert workers(stage) == NAMES[:2]
    assert stage.status.counters.restarts == 0
    assert stage.status.display.ready == "2/2"


def test_b034_a_job_follows_its_bounds_up_and_down_without_touching_who_stays() -> None:
    stage = Stage(make_job(min_replicas=3, max_replicas=3), SPOT, ON_DEMAND)
    stage.settle()
    for size in (6, 4, 3):
        stage.job = replace(stage.job, max_replicas=size, generation=stage.job.generation + 1)
        stage.settle()

        assert workers(stage) == [f"digits-worker-{index}-1" for index in range(size)]
        assert stage.work is not None
        assert (stage.work.min_replicas, stage.work.desired) == (3, size)
    assert stage.status.counters.restarts == 0


def test_b034_a_worker_that_has_not_started_at_the_end_is_withdrawn() -> None:
    stage = on_stage(max_replicas=4)
    stage.full.add("spot")
    stage.job = replace(stage.job, max_replicas=5, generation=2)
    stage.settle()
    assert "digits-worker-4-1" in stage.pods

    stage.finish()
    stage.settle()

    assert stage.status.is_true(reasons.COMPLETE)
    assert "digits-worker-4-1" not in stage.pods


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
