import dataclasses
from collections import Counter

import pytest

from ebbtide.cluster.cache import NodeCache, NodeChange, PodCache
from ebbtide.cluster.reading import CachedNode, CachedPod
from ebbtide.core.values.job import JobKey
from ebbtide.core.values.observed import PodPhase
from support.builders import make_node, make_pod

KEY = JobKey("team", "digits")
OTHER = JobKey("team", "words")


@pytest.fixture
def woken() -> Counter[JobKey]:
    return Counter()


@pytest.fixture
def pods(woken: Counter[JobKey]) -> PodCache:
    return PodCache(lambda key: woken.update([key]))


def cached(index: int = 0, *, version: int = 1, job: JobKey = KEY, **changes: object) -> CachedPod:
    pod = make_pod(index, **changes)  # type: ignore[arg-type]  # fields of Pod
    return CachedPod(job=job, job_uid="uid-1", version=version, pod=pod)


def test_an_older_version_never_replaces_a_newer_one(pods: PodCache) -> None:
    pods.put(cached(version=5, node="n5"))
    pods.put(cached(version=4, node="n4"))

    (found,) = pods.of_job(KEY).values()
    assert found.pod.node == "n5"
    assert pods.jobs_on("n4") == ()


def test_a_pod_whose_end_is_known_stays_away_though_the_watch_lags(pods: PodCache) -> None:
    found = cached(version=5)
    pods.put(found)
    pods.drop("team", found.pod.name, found.pod.uid)

    pods.put(cached(version=6))

    assert not pods.of_job(KEY)


def test_a_pod_that_lost_our_label_comes_back_with_it(pods: PodCache) -> None:
    found = cached(version=5)
    pods.put(found)
    pods.drop("team", found.pod.name, found.pod.uid, version=6)

    pods.put(cached(version=6))
    assert not pods.of_job(KEY)
    pods.put(cached(version=7))
    assert pods.of_job(KEY)


def test_the_end_of_a_former_pod_of_the_name_leaves_the_new_one(pods: PodCache) -> None:
    found = cached(version=9, uid="new")
    pods.put(found)

    pods.drop("team", found.pod.name, "old")

    assert list(pods.of_job(KEY)) == [found.pod.name]


def test_a_list_takes_away_what_it_does_not_name_unless_that_is_newer(pods: PodCache) -> None:
    pods.put(cached(0, version=3))
    pods.put(cached(1, version=50))

    pods.replace([], namespace="", version=40)

    assert [one.pod.index for one in pods.of_job(KEY).values()] == [1]


def test_a_list_of_one_namespace_leaves_the_others(pods: PodCache) -> None:
    pods.put(cached(0, version=3))

    pods.replace([], namespace="elsewhere", version=40)

    assert len(pods) == 1


def test_a_job_is_woken_by_what_changed_only(pods: PodCache, woken: Counter[JobKey]) -> None:
    pods.put(cached(version=1))
    pods.put(cached(version=2))  # a heartbeat of the kubelet: nothing we read is different
    assert woken[KEY] == 1

    pods.put(cached(version=3, ready=False))
    assert woken[KEY] == 2


def test_gpus_are_counted_by_pool_and_node_while_pods_live(pods: PodCache) -> None:
    pods.put(cached(0, version=1, node="a", gpus=2))
    pods.put(cached(1, version=1, node="a", gpus=1))
    assert (pods.pool_gpus["spot"], pods.node_gpus["a"]) == (3, 3)

    pods.put(cached(1, version=2, node="a", gpus=1, phase=PodPhase.FAILED))
    assert (pods.pool_gpus["spot"], pods.node_gpus["a"]) == (2, 2)

    pods.drop("team", cached(0).pod.name, cached(0).pod.uid)
    assert (dict(pods.pool_gpus), dict(pods.node_gpus)) == ({}, {})


def test_a_pod_that_only_wears_our_labels_fills_no_pool(pods: PodCache) -> None:
    worn = cached(0, node="a", gpus=1000)
    pods.put(dataclasses.replace(worn, job_uid=""))
    assert (dict(pods.pool_gpus), dict(pods.node_gpus)) == ({}, {})

    pods.drop("team", worn.pod.name, worn.pod.uid)
    assert (dict(pods.pool_gpus), dict(pods.node_gpus)) == ({}, {})


def test_jobs_are_found_by_node_and_while_they_wait_for_one(pods: PodCache) -> None:
    pods.put(cached(0, version=1, node="a"))
    pods.put(cached(1, version=1, node="a"))
    pods.put(cached(0, version=1, node="", job=OTHER, name="words-worker-0-1", uid="w"))
    assert (pods.jobs_on("a"), pods.jobs_waiting()) == ((KEY,), (OTHER,))

    pods.put(cached(0, version=2, node="a", job=OTHER, name="words-worker-0-1", uid="w"))

    assert set(pods.jobs_on("a")) == {KEY, OTHER}
    assert pods.jobs_waiting() == ()


@pytest.fixture
def changes() -> list[NodeChange]:
    return []


@pytest.fixture
def nodes(changes: list[NodeChange]) -> NodeCache:
    return NodeCache(changes.append)


def on_node(name: str = "a", *, version: int = 1, **changed: object) -> CachedNode:
    return CachedNode(version=version, labels={"pool": "spot"}, node=make_node(name, **changed))


def test_what_was_seen_of_nodes_does_not_change_afterwards(nodes: NodeCache) -> None:
    nodes.put(on_node())
    before = nodes.view()

    nodes.drop("a", "uid-a")

    assert list(before) == ["a"]
    assert not nodes.view()


def test_a_node_appears_when_it_is_new_or_usable_again(
    nodes: NodeCache, changes: list[NodeChange]
) -> None:
    nodes.put(on_node(version=1))
    nodes.put(on_node(version=2, unschedulable=True))
    nodes.put(on_node(version=3))

    assert [change.appeared for change in changes] == [True, False, True]


def test_a_node_of_the_same_name_replaces_the_former_one_whatever_its_version(
    nodes: NodeCache,
) -> None:
    nodes.put(on_node(version=9))
    nodes.put(on_node(version=1, uid="second"))

    assert nodes.view()["a"].uid == "second"


def test_nodes_are_counted_by_the_labels_of_a_pool(nodes: NodeCache) -> None:
    nodes.put(on_node("a"))
    nodes.put(on_node("b", ready=False))

    assert nodes.count({"pool": "spot"}) == (1, 2)
    assert nodes.count({"pool": "other"}) == (0, 0)


def test_a_list_of_nodes_takes_away_what_it_does_not_name(
    nodes: NodeCache, changes: list[NodeChange]
) -> None:
    nodes.put(on_node("a"))
    nodes.replace([on_node("b")])

    assert list(nodes.view()) == ["b"]
    assert [(change.name, change.appeared) for change in changes] == [
        ("a", True),
        ("a", False),
        ("b", True),
    ]
