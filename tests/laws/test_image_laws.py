"""Whatever becomes of images and nodes, a warm image that cannot be pulled costs no worker."""

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.values import reasons
from support.builders import ON_DEMAND, SPOT, make_job
from support.stage import Stage, workers

WARM = "registry.example/warm:2"
BASE = "registry.example/train:1"
TEMPLATE = {"spec": {"containers": [{"name": "trainer", "image": BASE}]}}

ACTS = st.lists(st.sampled_from(["break", "mend", "lose", "wait"]), max_size=8)


def play(stage: Stage, act: str) -> None:
    match act:
        case "break":
            stage.unpullable.add(WARM)
        case "mend":
            stage.unpullable.discard(WARM)
        case "lose":
            on_nodes = [stage.pods[name].node for name in workers(stage)]
            if on_nodes and on_nodes[0] in stage.nodes:
                stage.lose_node(on_nodes[0])
        case _:
            stage.wait(30)


@given(ACTS)
def test_a_job_with_a_warm_image_trains_through_all_that_becomes_of_it(acts: list[str]) -> None:
    stage = Stage(make_job(template=TEMPLATE, warm_image=WARM), SPOT, ON_DEMAND)
    for act in acts:
        play(stage, act)
        stage.settle()
    stage.wait(30)

    assert stage.status.is_true(reasons.RUNNING)
    assert len(stage.members()) == 3
    assert stage.status.counters.failures == stage.status.counters.restarts == 0
    assert stage.status.counters.revocations <= acts.count("lose")
    refused = [event for event in stage.events if event.reason == reasons.WARM_IMAGE_REFUSED]
    assert len(refused) == int(stage.status.refused_image is not None)
    assert "break" in acts or not refused
    made = len(stage.actions)
    stage.settle()
    assert len(stage.actions) == made
