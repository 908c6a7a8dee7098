"""Control planes of their own: how they start, fail and end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from world.api import Api, ApiError
from world.build import find_or_build
from world.controlplane import (
    STOP_ORDER,
    ControlPlane,
    ControlPlaneError,
    Settings,
    pick_port,
)

if TYPE_CHECKING:
    from world.session import Session

END_SECONDS = 10


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that has ended and waits for its parent does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


async def until_gone(pids: list[int]) -> None:
    async with asyncio.timeout(END_SECONDS):
        while any(is_alive(pid) for pid in pids):  # noqa: ASYNC110 - the kernel tells nobody
            await asyncio.sleep(0.05)


async def test_the_server_says_which_release_it_is(session: Session) -> None:
    async with Api(session.kubeconfig) as api:
        version = await api.request("GET", "/version")
    assert version["gitVersion"].startswith("v1.")
    assert "master" not in version["gitVersion"]


async def test_claims_are_bound_and_services_get_their_slices(session: Session) -> None:
    volume = {
        "metadata": {"name": "shelf"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "hostPath": {"path": "/tmp"},  # noqa: S108 - never mounted here
            "storageClassName": "shelf",
        },
    }
    claim = {
        "metadata": {"name": "claim"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "shelf",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    service = {
        "metadata": {"name": "front"},
        "spec": {"selector": {"app": "x"}, "ports": [{"port": 80}]},
    }
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    services = "/api/v1/namespaces/default/services"
    slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    async with Api(session.kubeconfig) as api, asyncio.timeout(60):
        await api.request("POST", "/api/v1/persistentvolumes", volume)
        await api.request("POST", claims, claim)
        async for kind, found in api.watch(claims, fieldSelector="metadata.name=claim"):
            shown = found if kind == "SYNC" else [found]  # it may be bound before we look
            if any(each["status"].get("phase") == "Bound" for each in shown):
                break
        await api.request("POST", services, service)
        selector = "kubernetes.io/service-name=front"
        async for kind, found in api.watch(slices, labelSelector=selector):
            if kind != "SYNC" or found:
                break
        await api.request("DELETE", f"{services}/front")
        await api.request("DELETE", f"{claims}/claim")
        await api.request("DELETE", "/api/v1/persistentvolumes/shelf")


async def test_it_stops_in_order_and_leaves_no_process(session: Session, tmp_path: Path) -> None:
    settings = Settings(binary=find_or_build(), root=tmp_path / "other")
    control_plane = ControlPlane(settings)
    control_plane.start()
    pids = [server.process.pid for server in control_plane.servers.values()]
    assert len(pids) == len(STOP_ORDER)
    assert all(is_alive(pid) for pid in pids)
    control_plane.stop()
    assert not any(is_alive(pid) for pid in pids)
    private = [path for path in settings.root.iterdir() if path.suffix in {".key", ".kubeconfig"}]
    assert private
    assert all(path.stat().st_mode & 0o077 == 0 for path in private)


async def test_a_second_start_finds_the_objects_of_the_first(tmp_path: Path) -> None:
    settings = Settings(binary=find_or_build(), root=tmp_path / "other")
    path = "/api/v1/namespaces/default/configmaps"
    with ControlPlane(settings) as first:
        async with Api(first.kubeconfig) as api:
            await api.request("POST", path, {"metadata": {"name": "kept"}, "data": {"a": "b"}})
    with ControlPlane(settings) as second:
        async with Api(second.kubeconfig) as api:
            kept = await api.request("GET", f"{path}/kept")
    assert kept["data"] == {"a": "b"}


async def test_a_port_taken_meanwhile_is_replaced_by_another(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as thief:
        taken = thief.getsockname()[1]
        answers = iter([taken])
        settings = Settings(
            binary=find_or_build(),
            root=tmp_path / "other",
            pick_port=lambda: next(answers, None) or pick_port(),
        )
        with ControlPlane(settings) as control_plane:
            assert control_plane.port != taken


async def test_a_server_that_does_not_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    settings = Settings(
        binary=find_or_build(),
        root=tmp_path / "other",
        api_server_flags=["--no-such-flag"],
    )
    control_plane = ControlPlane(settings)
    with pytest.raises(ControlPlaneError, match=r"kube-apiserver .*(?s:.*)no-such-flag"):
        control_plane.start()
    assert not control_plane.servers


async def test_the_servers_end_with_a_killed_parent(tmp_path: Path) -> None:
    program = """
        import sys, time
        from pathlib import Path
        from world.controlplane import ControlPlane, Settings
        binary, root = map(Path, sys.argv[1:])
        plane = ControlPlane(Settings(binary=binary, root=root))
        plane.start()
        print(*(server.process.pid for server in plane.servers.values()), flush=True)
        time.sleep(1000)
    """
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", textwrap.dedent(program)),
        *(str(find_or_build()), str(tmp_path / "other")),
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert child.stdout is not None
    line = await asyncio.wait_for(child.stdout.readline(), 60)
    pids = [int(word) for word in line.split()]
    assert len(pids) == len(STOP_ORDER)
    child.send_signal(signal.SIGKILL)
    await child.wait()
    await until_gone(pids)


async def test_an_unknown_user_is_refused(session: Session) -> None:
    stranger = session.control_plane.write_kubeconfig("stranger", "stranger")
    async with Api(stranger) as api:
        with pytest.raises(ApiError) as refusal:
            await api.request("GET", "/api/v1/pods")
    assert refusal.value.status == 403
