"""Names of Services resolve in pods, without a DNS server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from world.api import MERGE

if TYPE_CHECKING:
    from tests.kubelet.conftest import Bench
    from world.kubelet import Kubelet

LOOK = (
    "import socket, time\n"
    "def look():\n"
    "    try:\n"
    "        found = socket.getaddrinfo('coordinator', 80, socket.AF_INET, socket.SOCK_STREAM)\n"
    "        return sorted(entry[4][0] for entry in found)\n"
    "    except OSError:\n"
    "        return []\n"
    "last = None\n"
    "while True:\n"
    "    now = look()\n"
    "    if now != last: print('sees', now, flush=True)\n"
    "    last = now\n"
    "    time.sleep(0.1)\n"
)


async def create_service(bench: Bench, **spec: Any) -> None:
    body = {
        "metadata": {"name": "coordinator"},
        "spec": {
            "clusterIP": "None",
            "selector": {"attempt": "1"},
            "ports": [{"port": 80}],
            **spec,
        },
    }
    await bench.api.request("POST", f"/api/v1/namespaces/{bench.namespace}/services", body)


async def test_a_headless_service_follows_its_pods(bench: Bench, node: Kubelet) -> None:
    await create_service(bench, publishNotReadyAddresses=True)
    ips = []
    for attempt in ("1", "2"):
        never_ready = {"readinessProbe": {"exec": {"command": ["false"]}}}
        labels = {"labels": {"attempt": attempt}}
        await bench.pod(
            node, f"c-{attempt}", "exec sleep 1000", container=never_ready, metadata=labels
        )
        pod = await bench.phase(f"c-{attempt}", "Running")
        ips.append(pod["status"]["podIP"])
    await bench.pod(node, "client", ["python", "-c", LOOK])
    await bench.log_has("client", f"sees ['{ips[0]}']")

    path = f"/api/v1/namespaces/{bench.namespace}/services/coordinator"
    patch = {"spec": {"selector": {"attempt": "2"}}}
    await bench.api.request("PATCH", path, patch, content_type=MERGE)

    await bench.log_has("client", f"sees ['{ips[1]}']")


async def test_every_form_of_a_name_resolves(bench: Bench, node: Kubelet) -> None:
    await create_service(bench)
    labels = {"labels": {"attempt": "1"}}
    spec = {"hostname": "c-0", "subdomain": "coordinator"}
    await bench.pod(node, "server", "exec sleep 1000", metadata=labels, spec=spec)
    ip = (await bench.phase("server", "Running"))["status"]["podIP"]
    zone = f"{bench.namespace}.svc.cluster.local"
    names = ["coordinator", f"coordinator.{bench.namespace}", f"coordinator.{bench.namespace}.svc"]
    names += [f"coordinator.{zone}", f"c-0.coordinator.{zone}", "c-0.coordinator"]
    waiting = "until getent hosts coordinator >/dev/null; do sleep 0.1; done; "

    await bench.pod(
        node,
        "client",
        f"{waiting} getent ahostsv4 {names[0]} | cut -d' ' -f1 | uniq; "
        + "; ".join(f"getent hosts {name} | cut -d' ' -f1" for name in names),
    )

    await bench.ended("client")
    assert (await bench.log("client")).split() == [ip] * (len(names) + 1)


async def test_a_pod_that_is_not_ready_has_no_name(bench: Bench, node: Kubelet) -> None:
    await create_service(bench)
    labels = {"labels": {"attempt": "1"}}
    mount = {"volumeMounts": [{"name": "go", "mountPath": "/go"}]}
    probe = {"exec": {"command": ["test", "-e", "/go/on"]}, "periodSeconds": 1}
    spec = {"volumes": [{"name": "go", "hostPath": {"path": str(bench.root / "go")}}]}
    container = {**mount, "readinessProbe": probe}
    await bench.pod(
        node, "server", "exec sleep 1000", container=container, metadata=labels, spec=spec
    )
    ip = (await bench.phase("server", "Running"))["status"]["podIP"]
    await bench.pod(node, "client", ["python", "-c", LOOK])
    await bench.log_has("client", "sees []")

    (bench.root / "go" / "on").touch()

    assert await bench.log_has("client", f"sees ['{ip}']")
