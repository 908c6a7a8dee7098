"""Laws of `step` for jobs whose scripts are on their own terms, for every history."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.values import reasons
from ebbtide.core.values.decision import CreatePod, DeletePod
from ebbtide.core.values.job import Launcher
from ebbtide.core.values.observed import Role
from support.acts import OPERATOR, PROVIDER, Act, acts, play
from support.builders import ON_DEMAND, SPOT, make_job
from support.stage import Stage

SCRIPT = ("crash", "leave", "early exit")
USER = ("vanish", "suspend", "resume")
LAUNCHERS = st.sampled_from([Launcher.TORCHRUN, Launcher.COMMAND])


def begin(launcher: Launcher, *, backoff_limit: int = 1000) -> Stage:
    job = make_job(launcher=launcher, steps=0, global_batch_size=0, backoff_limit=backoff_limit)
    stage = Stage(job, SPOT, ON_DEMAND)
    stage.settle()
    return stage


def story(script: list[Act], launcher: Launcher, *, backoff_limit: int = 1000) -> Stage:
    stage = begin(launcher, backoff_limit=backoff_limit)
    for act, number in script:
        play(stage, act, number)
        stage.settle()
    return stage


@given(acts(*PROVIDER, *SCRIPT, *USER, *OPERATOR), LAUNCHERS)
def test_at_rest_a_second_step_decides_nothing(script: list[Act], launcher: Launcher) -> None:
    stage = story(script, launcher)
    status, pods = stage.status, dict(stage.pods)

    decision = stage.pass_once()

    assert (stage.status, stage.pods) == (status, pods)
    assert not [a for a in decision.actions if isinstance(a, CreatePod | DeletePod)]


@given(acts(*PROVIDER, "vanish", *OPERATOR), LAUNCHERS)
def test_what_the_provider_does_is_never_a_failure(script: list[Act], launcher: Launcher) -> None:
    stage = story(script, launcher, backoff_limit=0)

    assert stage.status.counters.failures == 0
    assert not stage.status.is_true(reasons.FAILED)


@given(acts(*PROVIDER, *SCRIPT, *USER, *OPERATOR), LAUNCHERS)
def test_it_is_complete_exactly_when_every_index_is_done(
    script: list[Act], launcher: Launcher
) -> None:
    stage = story(script, launcher)
    done = [stage.status.attempts[f"worker-{index}"].done for index in range(3)]

    if not stage.job.suspend:
        assert stage.status.is_true(reasons.COMPLETE) == all(done)
    assert not (stage.status.is_true(reasons.COMPLETE) and stage.status.is_true(reasons.FAILED))


@given(acts(*PROVIDER, *SCRIPT, *OPERATOR), LAUNCHERS)
def test_who_is_done_is_never_made_again_and_all_others_are(
    script: list[Act], launcher: Launcher
) -> None:
    stage = begin(launcher)
    done: dict[str, int] = {}
    for act, number in script:
        play(stage, act, number)
        stage.settle()
        for key, entry in stage.status.attempts.items():
            assert key not in done or entry.last == done[key]
            if entry.done:
                done[key] = entry.last
    stage.wait(400)

    alive = {pod.index for pod in stage.pods.values() if pod.role is Role.WORKER and not pod.ended}
    assert (
        stage.status.is_true(reasons.COMPLETE)
        or {index for index in range(3) if f"worker-{index}" not in done} <= alive
    )


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 40)), min_size=3, max_size=6))
def test_a_failure_excuses_each_other_worker_once_at_most(ends: list[tuple[int, int]]) -> None:
    stage = begin(Launcher.TORCHRUN)
    for index, seconds in ends:
        stage.wait(seconds)
        for pod in list(stage.pods.values()):
            if pod.role is Role.WORKER and pod.index == index and not pod.ended:
                stage.end_pod(pod.name, 1)
                stage.now += timedelta(seconds=0.1)
        stage.settle()
    counters = stage.status.counters

    assert counters.restarts <= 2 * counters.failures
