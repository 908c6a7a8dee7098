"""A node registers, beats, and has the faults that nodes have."""

from __future__ import annotations

import asyncio
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.kubelet.conftest import Bench
    from world.kubelet import Kubelet

NODES = "/api/v1/nodes"
LIMIT = 60.0  # seconds; a loaded machine, not an expectation
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
WORKS = "trap 'exit 82' TERM; echo up; while :; do sleep 0.05; done"
DEAF = "trap '' TERM; echo up; while :; do sleep 0.05; done"
SHUT_DOWN = "Pod was terminated in response to imminent node shutdown."


def condition(found: dict[str, Any] | None, kind: str) -> dict[str, Any]:
    listed = (found or {}).get("status", {}).get("conditions") or []
    return next((c for c in listed if c["type"] == kind), {})


def is_ready(node: dict[str, Any] | None) -> bool:
    return condition(node, "Ready").get("status") == "True"


async def test_a_node_registers_with_what_its_cloud_says(bench: Bench) -> None:
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    kubelet = await bench.boot(
        labels={"topology.kubernetes.io/zone": "a"},
        taints=(taint,),
        capacity={"nvidia.com/gpu": "2"},
        provider_id="sim://a/1",
    )

    node = await bench.api.request("GET", f"{NODES}/{kubelet.shape.name}")

    assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "a"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == kubelet.shape.name
    assert node["spec"]["providerID"] == "sim://a/1"
    assert taint in node["spec"]["taints"]
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    assert node["status"]["nodeInfo"]["bootID"] == kubelet.boot_id
    assert [c["type"] for c in node["status"]["conditions"]][-1] == "Ready"
    assert is_ready(node)
    lease = await bench.api.request("GET", f"{LEASES}/{kubelet.shape.name}")
    assert lease["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]


async def test_the_lease_is_renewed(bench: Bench) -> None:
    kubelet = await bench.boot(heartbeat_seconds=0.1)
    path = f"{LEASES}/{kubelet.shape.name}"
    first = await bench.api.request("GET", path)

    await bench.until(
        path, lambda lease: lease and lease["spec"]["renewTime"] > first["spec"]["renewTime"]
    )


async def test_a_lease_that_is_gone_is_made_again(bench: Bench) -> None:
    kubelet = await bench.boot(heartbeat_seconds=0.1)
    path = f"{LEASES}/{kubelet.shape.name}"
    first = await bench.api.request("GET", path)

    await bench.api.request("DELETE", path)

    await bench.until(
        path, lambda lease: lease and lease["metadata"]["uid"] != first["metadata"]["uid"]
    )


async def test_a_device_plugin_may_arrive_late(bench: Bench) -> None:
    kubelet = await bench.boot()

    await kubelet.set_capacity({"nvidia.com/gpu": "8"})

    node = await bench.api.request("GET", f"{NODES}/{kubelet.shape.name}")
    assert node["status"]["capacity"]["nvidia.com/gpu"] == "8"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"


async def test_the_scheduler_finds_the_node(bench: Bench) -> None:
    kubelet = await bench.boot(capacity={"nvidia.com/gpu": "1"})
    spec = {"nodeSelector": {"kubernetes.io/hostname": kubelet.shape.name}, "nodeName": None}
    resources = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}

    await bench.pod(kubelet, "placed", "true", container=resources, spec=spec)

    assert (await bench.ended("placed"))["spec"]["nodeName"] == kubelet.shape.name


async def test_a_graceful_shutdown_ends_pods_as_a_real_kubelet_does(
    bench: Bench, node: Kubelet
) -> None:
    await bench.pod(node, "works", WORKS)
    await bench.log_has("works", "up")

    await node.shutdown(grace=5, critical_grace=5)

    found = await bench.api.request("GET", f"{NODES}/{node.shape.name}")
    ready = condition(found, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "KubeletNotReady")
    assert ready["message"] == "node is shutting down"
    pod = await bench.api.request("GET", f"{bench.pods}/works")
    assert pod["status"]["phase"] == "Failed"
    assert (pod["status"]["reason"], pod["status"]["message"]) == ("Terminated", SHUT_DOWN)
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 82
    assert condition(pod, "DisruptionTarget")["status"] == "True"
    assert condition(pod, "DisruptionTarget")["reason"] == "TerminationByKubelet"
    assert condition(pod, "Ready")["reason"] == "PodFailed"


async def test_a_pod_is_not_failed_before_its_containers_have_ended(
    bench: Bench, node: Kubelet
) -> None:
    await bench.pod(node, "deaf", DEAF)
    await bench.log_has("deaf", "up")

    down = asyncio.create_task(node.shutdown(grace=2, critical_grace=1))

    await bench.until(f"{NODES}/{node.shape.name}", lambda found: not is_ready(found))
    pod = await bench.api.request("GET", f"{bench.pods}/deaf")
    assert pod["status"]["phase"] == "Running"
    assert condition(pod, "DisruptionTarget") == {}
    await down
    pod = await bench.api.request("GET", f"{bench.pods}/deaf")
    assert pod["status"]["phase"] == "Failed"
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


async def test_a_pod_that_exits_0_at_the_shutdown_succeeds_with_a_disruption_target(
    bench: Bench, node: Kubelet
) -> None:
    await bench.pod(node, "clean", WORKS.replace("82", "0"))
    await bench.log_has("clean", "up")

    await node.shutdown(grace=5, critical_grace=5)

    pod = await bench.api.request("GET", f"{bench.pods}/clean")
    assert pod["status"]["phase"] == "Succeeded"
    assert "reason" not in pod["status"]
    assert condition(pod, "DisruptionTarget")["reason"] == "TerminationByKubelet"


async def test_critical_pods_end_after_the_others(bench: Bench, node: Kubelet) -> None:
    spec = {"priorityClassName": "system-node-critical"}
    share = {
        "volumeMounts": [{"name": "share", "mountPath": "/share"}],
    }
    volumes = {"volumes": [{"name": "share", "hostPath": {"path": str(bench.root / "share")}}]}
    says = "trap 'sleep 0.3; echo {} >>/share/order; exit 1' TERM; echo up; "
    wait = "while :; do sleep 0.05; done"
    await bench.pod(node, "first", says.format("first") + wait, container=share, spec=volumes)
    await bench.pod(
        node, "last", says.format("last") + wait, container=share, spec={**volumes, **spec}
    )
    await bench.log_has("first", "up")
    await bench.log_has("last", "up")

    await node.shutdown(grace=5, critical_grace=5)

    assert (bench.root / "share" / "order").read_text() == "first\nlast\n"


async def test_a_pod_bound_during_the_shutdown_is_rejected(bench: Bench, node: Kubelet) -> None:
    await node.shutdown(grace=1, critical_grace=1)

    await bench.pod(node, "tardy", "true")

    pod = await bench.ended("tardy")
    assert pod["status"]["phase"] == "Failed"
    assert pod["status"]["reason"] == "NodeShutdown"
    assert pod["status"]["message"] == (
        "Pod was rejected: Pod was rejected as the node is shutting down."
    )


async def test_power_loss_is_silent_and_kills_at_once(
    bench: Bench, node: Kubelet, running: Any
) -> None:
    await bench.pod(node, "dark", ["sleep", "98765.5"])
    await bench.phase("dark", "Running")

    node.power_off()
    await bench.running[0]

    assert running("98765.5") == []
    pod = await bench.api.request("GET", f"{bench.pods}/dark")
    assert pod["status"]["phase"] == "Running"
    lost = await bench.until(f"{NODES}/{node.shape.name}", lambda found: not is_ready(found))
    assert condition(lost, "Ready")["status"] == "Unknown"


async def test_in_a_partition_processes_live_on_until_the_node_hears_of_it(
    bench: Bench, node: Kubelet, running: Any, until_none: Any
) -> None:
    await bench.pod(node, "cut", ["sleep", "98765.6"])
    await bench.phase("cut", "Running")

    node.partition()
    await bench.until(f"{NODES}/{node.shape.name}", lambda found: not is_ready(found))
    await bench.api.request("DELETE", f"{bench.pods}/cut", gracePeriodSeconds="0")
    assert running("98765.6", program="sleep") != []
    await node.heal()

    await until_none("98765.6")
    await bench.until(f"{NODES}/{node.shape.name}", is_ready)


async def test_after_a_partition_the_node_tells_what_happened(bench: Bench, node: Kubelet) -> None:
    await bench.pod(node, "meanwhile", "echo up; sleep 0.5; exit 3")
    await bench.log_has("meanwhile", "up")
    node.partition()
    await bench.until(f"{NODES}/{node.shape.name}", lambda found: not is_ready(found))

    await node.heal()

    pod = await bench.ended("meanwhile")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


async def test_a_node_returns_under_its_name_with_a_new_boot(bench: Bench) -> None:
    before = await bench.boot()
    await bench.pod(before, "lost", "exec sleep 1000")
    pod = await bench.phase("lost", "Running")
    before.power_off()
    await bench.running[0]

    after = await bench.boot(name=before.shape.name, ip=before.shape.ip)

    node = await bench.api.request("GET", f"{NODES}/{before.shape.name}")
    assert node["status"]["nodeInfo"]["bootID"] == after.boot_id != before.boot_id
    assert is_ready(node)
    found = await bench.ended("lost")
    assert found["status"]["phase"] == "Failed"
    assert found["status"]["podIP"] == pod["status"]["podIP"]
    ended = found["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "ContainerStatusUnknown")


async def test_a_restartable_pod_starts_again_on_the_returned_node(bench: Bench) -> None:
    before = await bench.boot()
    spec = {"restartPolicy": "Always"}
    await bench.pod(before, "back", "exec sleep 1000", spec=spec)
    await bench.phase("back", "Running")
    before.power_off()
    await bench.running[0]

    await bench.boot(name=before.shape.name, ip=before.shape.ip)

    pod = await bench.until(
        f"{bench.pods}/back",
        lambda pod: (
            pod
            and pod["status"]["containerStatuses"][0]["restartCount"] == 1
            and "running" in pod["status"]["containerStatuses"][0]["state"]
        ),
    )
    last = pod["status"]["containerStatuses"][0]["lastState"]["terminated"]
    assert last["reason"] == "ContainerStatusUnknown"


async def test_nothing_is_left_of_a_pod_that_is_gone(bench: Bench, node: Kubelet) -> None:
    folder = "/ebbtide-must-not-be-here"
    mount = {"volumeMounts": [{"name": "v", "mountPath": folder}]}
    spec = {"volumes": [{"name": "v", "emptyDir": {}}]}
    await bench.pod(node, "tidy", f"touch {folder}/x /etc/x-file", container=mount, spec=spec)
    pod = await bench.ended("tidy")
    assert pod["status"]["phase"] == "Succeeded"
    worker = node._workers[pod["metadata"]["uid"]]

    await bench.api.request("DELETE", f"{bench.pods}/tidy")
    await bench.gone("tidy")
    await worker.closed()

    assert not Path(folder).exists()
    assert not Path("/etc/x-file").exists()
    assert str(bench.root) not in Path("/proc/self/mountinfo").read_text()
    assert list(bench.root.rglob(f"*{pod['metadata']['uid']}*")) == []


def find_sleep(running: Any) -> int:
    """Return the process that a shell becomes a moment after it has said so."""
    deadline = time.monotonic() + LIMIT
    while not (pids := running("98765.7", program="sleep")):
        assert time.monotonic() < deadline, "the container's command does not run"
        time.sleep(0.01)
    (pid,) = pids
    return int(pid)


def test_containers_die_with_the_process_that_started_them(tmp_path: Path, running: Any) -> None:
    program = """
import asyncio, pathlib, sys
from world.kubelet.detection import find_view
from world.kubelet.process import Process
from world.kubelet.sandbox import Sandbox

async def main(folder):
    (folder / "stage").mkdir()
    box = Sandbox(
        folder=folder / "stage",
        table=folder / "t",
        hostname="h",
        working_folder="/",
        view=find_view(),
    )
    environment = {"PATH": "/usr/bin:/bin"}
    process = Process(["sleep", "98765.7"], box, environment=environment, log=folder / "log")
    print(repr(await process.begin()), flush=True)
    await process.end()

asyncio.run(main(pathlib.Path(sys.argv[1])))
"""
    world = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(world)},
    ) as owner:
        assert owner.stdout is not None
        try:
            assert owner.stdout.readline() == b"''\n"
            watch = os.pidfd_open(find_sleep(running))
        finally:
            owner.kill()
    readable, _, _ = select.select([watch], [], [], 5)
    os.close(watch)
    assert readable, "the container outlived its owner"
