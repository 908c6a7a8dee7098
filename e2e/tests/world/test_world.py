"""The world as a whole: what it says when waiting is in vain, and what it leaves behind."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from world.api import Api
from world.cloud.scenarios import SCENARIOS, ScenarioError
from world.samples import STAYS, is_running, make_pod, make_pool
from world.world import World

if TYPE_CHECKING:
    from world.session import Session
    from world.world import OpenWorld

FACTOR = 0.05


def processes_below(pid: int) -> set[int]:
    """Return the processes that a process started, and theirs."""
    found: set[int] = set()
    for thread in Path(f"/proc/{pid}/task").iterdir():
        children = (thread / "children").read_text().split()
        for child in map(int, children):
            found |= {child} | processes_below(child)
    return found


def addresses() -> set[str]:
    """Return the addresses of this namespace."""
    lines = Path("/proc/net/fib_trie").read_text().splitlines()
    pairs = itertools.pairwise(lines)
    return {line.split()[-1] for line, following in pairs if "/32 host LOCAL" in following}


async def test_after_its_end_a_world_has_left_nothing_behind(session: Session) -> None:
    before = processes_below(os.getpid())
    owned = addresses()
    mounts = Path("/proc/self/mountinfo").read_text()
    pool = make_pool()
    async with World(session, pools=[pool], factor=FACTOR, namespace="leftovers") as world:
        for name in ("one", "two"):
            pod = make_pod(name, pool, script=STAYS)
            await world.api.request("POST", world.path("pods"), pod)
        for name in ("one", "two"):
            await world.until_pod(name, is_running, timeout=60)
        root = world.root
        assert processes_below(os.getpid()) > before
        assert len(addresses() - owned) == 5  # three nodes, two pods
        world.revoke("partition-data", node=world.nodes("spot")[0].name)
    assert processes_below(os.getpid()) == before
    assert addresses() == owned
    assert Path("/proc/self/mountinfo").read_text() == mounts
    assert not root.exists()
    assert not world.faults
    async with Api(session.kubeconfig) as api:
        nodes = await api.request("GET", "/api/v1/nodes")
        assert not nodes["items"]
        await api.request("DELETE", "/api/v1/namespaces/leftovers")
        await api.request("DELETE", world.path("pods"), gracePeriodSeconds="0")


async def test_two_worlds_share_a_control_plane(open_world: OpenWorld) -> None:
    first = await open_world([make_pool("left")], factor=FACTOR)
    second = await open_world([make_pool("right")], factor=FACTOR)
    names = [machine.name for world in (first, second) for machine in world.nodes()]
    assert len(set(names)) == 2
    pod = make_pod("one", make_pool("right"))
    await second.api.request("POST", second.path("pods"), pod)
    await second.until_pod("one", is_running, timeout=60)
    assert not first.nodes("left")


async def test_a_wait_in_vain_says_what_it_waited_for_and_what_it_saw(
    open_world: OpenWorld,
) -> None:
    world = await open_world([], factor=FACTOR)
    path = world.path("configmaps/notes")
    with pytest.raises(TimeoutError, match=r"configmaps/notes: not full .* no such object"):
        await world.until(path, bool, timeout=0.3, what="full")
    body = {"metadata": {"name": "notes"}, "data": {"shade": "green"}}
    await world.api.request("POST", world.path("configmaps"), body)
    with pytest.raises(TimeoutError, match=r"not blue .*shade.*green"):
        await world.until(path, lambda found: found is None, timeout=0.3, what="blue")


async def test_a_wait_ends_when_the_object_is_deleted(open_world: OpenWorld) -> None:
    world = await open_world([], factor=FACTOR)
    path = world.path("configmaps/notes")
    body = {"metadata": {"name": "notes"}}
    await world.api.request("POST", world.path("configmaps"), body)
    assert await world.until(path, bool)
    await world.api.request("DELETE", path)
    assert await world.until(path, lambda found: found is None) is None


async def test_an_unknown_scenario_is_answered_with_those_that_exist(
    open_world: OpenWorld,
) -> None:
    world = await open_world([], factor=FACTOR)
    [machine] = world.nodes()
    with pytest.raises(ScenarioError, match=r"no scenario 'meteor'.*power-loss"):
        world.revoke("meteor", node=machine.name)
    with pytest.raises(KeyError, match=machine.name):
        world.revoke("power-loss", node="no-such-node")
    assert len(SCENARIOS) == 12


async def test_a_machine_that_is_off_cannot_be_revoked_again(open_world: OpenWorld) -> None:
    world = await open_world([], factor=FACTOR)
    [machine] = world.nodes()
    await world.revoke("power-loss", node=machine.name, node_deleted=None)
    with pytest.raises(ScenarioError, match="is off, not running"):
        world.revoke("gke-spot", node=machine.name)


async def test_an_error_in_a_scenario_is_a_fault_of_the_world(session: Session) -> None:
    async with World(session, pools=[], factor=FACTOR, namespace="faults") as world:
        [machine] = world.nodes()
        with pytest.raises(TypeError):
            await world.revoke("gke-spot", node=machine.name, no_such_option=1)
        assert [type(fault) for fault in world.faults] == [TypeError]
        await world.api.request("DELETE", "/api/v1/namespaces/faults")
