"""A node comes for a pending pod, and goes in the two ways that all else is built on."""

from __future__ import annotations

from decimal import Decimal

import pytest

from world.cloud.pool import GPU_RESOURCE, Market, Pool

FACTOR = 0.05


def make_pool(**changes: object) -> Pool:
    values = {
        "name": "spot",
        "market": Market.SPOT,
        "gpu": "V100",
        "gpus_per_node": 1,
        "usd_per_node_hour": Decimal("0.92"),
        "provision_seconds": (4.0, 8.0),
    }
    return Pool(**(values | changes))  # type: ignore[arg-type]  # words of a test


def make_pod(name: str, pool: Pool, script: str = "exec sleep 1000") -> dict[str, object]:
    return {
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 2,
            "automountServiceAccountToken": False,
            "nodeSelector": pool.node_selector(),
            "tolerations": pool.tolerations(),
            "containers": [
                {
                    "name": "main",
                    "image": "any",
                    "command": ["sh", "-c", script],
                    "resources": {"limits": {GPU_RESOURCE: "1"}},
                }
            ],
        },
    }


def is_running(pod: dict) -> bool:
    return pod["status"]["phase"] == "Running"


async def test_a_system_node_is_there_from_the_start(open_world) -> None:
    world = await open_world([], factor=FACTOR)
    [machine] = world.nodes()
    node = await world.api.request("GET", f"/api/v1/nodes/{machine.name}")
    ready = [c for c in node["status"]["conditions"] if c["type"] == "Ready"]
    assert ready[0]["status"] == "True"
    assert GPU_RESOURCE not in node["status"]["allocatable"]


async def test_a_pending_pod_brings_a_node(open_world) -> None:
    pool = make_pool()
    world = await open_world([pool], factor=FACTOR)
    await world.api.request("POST", world.path("pods"), make_pod("one", pool))
    pod = await world.until_pod("one", is_running, timeout=20)
    [machine] = world.nodes("spot")
    assert pod["spec"]["nodeName"] == machine.name


@pytest.mark.parametrize("scenario", ["gke-spot", "power-loss"])
async def test_a_revoked_node_is_replaced(open_world, scenario: str) -> None:
    pool = make_pool()
    world = await open_world([pool], factor=FACTOR)
    await world.api.request("POST", world.path("pods"), make_pod("one", pool))
    pod = await world.until_pod("one", is_running, timeout=20)
    record = await world.revoke(scenario, node=pod["spec"]["nodeName"])
    assert record.at("node-deleted")
    await world.until(f"/api/v1/nodes/{pod['spec']['nodeName']}", lambda node: node is None)
