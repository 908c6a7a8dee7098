"""Revocations that announce themselves: what the cluster gets to see, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from world.cloud.pool import Provider
from world.history import History
from world.samples import (
    STAYS,
    find_condition,
    is_over,
    is_ready,
    is_running,
    make_pod,
    make_pool,
    taint_keys,
)

if TYPE_CHECKING:
    from world.api import Json
    from world.cloud.pool import Pool
    from world.world import OpenWorld, World

FACTOR = 0.05


async def run_pod(world: World, pool: Pool, name: str = "one", **changes: object) -> Json:
    pod = make_pod(name, pool, **changes)  # type: ignore[arg-type]  # words of a test
    await world.api.request("POST", world.path("pods"), pod)
    return await world.until_pod(name, is_running, timeout=60)


def node_path(pod: Json) -> str:
    return f"/api/v1/nodes/{pod['spec']['nodeName']}"


async def test_gke_spot_shuts_the_node_down_gracefully(open_world: OpenWorld) -> None:
    pool = make_pool()
    world = await open_world([pool], factor=FACTOR)
    pod = await run_pod(world, pool)
    async with History(world.api, node_path(pod)) as node:
        revocation = world.revoke("gke-spot", node=pod["spec"]["nodeName"])
        ended = await world.until_pod("one", is_over)
        record = await revocation
    unready = node.first(lambda found: not is_ready(found))
    assert unready is not None
    condition = find_condition(unready, "Ready")
    assert (condition["status"], condition["reason"]) == ("False", "KubeletNotReady")
    assert condition["message"] == "node is shutting down"
    assert (ended["status"]["phase"], ended["status"]["reason"]) == ("Failed", "Terminated")
    target = find_condition(ended, "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "TerminationByKubelet")
    [container] = ended["status"]["containerStatuses"]
    assert container["state"]["terminated"]["exitCode"] == 82
    assert 30 * FACTOR <= record.seconds("power-off") < 30 * FACTOR + 1.0
    assert 60 * FACTOR <= record.seconds("node-deleted") < 180 * FACTOR + 1.0
    await world.until(node_path(pod), lambda found: found is None)


async def test_gke_spot_kills_at_half_the_notice_what_does_not_leave(
    open_world: OpenWorld,
) -> None:
    pool = make_pool()
    world = await open_world([pool], factor=FACTOR)
    pod = await run_pod(world, pool, script=STAYS)
    revocation = world.revoke("gke-spot", node=pod["spec"]["nodeName"])
    ended = await world.until_pod("one", is_over)
    assert not revocation.is_over
    [container] = ended["status"]["containerStatuses"]
    assert container["state"]["terminated"]["exitCode"] == 137
    await revocation


async def test_gke_same_name_comes_back_as_another_boot(open_world: OpenWorld) -> None:
    pool = make_pool()
    world = await open_world([pool], factor=FACTOR)
    pod = await run_pod(world, pool)
    before = await world.api.request("GET", node_path(pod))
    record = await world.revoke("gke-same-name", node=pod["spec"]["nodeName"])
    after = await world.until(
        node_path(pod), lambda node: node is not None and is_ready(node), what="Ready again"
    )
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    boots = [node["status"]["nodeInfo"]["bootID"] for node in (before, after)]
    assert boots[0] != boots[1]
    assert record.seconds("returned") < 60 * FACTOR + 1.0
    ended = await world.until_pod("one", is_over)
    assert ended["status"]["phase"] == "Failed"
    await run_pod(world, pool, "two")
    assert len(world.cloud.bill.items) == 3  # the system node, and two boots of this one


async def test_aws_itn_taints_cordons_and_evicts(open_world: OpenWorld) -> None:
    pool = make_pool(provider=Provider.EKS)
    world = await open_world([pool], factor=0.02)
    pod = await run_pod(world, pool)
    async with (
        History(world.api, node_path(pod)) as node,
        History(world.api, f"{world.path('pods')}/one") as versions,
    ):
        record = await world.revoke("aws-itn", node=pod["spec"]["nodeName"])
    key = "aws-node-termination-handler/spot-itn"
    warned = node.first(lambda found: key in taint_keys(found))
    assert warned is not None
    assert node.first(lambda found: found["spec"].get("unschedulable"))
    evicted = versions.first(lambda found: "deletionTimestamp" in found["metadata"])
    assert evicted is not None
    target = find_condition(evicted, "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "EvictionByEvictionAPI")
    assert record.seconds("evicted") < record.seconds("power-off")
    assert 120 * 0.02 <= record.seconds("power-off") < 120 * 0.02 + 1.0
    assert record.seconds("node-deleted", since="power-off") >= 10 * 0.02


async def test_aws_itn_honours_a_disruption_budget_until_the_instance_ends(
    open_world: OpenWorld,
) -> None:
    pool = make_pool(provider=Provider.EKS)
    world = await open_world([pool], factor=0.02)
    budget = {
        "metadata": {"name": "keep"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "one"}}},
    }
    path = world.path("poddisruptionbudgets", "apis/policy/v1")
    await world.api.request("POST", path, budget)
    pod = await run_pod(world, pool)
    await world.until(
        f"{path}/keep",
        lambda found: found is not None and found["status"].get("expectedPods") == 1,
        what="aware of the pod",
    )
    async with History(world.api, f"{world.path('pods')}/one") as versions:
        record = await world.revoke("aws-itn", node=pod["spec"]["nodeName"])
        reached = len(versions.versions)
    assert record.at("drain-unfinished") <= record.at("power-off")
    before_the_end = versions.versions[:reached]
    evicted = [v for v in before_the_end if find_condition(v, "DisruptionTarget")]
    reasons = {find_condition(version, "DisruptionTarget")["reason"] for version in evicted}
    assert "EvictionByEvictionAPI" not in reasons


async def test_karpenter_taints_without_a_cordon_and_replaces_in_parallel(
    open_world: OpenWorld,
) -> None:
    pool = make_pool(provider=Provider.KARPENTER)
    world = await open_world([pool], factor=0.02)
    pod = await run_pod(world, pool)
    async with History(world.api, node_path(pod)) as node:
        record = await world.revoke("aws-itn", node=pod["spec"]["nodeName"])
    assert node.first(lambda found: "karpenter.sh/disrupted" in taint_keys(found))
    assert not node.first(lambda found: found["spec"].get("unschedulable"))
    replacement = record.facts["replacement"]
    [ready] = world.cloud.journal.find("ready", node=replacement)
    assert ready.at < record.at("power-off")


async def test_a_rebalance_recommendation_may_pass(open_world: OpenWorld) -> None:
    pool = make_pool(provider=Provider.EKS)
    world = await open_world([pool], factor=FACTOR)
    pod = await run_pod(world, pool)
    key = "aws-node-termination-handler/rebalance-recommendation"
    async with History(world.api, node_path(pod)) as node:
        record = await world.revoke(
            "aws-rebalance", node=pod["spec"]["nodeName"], passes=True, interruption=(20.0, 20.0)
        )
        await world.until(
            node_path(pod),
            lambda found: found is not None and key not in taint_keys(found),
            what="without the taint",
        )
    assert node.first(lambda found: key in taint_keys(found))
    assert record.seconds("passed") >= 20 * FACTOR
    pod = await world.api.request("GET", f"{world.path('pods')}/one")
    assert is_running(pod)


async def test_a_rebalance_recommendation_may_be_followed_by_the_interruption(
    open_world: OpenWorld,
) -> None:
    pool = make_pool(provider=Provider.EKS)
    world = await open_world([pool], factor=0.02)
    pod = await run_pod(world, pool)
    record = await world.revoke(
        "aws-rebalance", node=pod["spec"]["nodeName"], passes=False, interruption=(20.0, 20.0)
    )
    assert [what for what, _ in record.moments].count("notice") == 2
    assert record.seconds("power-off") >= (20 + 120) * 0.02


async def test_an_aks_node_may_be_drained_before_it_vanishes(open_world: OpenWorld) -> None:
    pool = make_pool(provider=Provider.AKS)
    world = await open_world([pool], factor=FACTOR)
    pod = await run_pod(world, pool)
    async with History(world.api, node_path(pod)) as node:
        record = await world.revoke("aks-preempt", node=pod["spec"]["nodeName"], drained=True)
    assert record.at("evicted") < record.at("power-off")
    key = "remediator.kubernetes.azure.com/unschedulable"
    assert node.first(lambda found: key in taint_keys(found))


async def test_an_aks_node_may_vanish_with_its_pods_still_running(open_world: OpenWorld) -> None:
    pool = make_pool(provider=Provider.AKS)
    world = await open_world([pool], factor=FACTOR)
    pod = await run_pod(world, pool)
    revocation = world.revoke("aks-preempt", node=pod["spec"]["nodeName"], drained=False)
    await world.cloud.journal.until("power-off", node=pod["spec"]["nodeName"])
    left = await world.api.request("GET", f"{world.path('pods')}/one")
    assert is_running(left)
    assert "deletionTimestamp" not in left["metadata"]
    record = await revocation
    assert 30 * FACTOR <= record.seconds("power-off") < 30 * FACTOR + 1.0


async def test_a_flap_leaves_node_and_pod_as_they_were(open_world: OpenWorld) -> None:
    pool = make_pool()
    world = await open_world([pool], factor=FACTOR)
    pod = await run_pod(world, pool)
    async with History(world.api, node_path(pod)) as node:
        record = await world.revoke("flap", node=pod["spec"]["nodeName"])
        await world.until(
            node_path(pod),
            lambda found: found is not None and not found["spec"].get("unschedulable"),
            what="schedulable again",
        )
    key = "cloud.google.com/impending-node-termination"
    assert node.first(lambda found: key in taint_keys(found))
    assert key not in taint_keys(node.versions[-1])
    assert record.seconds("passed") >= 30 * FACTOR
    pod = await world.api.request("GET", f"{world.path('pods')}/one")
    assert is_running(pod)
    await run_pod(world, pool, "two")


async def test_the_same_seed_draws_the_same_times(open_world: OpenWorld) -> None:
    worlds = [await open_world([make_pool()], factor=FACTOR, seed=seed) for seed in (7, 7, 8)]
    draws = [
        world.cloud.random(f"gke-spot/spot-{world.cloud.deployment.tag}1/1").random()
        for world in worlds
    ]
    assert draws[0] == draws[1]
    assert draws[0] != draws[2]
