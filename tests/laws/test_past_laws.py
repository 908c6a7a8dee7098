"""Laws of what is remembered of a pool, over random histories of its nodes and pods."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.api.pool_status import PoolState, parse_pool_status, render_pool_status
from ebbtide.core.lifecycle.remembering import PoolView, remember
from ebbtide.core.values.observed import Node, Pod, PodPhase, Taint
from ebbtide.core.values.past import MOST_LIVES, MOST_SPELLS, Past, join
from ebbtide.core.values.settings import Settings
from support.builders import START, make_node, make_pod

SETTINGS = Settings()
WAIT, START_UP = SETTINGS.capacity_wait, SETTINGS.start
GOING = Taint(key="karpenter.sh/disrupted", effect="NoSchedule")
DEEDS = ("use", "leave", "wait", "stop waiting", "take", "replace", "warn", "darken", "light")

deeds = st.lists(
    st.tuples(st.sampled_from(DEEDS), st.integers(0, 3), st.floats(0, 4000)), max_size=40
)


class Ground:
    """A pool of up to four nodes, each with at most one pod; and pods that wait."""

    def __init__(self) -> None:
        self.now = START
        self.nodes: dict[str, Node] = {}
        self.pods: dict[int, Pod] = {}
        self.boots = 0

    def do(self, deed: str, number: int, seconds: float) -> None:
        """Let something happen some time later."""
        self.now += timedelta(seconds=round(seconds))
        name = f"n{number}"
        node, now = self.nodes.get(name), self.now
        match deed:
            case "use":
                self.nodes.setdefault(name, make_node(name, ready_changed=now))
                self.pods[number] = make_pod(number, node=name)
            case "leave" | "stop waiting":
                self.pods.pop(number, None)
            case "wait":
                self.pods[number] = make_pod(
                    number, node="", phase=PodPhase.PENDING, unschedulable_since=now
                )
            case "take":
                self.nodes.pop(name, None)
            case "replace" if node is not None:
                self.boots += 1
                boot = f"boot-{self.boots}"
                self.nodes[name] = replace(node, boot_id=boot, ready_changed=now)
            case "warn" if node is not None:
                self.nodes[name] = replace(node, taints=() if node.taints else (GOING,))
            case "darken" | "light" if node is not None:
                self.nodes[name] = replace(node, ready=deed == "light", ready_changed=now)

    def look(self, past: Past, *, continuous: bool = True) -> Past:
        """Remember what is there."""
        pods = tuple(self.pods.values())
        view = PoolView(pods=pods, nodes=dict(self.nodes), is_continuous=continuous)
        return remember(past, view, now=self.now, settings=SETTINGS)


def unfold(history: list[tuple[str, int, float]]) -> Iterator[tuple[Ground, Past]]:
    ground, past = Ground(), Past()
    for deed in history:
        ground.do(*deed)
        past = ground.look(past)
        yield ground, past


@given(deeds)
def test_a_second_look_at_the_same_changes_nothing(history: list[tuple[str, int, float]]) -> None:
    for ground, past in unfold(history):
        assert ground.look(past) is past


@given(deeds)
def test_time_alone_changes_nothing_once_all_waits_are_over(
    history: list[tuple[str, int, float]],
) -> None:
    *_, (ground, past) = (Ground(), Past()), *unfold(history)
    ground.now += WAIT + SETTINGS.node_lost
    settled = ground.look(past)
    ground.now += timedelta(days=400)

    assert ground.look(settled) is settled


@given(deeds)
def test_a_past_is_what_it_must_be(history: list[tuple[str, int, float]]) -> None:
    for ground, past in unfold(history):
        changes = [(spell.since, spell.available) for spell in past.spells]
        assert all(a[0] <= b[0] and a[1] is not b[1] for a, b in pairwise(changes))
        assert all(life.lasted >= timedelta(0) and life.ended <= ground.now for life in past.lives)
        assert list(past.lives) == sorted(past.lives, key=lambda life: (life.ended, life.since))
        assert len(past.lives) <= MOST_LIVES
        assert len(past.spells) <= MOST_SPELLS
        assert (past.failed_tries > 0) is (past.spell is not None and not past.spell.available)
        assert {one.node for one in past.followed} <= ground.nodes.keys()


@given(deeds)
def test_a_restart_between_two_looks_changes_nothing_while_nodes_stay(
    history: list[tuple[str, int, float]],
) -> None:
    for ground, past in unfold(history):
        stored = render_pool_status(PoolState(past=past))
        restarted = parse_pool_status(stored).past
        assert restarted == past
        assert ground.look(restarted, continuous=False) == past


@given(deeds, st.integers(0, 30_000))
def test_what_is_believed_are_lives_that_were(
    history: list[tuple[str, int, float]], later: int
) -> None:
    for ground, past in unfold(history):
        now: datetime = ground.now + timedelta(seconds=later)
        believed = Counter(past.believed(now, START_UP))
        known = Counter((*past.lives, *(one.life(now) for one in past.followed)))
        assert believed <= known
        if past.bad_until(now, START_UP) is None:
            continue
        quick = [life for life in believed.elements() if life.lasted < 2 * START_UP]
        assert sum(life.revoked for life in quick) >= 3


@given(deeds, deeds)
def test_two_pools_give_nodes_whenever_one_does(
    one: list[tuple[str, int, float]], other: list[tuple[str, int, float]]
) -> None:
    pasts = [past for history in (one, other) for _, past in list(unfold(history))[-1:]]
    joined = join(pasts)

    assert all(a.available is not b.available for a, b in pairwise(joined))
    assert join(pasts[::-1]) == joined
    for spell in joined:
        present = [
            [s for s in past.spells if s.since <= spell.since][-1:] for past in pasts if past.spells
        ]
        assert spell.available is any(s.available for found in present for s in found)
