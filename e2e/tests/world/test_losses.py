"""Revocations without notice, partitions, and capacity that comes back or does not."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import sys
from typing import TYPE_CHECKING

import pytest

from world.cloud.machine import State
from world.cloud.pool import GPU_RESOURCE
from world.history import History
from world.network import node_address
from world.samples import (
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
ECHO_PORT = 7007
ECHO = f"""
import asyncio
async def echo(reader, writer):
    while data := await reader.read(100):
        writer.write(data)
async def main():
    async with await asyncio.start_server(echo, "0.0.0.0", {ECHO_PORT}) as server:
        await server.serve_forever()
asyncio.run(main())
"""
ECHO_SCRIPT = f"exec {shlex.quote(sys.executable)} -c {shlex.quote(ECHO)}"


async def run_pod(world: World, pool: Pool, name: str = "one", **changes: object) -> Json:
    pod = make_pod(name, pool, **changes)  # type: ignore[arg-type]  # words of a test
    await world.api.request("POST", world.path("pods"), pod)
    return await world.until_pod(name, is_running, timeout=60)


async def run_echo(world: World, pool: Pool) -> Json:
    """Run a pod that answers; a readiness probe tells when it does."""
    pod = make_pod("one", pool, script=ECHO_SCRIPT, grace=1)
    probe = {"tcpSocket": {"port": ECHO_PORT}, "periodSeconds": 1}
    pod["spec"]["containers"][0]["readinessProbe"] = probe
    await world.api.request("POST", world.path("pods"), pod)
    return await world.until_pod("one", is_ready, timeout=60, what="ready")


def node_path(pod: Json) -> str:
    return f"/api/v1/nodes/{pod['spec']['nodeName']}"


async def test_after_a_power_loss_the_cluster_notices_evicts_and_forgets(
    open_world: OpenWorld,
) -> None:
    pool = make_pool()
    world = await open_world([pool], factor=FACTOR)
    pod = await run_pod(world, pool)
    async with History(world.api, node_path(pod)) as node:
        revocation = world.revoke(
            "power-loss", node=pod["spec"]["nodeName"], node_deleted=(240.0, 240.0)
        )
        await world.until_pod("one", lambda found: "deletionTimestamp" in found["metadata"])
        await revocation
    unknown = node.first(lambda found: find_condition(found, "Ready")["status"] == "Unknown")
    assert unknown is not None
    assert find_condition(unknown, "Ready")["reason"] == "NodeStatusUnknown"
    assert node.first(lambda found: "node.kubernetes.io/unreachable" in taint_keys(found))
    stuck = await world.api.request("GET", f"{world.path('pods')}/one")
    assert is_running(stuck)  # nobody is left who could say otherwise
    assert find_condition(stuck, "DisruptionTarget")["reason"] == "DeletionByTaintManager"


async def test_in_an_api_partition_the_processes_live_on_and_are_killed_after_it(
    open_world: OpenWorld,
) -> None:
    pool = make_pool()
    world = await open_world([pool], factor=FACTOR)
    pod = await run_echo(world, pool)
    machine = world.node(pod["spec"]["nodeName"])
    reader, writer = await connect(pod["status"]["podIP"], node_address(machine.subnet))
    revocation = world.revoke("partition-api", node=machine.name, seconds=300.0)
    await world.until(
        node_path(pod),
        lambda found: found is not None and find_condition(found, "Ready")["status"] == "Unknown",
        what="Ready=Unknown",
    )
    await world.until_pod("one", lambda found: "deletionTimestamp" in found["metadata"])
    assert await ask(reader, writer, b"still there") == b"still there"
    await revocation
    await world.until(f"{world.path('pods')}/one", lambda found: found is None, what="gone")
    await world.until(
        node_path(pod), lambda found: found is not None and is_ready(found), what="Ready again"
    )
    with contextlib.suppress(ConnectionError):
        assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()


async def test_in_a_data_partition_connections_hang_and_go_on_after_it(
    open_world: OpenWorld,
) -> None:
    pool = make_pool()
    world = await open_world([pool], factor=FACTOR)
    pod = await run_echo(world, pool)
    machine = world.node(pod["spec"]["nodeName"])
    server, inside = pod["status"]["podIP"], node_address(machine.subnet)
    [system] = world.nodes("system")
    outside = node_address(system.subnet)
    reader, writer = await connect(server, outside)
    assert await ask(reader, writer, b"before") == b"before"

    revocation = world.revoke("partition-data", node=machine.name, seconds=60.0)
    await world.cloud.journal.until("partition", node=machine.name)
    writer.write(b"during")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(100), 0.5)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(connect(server, outside), 0.5)
    neighbour = await connect(server, inside)
    assert await ask(*neighbour, b"neighbour") == b"neighbour"
    node = await world.api.request("GET", node_path(pod))
    assert is_ready(node)  # the kubelet still reaches the API server

    await revocation
    assert await asyncio.wait_for(reader.read(100), 20) == b"during"
    assert await ask(reader, writer, b"after") == b"after"
    for stream in (writer, neighbour[1]):
        stream.close()


async def test_a_partition_of_both_paths_makes_the_node_unknown(open_world: OpenWorld) -> None:
    pool = make_pool()
    world = await open_world([pool], factor=FACTOR)
    pod = await run_pod(world, pool)
    node = pod["spec"]["nodeName"]
    revocation = world.revoke("partition-data", node=node, seconds=120.0, with_api=True)
    await world.until(
        node_path(pod),
        lambda found: found is not None and find_condition(found, "Ready")["status"] == "Unknown",
        what="Ready=Unknown",
    )
    await revocation
    await world.until(
        node_path(pod), lambda found: found is not None and is_ready(found), what="Ready again"
    )


async def test_a_zone_wave_takes_every_spot_node_of_the_zone_and_no_other(
    open_world: OpenWorld,
) -> None:
    here = make_pool()
    there = make_pool("elsewhere", zone="us-central1-b")
    world = await open_world([here, there], factor=FACTOR)
    pods = [await run_pod(world, here, name) for name in ("one", "two", "three")]
    other = await run_pod(world, there, "four")
    victims = {pod["spec"]["nodeName"] for pod in pods}
    revocation = world.revoke("zone-wave", node=min(victims))
    for name in ("one", "two", "three"):
        found = await world.until_pod(name, is_over)
        assert find_condition(found, "DisruptionTarget")["reason"] == "TerminationByKubelet"
    record = await revocation
    assert {part.node for part in record.parts} == victims
    starts = [part.at("notice") for part in record.parts]
    assert (max(starts) - record.at("notice")).total_seconds() < 60 * FACTOR + 1.0
    assert len(set(starts)) == 3
    assert world.node(other["spec"]["nodeName"]).state is State.RUNNING
    assert is_running(await world.api.request("GET", f"{world.path('pods')}/four"))


async def test_a_returning_node_has_neither_gpus_nor_images_at_first(
    open_world: OpenWorld,
) -> None:
    pool = make_pool()
    factor = 0.02
    world = await open_world([pool], factor=factor)
    pod = await run_pod(world, pool)
    revocation = world.revoke("return", node=pod["spec"]["nodeName"], pull=(100.0, 100.0))
    await world.cloud.journal.until("node-deleted", node=pod["spec"]["nodeName"])
    await world.api.request("POST", world.path("pods"), make_pod("two", pool))
    record = await revocation
    replacement = record.facts["replacement"]
    assert replacement != record.node
    assert record.seconds("returned") >= 180 * factor
    node = await world.api.request("GET", f"/api/v1/nodes/{replacement}")
    assert node["status"]["allocatable"][GPU_RESOURCE] == "0"
    await world.until_pod("two", is_running, timeout=60)
    ready, gpus = (
        world.cloud.journal.find(what, node=replacement)[0] for what in ("ready", "gpus")
    )
    assert 30 * factor <= (gpus.at - ready.at).total_seconds() < 90 * factor + 1.0
    bound = await world.api.request("GET", f"{world.path('pods')}/two")
    assert bound["spec"]["nodeName"] == replacement
    started = bound["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
    assert started >= gpus.at.strftime("%Y-%m-%dT%H:%M:%SZ")


async def test_without_capacity_the_replacement_stays_pending(open_world: OpenWorld) -> None:
    pool = make_pool()
    world = await open_world([pool], factor=FACTOR)
    pod = await run_pod(world, pool)
    revocation = world.revoke("no-capacity", node=pod["spec"]["nodeName"], seconds=(150.0, 150.0))
    await world.until_pod("one", is_over)
    await world.api.request("POST", world.path("pods"), make_pod("two", pool))
    await world.cloud.journal.until("no-capacity", timeout=60)
    record = await revocation
    assert record.seconds("capacity") >= 150 * FACTOR
    assert [part.scenario for part in record.parts] == ["gke-spot"]
    requested = world.cloud.journal.find("requested", pool="spot")
    assert all(entry.at >= record.at("capacity") for entry in requested[1:])
    await world.until_pod("two", is_running, timeout=60)


async def test_two_nodes_may_be_lost_at_once(open_world: OpenWorld) -> None:
    pool = make_pool()
    world = await open_world([pool], factor=0.03)
    pods = [await run_pod(world, pool, name) for name in ("one", "two")]
    scenarios = ("power-loss", "gke-spot")
    revocations = [
        world.revoke(scenario, node=pod["spec"]["nodeName"])
        for scenario, pod in zip(scenarios, pods, strict=True)
    ]
    records = [await revocation for revocation in revocations]
    assert [record.scenario for record in records] == list(scenarios)
    assert not world.nodes("spot")


async def connect(ip: str, source: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(ip, ECHO_PORT, local_addr=(source, 0))


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, words: bytes) -> bytes:
    writer.write(words)
    return await asyncio.wait_for(reader.read(100), 5)
