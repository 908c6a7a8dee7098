"""The namespace, its addresses, the way in from outside, and what is said when it is refused."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from world.network import LAST_SUBNET, Network, NetworkError, node_address
from world.samples import is_over, make_pod, make_pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from world.session import Session
    from world.world import OpenWorld

KUBECTL = str(Path(sys.executable).with_name("kubectl"))


def can_bind(address: str) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


async def test_a_subnet_has_its_address_until_it_is_given_back(session: Session) -> None:
    number = session.network.take_subnet()
    assert can_bind(node_address(number))
    session.network.release_subnet(number)
    assert not can_bind(node_address(number))


async def test_a_subnet_given_back_is_used_again_as_late_as_possible(session: Session) -> None:
    taken = [session.network.take_subnet() for _ in range(3)]
    session.network.release_subnet(taken[0])
    following = session.network.take_subnet()
    assert following not in taken
    for number in [*taken[1:], following]:
        session.network.release_subnet(number)


async def test_adding_and_removing_an_address_twice_is_no_error(session: Session) -> None:
    for _ in range(2):
        session.network.add("10.77.255.7")
    assert can_bind("10.77.255.7")
    for _ in range(2):
        session.network.remove("10.77.255.7")
    assert not can_bind("10.77.255.7")


async def test_running_out_of_subnets_is_said(session: Session) -> None:
    network = Network(listener=session.network.listener, _free=[])
    with pytest.raises(NetworkError, match=str(LAST_SUBNET)):
        network.take_subnet()


async def test_nothing_leads_out_of_the_namespace() -> None:
    names = {name for _, name in socket.if_nameindex()}
    up = {name for name in names if "up" in Path(f"/sys/class/net/{name}/operstate").read_text()}
    assert up <= {"lo"}
    with socket.socket() as probe, pytest.raises(OSError, match="unreachable"):
        probe.connect(("192.0.2.1", 80))


async def test_partitions_are_healed_one_by_one(session: Session) -> None:
    network = session.network
    one, two = network.take_subnet(), network.take_subnet()
    with socket.create_server((node_address(one), 0)) as server:
        port = server.getsockname()[1]

        async def reaches(source: str) -> bool:
            try:
                async with asyncio.timeout(0.5):
                    _, writer = await asyncio.open_connection(
                        node_address(one), port, local_addr=(source, 0)
                    )
            except TimeoutError:
                return False
            writer.close()
            return True

        assert await reaches(node_address(two))
        network.partition(one)
        network.partition(two)
        network.heal(one)
        assert not await reaches(node_address(two))
        assert await reaches("127.0.0.1")
        network.heal(two)
        assert await reaches(node_address(two))
    for number in (one, two):
        network.release_subnet(number)


async def test_kubectl_outside_the_namespace_sees_the_cluster(
    session: Session, outside: Callable[..., str]
) -> None:
    config = f"--kubeconfig={session.outside_kubeconfig}"
    assert "kube-system" in outside(KUBECTL, config, "get", "namespaces")
    inside = f"--kubeconfig={session.kubeconfig}"
    assert "refused" in outside(KUBECTL, inside, "get", "namespaces", "--request-timeout=5s")


async def test_kubectl_outside_reads_the_log_of_a_pod(
    open_world: OpenWorld, outside: Callable[..., str]
) -> None:
    pool = make_pool()
    world = await open_world([pool], factor=0.05)
    pod = make_pod("one", pool, script="echo hello from inside")
    await world.api.request("POST", world.path("pods"), pod)
    await world.until_pod("one", is_over, timeout=60)
    config = f"--kubeconfig={world.session.outside_kubeconfig}"
    words = (KUBECTL, config, "--namespace", world.namespace, "logs", "one")
    assert "hello from inside" in await asyncio.to_thread(outside, *words)


def run_without(*privileges: str, program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*privileges, sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


async def test_a_refused_namespace_is_explained() -> None:
    run = run_without(
        *("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"),
        program="from world.network import enter; enter()",
    )
    assert run.returncode != 0
    assert "NetworkError: the kernel refused a network namespace" in run.stderr
    assert "run it as root" in run.stderr


async def test_refused_mounts_are_explained() -> None:
    program = """
import subprocess
from world import network
limit = "/proc/sys/user/max_mnt_namespaces"
network._unshare_as_user()  # limits count in the user namespace that they are set in
open(limit, "w").write("0")
network._try_mounts()
"""
    run = run_without("env", program=program)
    assert "NetworkError: mount and PID namespaces are refused" in run.stderr, run.stderr
    assert "Run as root" in run.stderr


async def test_a_missing_nft_is_explained() -> None:
    program = """
import world.network as network
network.SYSTEM_PATH = "/nowhere"
network.find_nft()
"""
    run = run_without("env", "PATH=/nowhere", program=program)
    assert "NetworkError: the program `nft` is missing" in run.stderr
    assert "apt-get install nftables" in run.stderr
