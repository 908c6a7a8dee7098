"""Pools that gave no node, for jobs whose size is given: who comes next does not wait there."""

from ebbtide.core.values import reasons
from support.builders import ON_DEMAND, SPOT, make_job, make_pool
from support.stage import Stage, reason


def in_a_drought() -> Stage:
    """Two workers that waited for spot in vain, and run on on-demand."""
    stage = Stage(make_job(max_replicas=2, on_demand_floor=0), SPOT, ON_DEMAND)
    stage.full = {"spot"}
    stage.wait(400)
    assert pools(stage) == ["on-demand", "on-demand"]
    return stage


def pools(stage: Stage) -> list[str]:
    return sorted(stage.pods[name].pool for name in stage.members())


def lose_one(stage: Stage) -> None:
    stage.lose_node(stage.pods[stage.members()[0]].node)


def test_b085_a_successor_does_not_wait_where_its_predecessor_did() -> None:
    stage = in_a_drought()

    lose_one(stage)
    stage.settle()

    assert pools(stage) == ["on-demand", "on-demand"]


def test_b085_the_pool_is_tried_again_when_its_time_is_over() -> None:
    stage = in_a_drought()
    stage.full = set()
    stage.wait(700)

    lose_one(stage)
    stage.settle()

    assert pools(stage) == ["on-demand", "spot"]


def test_what_is_left_out_is_told_as_long_as_it_is() -> None:
    stage = in_a_drought()
    during = stage.status.condition(reasons.PLANNED)
    stage.wait(700)
    after = stage.status.condition(reasons.PLANNED)

    assert reason(stage, reasons.PLANNED) == reasons.MANUAL_SIZE
    assert during is not None
    assert during.message.startswith("no node comes from spot: ")
    assert after is not None
    assert "no node comes" not in after.message


def test_a_pool_that_is_none_of_the_job_s_is_not_mentioned() -> None:
    other = make_pool("other")
    stage = Stage(make_job(max_replicas=2, pools=("spot", "on-demand")), SPOT, ON_DEMAND, other)
    stage.pasts["other"] = in_a_drought().pasts["spot"]
    stage.settle()

    planned = stage.status.condition(reasons.PLANNED)
    assert planned is not None
    assert "other" not in planned.message
