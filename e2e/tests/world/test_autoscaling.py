"""Pending pods bring nodes, idle nodes go, and a pool sells no more than it has."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from world.cloud.pool import GPU_RESOURCE, Market, make_system_pool
from world.samples import find_condition, is_over, is_ready, is_running, make_pod, make_pool

if TYPE_CHECKING:
    from world.world import OpenWorld

FACTOR = 0.05


async def test_a_system_node_is_there_from_the_start(open_world: OpenWorld) -> None:
    world = await open_world([], factor=FACTOR)
    [machine] = world.nodes()
    node = await world.api.request("GET", f"/api/v1/nodes/{machine.name}")
    assert is_ready(node)
    assert GPU_RESOURCE not in node["status"]["allocatable"]
    assert machine.pool.market is Market.ON_DEMAND


async def test_a_pod_without_wishes_runs_on_the_system_node(open_world: OpenWorld) -> None:
    world = await open_world([make_pool()], factor=FACTOR)
    pod = make_pod("coordinator", make_system_pool())
    await world.api.request("POST", world.path("pods"), pod)
    running = await world.until_pod("coordinator", is_running, timeout=60)
    assert world.node(running["spec"]["nodeName"]).pool.name == "system"


async def test_a_pending_pod_brings_a_node_after_the_pool_s_delay(open_world: OpenWorld) -> None:
    pool = make_pool(provision_seconds=(20.0, 20.0))
    world = await open_world([pool], factor=FACTOR)
    await world.api.request("POST", world.path("pods"), make_pod("one", pool))
    pod = await world.until_pod("one", is_running, timeout=60)
    [machine] = world.nodes("spot")
    assert pod["spec"]["nodeName"] == machine.name
    journal = world.cloud.journal
    [asked], [ready] = (journal.find(what, node=machine.name) for what in ("requested", "ready"))
    assert (ready.at - asked.at).total_seconds() >= 20.0 * FACTOR


async def test_pods_that_share_a_node_bring_one_node_only(open_world: OpenWorld) -> None:
    pool = make_pool(gpus_per_node=2)
    world = await open_world([pool], factor=FACTOR)
    for name in ("one", "two", "three"):
        await world.api.request("POST", world.path("pods"), make_pod(name, pool))
    for name in ("one", "two", "three"):
        await world.until_pod(name, is_running, timeout=60)
    assert len(world.cloud.journal.find("requested", pool="spot")) == 2


async def test_the_cheapest_pool_that_fits_is_chosen(open_world: OpenWorld) -> None:
    dear = make_pool("dear", usd_per_node_hour=Decimal("3.06"), zone="us-central1-b")
    cheap = make_pool("cheap", max_nodes=1)
    world = await open_world([dear, cheap], factor=FACTOR)
    for name in ("one", "two"):
        pod = make_pod(name, cheap)
        del pod["spec"]["nodeSelector"]
        await world.api.request("POST", world.path("pods"), pod)
    for name in ("one", "two"):
        await world.until_pod(name, is_running, timeout=60)
    assert len(world.nodes("cheap")) == 1
    assert len(world.nodes("dear")) == 1


async def test_an_idle_node_is_taken_away_and_the_system_node_is_not(
    open_world: OpenWorld,
) -> None:
    pool = make_pool(idle_seconds=40.0)
    world = await open_world([pool], factor=FACTOR)
    await world.api.request("POST", world.path("pods"), make_pod("one", pool, script="true"))
    pod = await world.until_pod("one", is_over, timeout=60)
    node = pod["spec"]["nodeName"]
    await world.until(f"/api/v1/nodes/{node}", lambda found: found is None, timeout=60)
    journal = world.cloud.journal
    [idle], [off] = (journal.find(what, node=node) for what in ("idle", "power-off"))
    assert idle.at <= off.at
    assert [machine.pool.name for machine in world.nodes()] == ["system"]


async def test_a_pool_without_capacity_leaves_the_pod_pending_until_there_is_some(
    open_world: OpenWorld,
) -> None:
    pool = make_pool()
    world = await open_world([pool], factor=FACTOR)
    world.cloud.set_available("spot", 0)
    await world.api.request("POST", world.path("pods"), make_pod("one", pool))
    refusal = await world.cloud.journal.until("no-capacity", timeout=60)
    assert "one" in refusal.detail
    assert "spot" in refusal.detail
    pod = await world.api.request("GET", f"{world.path('pods')}/one")
    assert find_condition(pod, "PodScheduled")["reason"] == "Unschedulable"
    world.cloud.set_available("spot", None)
    await world.until_pod("one", is_running, timeout=60)


async def test_a_machine_on_its_way_is_not_delivered_when_capacity_runs_out(
    open_world: OpenWorld,
) -> None:
    pool = make_pool(provision_seconds=(40.0, 40.0))
    world = await open_world([pool], factor=FACTOR)
    await world.api.request("POST", world.path("pods"), make_pod("one", pool))
    await world.cloud.journal.until("requested", pool="spot", timeout=60)
    world.cloud.set_available("spot", 0)
    await world.cloud.journal.until("stockout", pool="spot", timeout=60)
    assert not world.cloud.machines_of(pool)


async def test_a_lost_system_node_is_replaced(open_world: OpenWorld) -> None:
    world = await open_world([], factor=FACTOR)
    [machine] = world.nodes()
    world.revoke("power-loss", node=machine.name)
    await world.cloud.journal.until("ready", pool="system", count=2, timeout=60)
    [other] = world.nodes()
    assert other.name != machine.name


async def test_a_node_has_no_gpus_before_its_device_plugin_arrives(open_world: OpenWorld) -> None:
    pool = make_pool(gpu_seconds=(30.0, 30.0))
    world = await open_world([pool], factor=FACTOR)
    await world.api.request("POST", world.path("pods"), make_pod("one", pool))
    ready = await world.cloud.journal.until("ready", pool="spot", timeout=60)
    node = await world.api.request("GET", f"/api/v1/nodes/{ready.node}")
    assert node["status"]["allocatable"][GPU_RESOURCE] == "0"
    assert pool.startup_taint()["key"] in {taint["key"] for taint in node["spec"]["taints"]}
    await world.until_pod("one", is_running, timeout=60)
    gpus = await world.cloud.journal.until("gpus", node=ready.node)
    assert (gpus.at - ready.at).total_seconds() >= 30.0 * FACTOR
    assert len(world.cloud.journal.find("requested", pool="spot")) == 1


async def test_the_bill_is_the_time_from_ready_to_power_off_times_the_price(
    open_world: OpenWorld,
) -> None:
    pool = make_pool(usd_per_node_hour=Decimal("3600.00"))
    world = await open_world([pool], factor=FACTOR)
    await world.api.request("POST", world.path("pods"), make_pod("one", pool))
    pod = await world.until_pod("one", is_running, timeout=60)
    await world.revoke("power-loss", node=pod["spec"]["nodeName"], node_deleted=None)
    journal = world.cloud.journal
    [ready], [off] = (journal.find(what, pool="spot") for what in ("ready", "power-off"))
    cents = round((off.at - ready.at).total_seconds() * 100)
    assert world.cloud.bill.by_pool(off.at)["spot"] * 100 == cents
    assert cents > 0
    assert world.cloud.bill.total(off.at) >= world.cloud.bill.by_pool(off.at)["spot"]
