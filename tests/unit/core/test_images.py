"""The warm image of workers: used while it can be pulled, done without when it cannot."""

from dataclasses import replace

import pytest

from ebbtide.core.values import reasons
from ebbtide.core.values.observed import Pod, Role
from support.builders import ON_DEMAND, SPOT, make_job
from support.stage import NAMES, Stage, reason, workers

WARM = "registry.example/warm:2"
BASE = "registry.example/train:1"
TEMPLATE = {"spec": {"containers": [{"name": "trainer", "image": BASE}]}}


def stage_with(warm: str = WARM, **changes: object) -> Stage:
    job = make_job(template=TEMPLATE, warm_image=warm, **changes)
    return Stage(job, SPOT, ON_DEMAND)


def images(stage: Stage) -> dict[str, str]:
    return {name: stage.images[name] for name in workers(stage)}


def told(stage: Stage) -> list[str]:
    return [event.message for event in stage.events if event.reason == reasons.WARM_IMAGE_REFUSED]


def test_workers_get_the_warm_image_and_nobody_else_does() -> None:
    stage = stage_with()
    stage.settle()

    assert images(stage) == dict.fromkeys(NAMES, WARM)
    assert stage.images["digits-coordinator-0-1"] == ""
    assert stage.status.refused_image is None


def test_without_one_workers_get_the_templates() -> None:
    stage = stage_with("")
    stage.settle()

    assert images(stage) == dict.fromkeys(NAMES, "")


def test_a_job_whose_warm_image_cannot_be_pulled_starts_with_the_templates() -> None:
    stage = stage_with()
    stage.unpullable.add(WARM)
    stage.settle()

    assert images(stage) == {f"digits-worker-{index}-2": "" for index in range(3)}
    assert stage.status.is_true(reasons.RUNNING)
    assert stage.status.condition(reasons.STALLED) is None
    [message] = told(stage)
    assert WARM in message
    assert BASE in message
    assert "ImagePullBackOff: manifest unknown" in message
    refused = stage.status.refused_image
    assert refused is not None
    assert refused.image == WARM
    assert stage.status.counters == type(stage.status.counters)()


def test_b061_a_warm_image_that_vanishes_is_told_and_costs_the_others_nothing() -> None:
    stage = stage_with()
    stage.settle()
    stage.unpullable.add(WARM)
    stage.lose_node("node-of-digits-worker-1-1")
    stage.wait(120)

    assert images(stage) == {
        "digits-worker-0-1": WARM,
        "digits-worker-1-3": "",
        "digits-worker-2-1": WARM,
    }
    running = stage.status.condition(reasons.RUNNING)
    assert running is not None
    assert running.status == "True"
    assert running.message == (
        f"3 of 3 workers train; warmStart.image {WARM} cannot be pulled, "
        f"workers use the template's {BASE}"
    )
    assert len(told(stage)) == 1
    assert stage.status.counters.revocations == 1
    assert stage.status.counters.restarts == stage.status.counters.failures == 0


def test_it_is_tried_again_when_another_one_is_named_and_not_before() -> None:
    stage = stage_with()
    stage.unpullable.add(WARM)
    stage.settle()
    stage.unpullable.clear()
    stage.lose_node("node-of-digits-worker-1-2")
    stage.wait(60)
    assert stage.images["digits-worker-1-3"] == ""

    stage.job = replace(stage.job, warm_image="registry.example/warm:3", generation=2)
    stage.lose_node("node-of-digits-worker-1-3")
    stage.wait(60)

    assert stage.images["digits-worker-1-4"] == "registry.example/warm:3"
    assert stage.status.refused_image is None
    assert "cannot be pulled" not in str(stage.status.condition(reasons.RUNNING))


def test_a_template_that_cannot_be_pulled_either_stalls_the_job() -> None:
    stage = stage_with()
    stage.unpullable |= {WARM, BASE}
    stage.wait(130)

    assert reason(stage, reasons.STALLED) == reasons.IMAGE_PULL_FAILED
    assert not workers(stage)


def test_a_warm_image_that_is_the_templates_own_has_nothing_to_fall_back_to() -> None:
    stage = stage_with(BASE)
    stage.unpullable.add(BASE)
    stage.wait(130)

    assert reason(stage, reasons.STALLED) == reasons.IMAGE_PULL_FAILED
    assert stage.status.refused_image is None
    assert not told(stage)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"waiting_image": "registry.example/sidecar:1"}, id="another image"),
        pytest.param({"waiting_reason": "ContainerCreating"}, id="it only starts"),
    ],
)
def test_a_wait_for_something_else_says_nothing_against_the_warm_image(
    changes: dict[str, str],
) -> None:
    stage = stage_with()
    stage.settle()
    waiting = {
        "started": False,
        "waiting_reason": "ErrImagePull",
        "waiting_image": WARM,
        **changes,
    }
    for name, pod in stage.pods.items():
        if pod.role is Role.WORKER:
            stage.pods[name] = _changed(pod, waiting)

    stage.pass_once()

    assert stage.status.refused_image is None


def _changed(pod: Pod, changes: dict[str, object]) -> Pod:
    return replace(pod, **changes)  # type: ignore[arg-type]  # fields of Pod


def test_what_was_refused_is_remembered_through_a_pause() -> None:
    stage = stage_with()
    stage.unpullable.add(WARM)
    stage.settle()

    stage.job = replace(stage.job, suspend=True, generation=2)
    stage.wait(60)
    stage.job = replace(stage.job, suspend=False, generation=3)
    stage.wait(60)

    assert stage.status.is_true(reasons.RUNNING)
    assert set(images(stage).values()) == {""}
    assert len(told(stage)) == 1
