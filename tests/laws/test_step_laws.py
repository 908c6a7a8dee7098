"""Laws of `step` for every history: what a provider, a user and a script can do in any order."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.lifecycle.ledger import is_live
from ebbtide.core.lifecycle.signs import read_sign
from ebbtide.core.step import step
from ebbtide.core.values import reasons
from ebbtide.core.values.decision import CreatePod, DeletePod
from ebbtide.core.values.observed import Pod, Role
from ebbtide.core.values.status import Attempts
from support.acts import OPERATOR, PROVIDER, Act, acts, play
from support.builders import ON_DEMAND, SPOT, make_job
from support.stage import Stage

SCRIPT = ("crash", "leave", "early exit", "finish")
USER = ("vanish", "suspend", "resume", "shrink", "grow", "servers")


def story(script: list[Act], **job: object) -> Stage:
    stage = Stage(make_job(**job), SPOT, ON_DEMAND)
    stage.settle()
    for act, number in script:
        play(stage, act, number)
        stage.settle()
    return stage


@given(acts(*PROVIDER, *SCRIPT, *USER, *OPERATOR))
def test_at_rest_a_second_step_decides_nothing(script: list[Act]) -> None:
    stage = story(script)
    status, pods = stage.status, dict(stage.pods)

    decision = stage.pass_once()

    assert stage.status == status
    assert stage.pods == pods
    assert not [a for a in decision.actions if isinstance(a, CreatePod | DeletePod)]
    assert decision.events == ()


@given(acts(*PROVIDER, *SCRIPT, *USER, *OPERATOR))
def test_at_rest_with_servers_a_second_step_decides_nothing(script: list[Act]) -> None:
    stage = story(script, servers=2)
    status, pods = stage.status, dict(stage.pods)

    decision = stage.pass_once()

    assert (stage.status, stage.pods) == (status, pods)
    assert not [a for a in decision.actions if isinstance(a, CreatePod | DeletePod)]
    assert decision.events == ()


@given(acts(*PROVIDER, "vanish", "shrink", "grow", "servers", *OPERATOR))
def test_every_server_is_there_once_again_whatever_was_taken(script: list[Act]) -> None:
    stage = story(script, servers=2, backoff_limit=0)
    stage.wait(120)

    wanted = list(range(stage.job.servers or 0))
    assert sorted(pod.index for pod in live(stage, role=Role.SERVER)) == wanted
    assert stage.status.counters.failures == 0


@given(acts(*PROVIDER, *SCRIPT, *USER, *OPERATOR))
def test_the_same_look_gives_the_same_decision(script: list[Act]) -> None:
    stage = story(script)
    look = stage.observe()

    first = step(look, now=stage.now, settings=stage.settings)

    assert first == step(look, now=stage.now, settings=stage.settings)


@given(acts(*PROVIDER, *SCRIPT, *USER, *OPERATOR))
def test_complete_and_failed_are_never_both_true_and_stay(script: list[Act]) -> None:
    stage = Stage(make_job(backoff_limit=1), SPOT, ON_DEMAND)
    ended = False
    for act, number in script:
        play(stage, act, number)
        stage.settle()
        status = stage.status
        both = [status.is_true(reasons.COMPLETE), status.is_true(reasons.FAILED)]
        assert sum(both) <= 1
        assert not ended or any(both)
        ended = any(both)
        if ended:
            assert not status.is_true(reasons.RUNNING)
            assert not status.is_true(reasons.DEGRADED)
            assert not status.is_true(reasons.REPLACING)


@given(acts(*PROVIDER, "vanish", *OPERATOR))
def test_what_the_provider_does_is_never_a_failure(script: list[Act]) -> None:
    stage = story(script, backoff_limit=0)

    assert stage.status.counters.failures == 0
    assert not stage.status.is_true(reasons.FAILED)


@given(acts(*PROVIDER, *OPERATOR))
def test_every_index_has_a_sound_worker_again_whatever_was_taken(script: list[Act]) -> None:
    stage = story(script)
    stage.wait(120)

    assert {p.index for p in live(stage)} == {0, 1, 2}


@given(acts(*PROVIDER, *SCRIPT, *USER, *OPERATOR))
def test_no_index_ever_has_two_sound_workers_at_rest(script: list[Act]) -> None:
    stage = story(script)

    sound = [p for p in live(stage) if not stage.nodes[p.node].taints]
    assert all(number == 1 for number in Counter(pod.index for pod in sound).values())


@given(acts(*PROVIDER, *SCRIPT, *USER, *OPERATOR))
def test_there_is_at_most_one_live_coordinator(script: list[Act]) -> None:
    stage = story(script)

    assert len(list(live(stage, role=Role.COORDINATOR))) <= 1


@given(acts(*PROVIDER, *SCRIPT, *USER, *OPERATOR))
def test_counters_and_attempts_only_grow_and_times_are_in_order(script: list[Act]) -> None:
    stage = Stage(make_job(), SPOT, ON_DEMAND)
    before = stage.status
    for act, number in script:
        play(stage, act, number)
        stage.settle()
        now, old = stage.status.counters, before.counters
        assert now.revocations >= old.revocations
        assert now.failures >= old.failures
        assert now.restarts >= old.restarts
        for key, entry in before.attempts.items():
            assert stage.status.attempts[key].last >= entry.last
            assert stage.status.attempts[key].judged >= entry.judged
        assert stage.status.cost.settled_usd >= before.cost.settled_usd
        if before.first_start is not None:
            assert stage.status.first_start == before.first_start
        before = stage.status


@given(acts(*PROVIDER, *SCRIPT, *USER, *OPERATOR))
def test_every_end_is_counted_exactly_once(script: list[Act]) -> None:
    stage = story(script, backoff_limit=1000)
    told = Counter(
        event.reason
        for event in stage.events
        if event.reason in ("PodPreempted", "PodRestarted", "PodFailed")
    )
    lost_writes = sum(act == "lost write" for act, _ in script)
    counters = stage.status.counters

    if lost_writes == 0:  # an event of a lost write would be told again
        assert told["PodPreempted"] == counters.revocations
        assert told["PodRestarted"] == counters.restarts
        assert told["PodFailed"] >= counters.failures


@given(acts(*PROVIDER, *SCRIPT, *USER, *OPERATOR))
def test_the_state_agrees_with_the_conditions(script: list[Act]) -> None:
    status = story(script, backoff_limit=1).status

    expected = {
        "Failed": reasons.FAILED,
        "Complete": reasons.COMPLETE,
        "Suspended": reasons.SUSPENDED,
        "Running": reasons.RUNNING,
    }
    if status.state in expected:
        assert status.is_true(expected[status.state])
    assert all(c.observed_generation <= status.observed_generation for c in status.conditions)
    assert all(c.reason for c in status.conditions)


@given(acts(*PROVIDER, *SCRIPT, *OPERATOR), st.permutations(["a", "b", "c"]))
def test_the_names_of_nodes_do_not_matter(script: list[Act], letters: list[str]) -> None:
    stage = story(script)
    look = stage.observe()
    names = {name: f"{letters[i % 3]}-{i}" for i, name in enumerate(sorted(look.nodes))}
    renamed = replace(
        look,
        nodes={names[n]: replace(node, name=names[n]) for n, node in look.nodes.items()},
        pods=tuple(replace(pod, node=names.get(pod.node, pod.node)) for pod in look.pods),
        node_gpus={names.get(n, n): gpus for n, gpus in look.node_gpus.items()},
    )
    ours = step(look, now=stage.now, settings=stage.settings)
    theirs = step(renamed, now=stage.now, settings=stage.settings)

    assert theirs.actions == ours.actions


@given(acts(*PROVIDER, *SCRIPT, *USER, *OPERATOR))
def test_it_never_asks_to_be_called_in_the_past_or_never_again_while_it_works(
    script: list[Act],
) -> None:
    stage = story(script, backoff_limit=1)
    decision = stage.pass_once()

    if decision.requeue_after is not None:
        assert decision.requeue_after >= timedelta(0)
        decide = decision.decide_after
        assert decide is None or decide >= decision.requeue_after
    else:
        assert stage.status.is_true(reasons.COMPLETE) or stage.status.is_true(reasons.FAILED)


def live(stage: Stage, *, role: Role = Role.WORKER) -> list[Pod]:
    found = []
    for pod in stage.pods.values():
        sign = read_sign(pod, stage.nodes.get(pod.node), now=stage.now, settings=stage.settings)
        entry = stage.status.attempts.get(pod.index_key, Attempts())
        if pod.role is role and is_live(pod, entry, sign):
            found.append(pod)
    return found
