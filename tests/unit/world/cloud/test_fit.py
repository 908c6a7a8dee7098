"""Which pod fits which node, as the autoscaler sees it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from world.cloud.fit import (
    Room,
    is_pending,
    occupies,
    parse_resources,
    place,
    requests,
    selects,
    tolerates,
)

GPU = "nvidia.com/gpu"
LABELS = {"zone": "a", "size": "8"}


def make_pod(**spec: Any) -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": {GPU: "1"}}}
    return {
        "metadata": {"name": "one", "uid": "1"},
        "spec": {"containers": [container], **spec},
        "status": {},
    }


def make_room(gpus: int = 1, **changes: Any) -> Room:
    free = parse_resources({GPU: str(gpus), "cpu": "4", "memory": "8Gi", "pods": "10"})
    return Room(**{"name": "node", "labels": LABELS, "taints": (), "free": free, **changes})


def make_affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": [{"matchExpressions": [term]} for term in terms]}
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"nodeAffinity": {key: required}}


def test_requests_are_the_sum_of_containers_and_at_least_each_init_container() -> None:
    pod = make_pod(
        containers=[
            {"resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "2", "memory": "1Gi"}}},
            {"resources": {"requests": {"cpu": "1"}}},
            {},
        ],
        initContainers=[{"resources": {"requests": {"cpu": "1", "memory": "4Gi"}}}],
    )
    assert requests(pod) == {"cpu": Decimal("1.5"), "memory": Decimal(4 * 2**30), "pods": 1}


def test_room_shrinks_with_each_pod_until_none_fits() -> None:
    room = make_room(gpus=2)
    assert room.fits(make_pod())
    room = room.take(make_pod()).take(make_pod())
    assert room.free[GPU] == 0
    assert room.free["pods"] == 8
    assert not room.fits(make_pod())


def test_a_resource_that_the_node_lacks_does_not_fit() -> None:
    assert not make_room(free=parse_resources({"cpu": "4", "pods": "10"})).fits(make_pod())


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, True),
        ({"nodeSelector": {"zone": "a"}}, True),
        ({"nodeSelector": {"zone": "b"}}, False),
        ({"affinity": {}}, True),
        ({"affinity": make_affinity({"key": "zone", "operator": "In", "values": ["a"]})}, True),
        ({"affinity": make_affinity({"key": "zone", "operator": "NotIn", "values": ["a"]})}, False),
        ({"affinity": make_affinity({"key": "zone", "operator": "Exists"})}, True),
        ({"affinity": make_affinity({"key": "zone", "operator": "DoesNotExist"})}, False),
        ({"affinity": make_affinity({"key": "size", "operator": "Gt", "values": ["7"]})}, True),
        ({"affinity": make_affinity({"key": "size", "operator": "Lt", "values": ["8"]})}, False),
        ({"affinity": make_affinity({"key": "none", "operator": "Gt", "values": ["7"]})}, False),
        (
            {
                "affinity": make_affinity(
                    {"key": "zone", "operator": "In", "values": ["b"]},
                    {"key": "size", "operator": "Exists"},
                )
            },
            True,  # one of the terms is enough
        ),
    ],
)
def test_selector_and_affinity(spec: dict[str, Any], *, expected: bool) -> None:
    assert selects(make_pod(**spec), LABELS) is expected


TAINT = {"key": "spot", "value": "true", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (None, False),
        ({"key": "spot", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "spot", "value": "true"}, True),
        ({"key": "spot", "value": "false"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "spot", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "spot", "operator": "Exists", "effect": "NoSchedule"}, True),
    ],
)
def test_tolerations(toleration: dict[str, str] | None, *, expected: bool) -> None:
    pod = make_pod(tolerations=[toleration] if toleration else [])
    assert tolerates(pod, [TAINT]) is expected


def test_a_taint_that_only_prefers_keeps_nobody_off() -> None:
    assert tolerates(make_pod(), [{**TAINT, "effect": "PreferNoSchedule"}])


def test_pods_are_placed_first_fit_and_the_rest_is_left_over() -> None:
    pods = [make_pod() for _ in range(4)]
    left, rooms = place(pods, [make_room(gpus=1), make_room(gpus=2)])
    assert left == pods[3:]
    assert [room.free[GPU] for room in rooms] == [0, 0]


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def test_only_a_pod_that_the_scheduler_gave_up_on_is_pending() -> None:
    pod = make_pod()
    assert not is_pending(pod)
    pod["status"] = {"conditions": [UNSCHEDULABLE]}
    assert is_pending(pod)
    assert not is_pending({**pod, "metadata": {"deletionTimestamp": "now"}})
    assert not is_pending({**pod, "spec": {**pod["spec"], "nodeName": "node"}})
    gated = {**UNSCHEDULABLE, "reason": "SchedulingGated"}
    assert not is_pending({**pod, "status": {"conditions": [gated]}})


@pytest.mark.parametrize(("phase", "expected"), [("Running", True), ("Failed", False)])
def test_an_ended_pod_occupies_nothing(phase: str, *, expected: bool) -> None:
    pod = {**make_pod(nodeName="node"), "status": {"phase": phase}}
    assert occupies(pod) is expected
    assert not occupies(make_pod())
