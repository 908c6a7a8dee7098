"""What one look at a pool adds to its past."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ebbtide.core.lifecycle.remembering import PoolView, next_look, remember
from ebbtide.core.values.observed import Node, Pod, PodPhase, Taint
from ebbtide.core.values.past import MOST_FOLLOWED, Past, Spell
from ebbtide.core.values.settings import Settings
from support.builders import at, make_node, make_pod

SETTINGS = Settings()
WAIT = SETTINGS.capacity_wait.total_seconds()
GOING = Taint(key="karpenter.sh/disrupted", effect="NoSchedule")


def look(
    past: Past, seconds: float, *pods: Pod, nodes: tuple[Node, ...] = (), continuous: bool = True
) -> Past:
    view = PoolView(pods=pods, nodes={node.name: node for node in nodes}, is_continuous=continuous)
    after = remember(past, view, now=at(seconds), settings=SETTINGS)
    assert remember(after, view, now=at(seconds), settings=SETTINGS) is after
    return after


def waiting(index: int = 0, *, since: float = 0) -> Pod:
    return make_pod(index, node="", phase=PodPhase.PENDING, unschedulable_since=at(since))


WORKER = make_pod()
NODE = make_node(WORKER.node)
IN_USE = look(Past(), 10, WORKER, nodes=(NODE,))


def lives(past: Past) -> list[tuple[float, bool]]:
    return [(life.lasted.total_seconds(), life.revoked) for life in past.lives]


def spells(past: Past) -> list[tuple[bool, float]]:
    return [(s.available, (s.since - at(0)).total_seconds()) for s in past.spells]


# ---------------------------------------------------------------- lives


def test_a_node_with_a_pod_of_ours_is_followed_from_its_ready() -> None:
    assert [(one.node, one.since, one.idle_since) for one in IN_USE.followed] == [
        (NODE.name, at(0), None)
    ]
    assert IN_USE.spells == (Spell(available=True, since=at(0)),)


def test_a_node_without_a_pod_of_ours_is_nothing_to_us() -> None:
    assert look(Past(), 10, nodes=(NODE,)) == Past()
    assert look(Past(), 10, make_pod(phase=PodPhase.SUCCEEDED), nodes=(NODE,)) == Past()


def test_a_node_that_goes_while_it_is_in_use_was_taken() -> None:
    after = look(IN_USE, 700, WORKER)

    assert lives(after) == [(700, True)]
    assert not after.followed
    assert after.last_revocation == at(700)


def test_so_it_was_when_its_pod_went_in_the_same_moment() -> None:
    assert lives(look(IN_USE, 700)) == [(700, True)]


def test_a_node_that_is_dark_for_long_enough_was_taken_when_it_went_dark() -> None:
    dark = replace(NODE, ready=False, ready_changed=at(600))

    assert look(IN_USE, 605, WORKER, nodes=(dark,)) is IN_USE
    after = look(IN_USE, 610, WORKER, nodes=(dark,))

    assert lives(after) == [(600, True)]
    assert look(after, 700, WORKER, nodes=(dark,)) is after


@pytest.mark.parametrize(
    "other", [replace(NODE, uid="other"), replace(NODE, boot_id="boot-2")], ids=["uid", "boot"]
)
def test_another_node_under_the_same_name_begins_a_life_of_its_own(other: Node) -> None:
    fresh = replace(other, ready_changed=at(900))

    after = look(IN_USE, 905, WORKER, nodes=(fresh,))

    assert lives(after) == [(905, True)]
    assert [one.since for one in after.followed] == [at(900)]


def test_a_node_that_was_not_needed_any_more_was_given_back() -> None:
    idle = look(IN_USE, 1000, nodes=(NODE,))
    assert look(idle, 1300, nodes=(NODE,)) is idle

    assert lives(look(idle, 1600)) == [(1000, False)]


def test_a_node_that_is_used_again_lives_on() -> None:
    idle = look(IN_USE, 1000, nodes=(NODE,))
    again = look(idle, 1300, WORKER, nodes=(NODE,))

    assert again == IN_USE
    assert lives(look(again, 2000)) == [(2000, True)]


def test_pods_that_leave_a_node_under_warning_leave_it_because_it_goes() -> None:
    going = replace(NODE, taints=(GOING,))

    left = look(IN_USE, 1000, nodes=(going,))

    assert left is IN_USE
    assert lives(look(left, 1030)) == [(1030, True)]


def test_a_warning_that_passes_leaves_an_idle_node() -> None:
    warned = look(IN_USE, 1000, nodes=(replace(NODE, taints=(GOING,)),))
    passed = look(warned, 1100, nodes=(NODE,))

    assert lives(look(passed, 1200)) == [(1100, False)]


def test_a_worker_that_fails_ends_no_life_of_a_node() -> None:
    failed = make_pod(phase=PodPhase.FAILED, exit_code=1)
    successor = make_pod(0, 2, node=NODE.name)

    between = look(IN_USE, 500, failed, nodes=(NODE,))
    after = look(between, 503, failed, successor, nodes=(NODE,))

    assert not after.lives
    assert after == IN_USE


def test_what_vanished_while_nobody_looked_is_not_judged() -> None:
    assert look(IN_USE, 90_000, continuous=False) == replace(IN_USE, followed=())


def test_unless_a_pod_still_tells_that_it_was_in_use() -> None:
    assert lives(look(IN_USE, 700, WORKER, continuous=False)) == [(700, True)]


def test_who_takes_over_goes_on_with_what_is_followed() -> None:
    assert look(IN_USE, 500, WORKER, nodes=(NODE,), continuous=False) is IN_USE


def test_only_so_many_nodes_are_followed() -> None:
    pods = [make_pod(index) for index in range(MOST_FOLLOWED + 20)]
    nodes = tuple(make_node(pod.node, ready_changed=at(n)) for n, pod in enumerate(pods))

    past = look(Past(), 1000, *pods, nodes=nodes)

    assert len(past.followed) == MOST_FOLLOWED
    assert min(one.since for one in past.followed) == at(20)


def test_where_nodes_cannot_be_read_no_life_is_guessed() -> None:
    view = PoolView(pods=(make_pod(bound_since=at(5)),), nodes=None)

    past = remember(Past(), view, now=at(10), settings=SETTINGS)

    assert past == Past(spells=(Spell(available=True, since=at(5)),))


# ---------------------------------------------------------------- availability


def test_a_pool_is_dry_once_somebody_has_waited_long_enough() -> None:
    assert look(Past(), WAIT - 1, waiting()) == Past()

    dry = look(Past(), WAIT, waiting())

    assert spells(dry) == [(False, 0)]
    assert (dry.failed_tries, dry.failed_at) == (1, None)
    assert look(dry, 10 * WAIT, waiting()) is dry  # waiting on is no further try


def test_the_try_is_over_when_nobody_waits_any_more() -> None:
    dry = look(Past(), WAIT, waiting())

    after = look(dry, 500)

    assert (after.failed_tries, after.failed_at) == (1, at(500))
    assert look(after, 9000) is after


def test_each_further_try_counts_and_one_at_the_same_time_does_not() -> None:
    dry = look(Past(), WAIT, waiting(), waiting(1, since=200))
    over = look(dry, 400, waiting(1, since=200))
    assert (over.failed_tries, over.failed_at) == (1, at(400))

    same = look(over, 200 + WAIT, waiting(1, since=200))
    assert (same.failed_tries, same.failed_at) == (1, None)

    rest = look(same, 600)
    assert rest.failed_at == at(600)
    again = look(rest, 2000 + WAIT, waiting(2, since=2000))
    assert (again.failed_tries, again.failed_at) == (2, None)
    assert spells(again) == [(False, 0)]


def test_a_node_that_comes_ends_the_drought_and_forgives_the_tries() -> None:
    dry = look(look(Past(), WAIT, waiting()), 500)
    node = make_node(WORKER.node, ready_changed=at(900))

    after = look(dry, 910, WORKER, nodes=(node,))

    assert spells(after) == [(False, 0), (True, 900)]
    assert (after.failed_tries, after.failed_at) == (0, None)


def test_a_node_that_was_there_before_ends_no_drought() -> None:
    dry = look(IN_USE, 1000 + WAIT, WORKER, waiting(1, since=1000), nodes=(NODE,))
    assert spells(dry) == [(True, 0), (False, 1000)]

    after = look(dry, 2000, WORKER, nodes=(NODE,))

    assert spells(after) == [(True, 0), (False, 1000)]
    assert after.failed_at == at(2000)


def test_one_node_does_not_end_a_drought_in_which_others_wait() -> None:
    dry = look(Past(), WAIT, waiting(), waiting(1))
    node = make_node(WORKER.node, ready_changed=at(400))

    half = look(dry, 410, WORKER, waiting(1), nodes=(node,))
    assert spells(half) == [(False, 0)]

    second = make_pod(1)
    nodes = (node, make_node(second.node, ready_changed=at(600)))
    assert spells(look(half, 610, WORKER, second, nodes=nodes)) == [(False, 0), (True, 400)]


def test_a_flapping_node_is_no_new_one() -> None:
    dry = look(IN_USE, 1000 + WAIT, WORKER, waiting(1, since=1000), nodes=(NODE,))
    back = replace(NODE, ready_changed=at(1500))

    assert spells(look(dry, 1600, WORKER, nodes=(back,))) == [(True, 0), (False, 1000)]


# ---------------------------------------------------------------- when to look


def test_the_next_look_is_when_something_is_over() -> None:
    dark = replace(NODE, ready=False, ready_changed=at(95))
    view = PoolView(pods=(WORKER, waiting(1, since=20)), nodes={NODE.name: dark})

    assert next_look(view, IN_USE, now=at(100), settings=SETTINGS) == timedelta(seconds=5)
    assert next_look(view, Past(), now=at(100), settings=SETTINGS) == timedelta(seconds=WAIT - 80)
    nothing = PoolView(pods=(WORKER,), nodes={NODE.name: NODE})
    assert next_look(nothing, IN_USE, now=at(100), settings=SETTINGS) is None
