"""Warm spares: made, promoted, made again, given back; through `step` alone."""

from ebbtide.core.values import reasons
from ebbtide.core.values.decision import CreatePod
from support.builders import make_job
from support.stage import NAMES, Stage, on_stage, workers

SPARE = "digits-worker-3-1"


def spares(stage: Stage) -> list[str]:
    return sorted(set(workers(stage)) - set(stage.members()))


def test_spares_have_an_index_of_their_own_and_do_not_train() -> None:
    stage = on_stage(spares=2)

    assert workers(stage) == sorted([*NAMES, SPARE, "digits-worker-4-1"])
    assert stage.members() == tuple(NAMES)
    assert stage.work is not None
    assert stage.work.desired == 3
    assert (stage.status.replicas.desired, stage.status.replicas.spares) == (3, 2)
    assert "2 more as spares" in stage.status.condition(reasons.PLANNED).message  # type: ignore[union-attr]  # it is there


def test_a_spare_stands_in_for_a_lost_worker_whose_next_attempt_is_the_new_spare() -> None:
    stage = on_stage(spares=1)

    stage.lose_node("node-of-digits-worker-1-1")
    stage.pass_once()
    at_once = stage.members()
    stage.settle()

    assert at_once == (NAMES[0], NAMES[2], SPARE)
    assert stage.members() == at_once
    assert spares(stage) == ["digits-worker-1-2"]
    assert stage.status.replicas.spares == 1
    assert stage.status.counters.revocations == 1
    assert stage.status.state == "Running"
    assert not stage.status.is_true(reasons.REPLACING)
    assert not stage.status.is_true(reasons.DEGRADED)


def test_a_job_at_rest_with_a_promoted_spare_decides_nothing_more() -> None:
    stage = on_stage(spares=1)
    stage.lose_node("node-of-digits-worker-1-1")
    stage.settle()
    stage.actions.clear()

    stage.pass_once()

    assert stage.actions == []
    assert not any(entry.lost for entry in stage.status.attempts.values())


def test_two_losses_in_a_row_are_made_good_by_one_spare_after_the_other() -> None:
    stage = on_stage(spares=1)

    for name in ("digits-worker-1-1", SPARE):
        stage.lose_node(f"node-of-{name}")
        stage.settle()

    assert len(stage.members()) == 3
    assert len(spares(stage)) == 1
    assert stage.status.counters.revocations == 2


def test_a_lost_spare_is_made_again_and_nobody_is_missing() -> None:
    stage = on_stage(spares=1)

    stage.lose_node(f"node-of-{SPARE}")
    decision = stage.pass_once()

    made = [action for action in decision.actions if isinstance(action, CreatePod)]
    assert [(action.index, action.attempt) for action in made] == [(3, 2)]
    assert not stage.status.is_true(reasons.REPLACING)
    assert stage.members() == tuple(NAMES)


def test_spares_that_are_not_wanted_any_more_are_given_back() -> None:
    stage = on_stage(spares=1)

    stage.job = make_job(spares=0, generation=2)
    stage.settle()

    assert workers(stage) == NAMES
    assert stage.members() == tuple(NAMES)


def test_without_a_plan_nobody_can_say_that_a_spare_pays() -> None:
    assert workers(on_stage(spares=None)) == NAMES
