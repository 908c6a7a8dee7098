"""Volumes are really mounted, and the environment is what the pod asks for."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from world.kubelet.views import View

if TYPE_CHECKING:
    from tests.kubelet.conftest import Bench
    from world.kubelet import Kubelet


pytestmark = pytest.mark.parametrize("view", [View.OVERLAY, View.SHARED], indirect=True)


def mount(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"volumeMounts": [{"name": name, "mountPath": path, **more}]}


async def create(bench: Bench, kind: str, name: str, **body: Any) -> None:
    path = f"/api/v1/namespaces/{bench.namespace}/{kind}"
    await bench.api.request("POST", path, {"metadata": {"name": name}, **body})


async def run(bench: Bench, node: Kubelet, command: list[str] | str, **more: Any) -> str:
    await bench.pod(node, "reader", command, **more)
    pod = await bench.ended("reader")
    log = await bench.log("reader")
    assert pod["status"]["phase"] == "Succeeded", log
    return log


async def test_a_config_map_is_mounted_whole_or_by_items(bench: Bench, node: Kubelet) -> None:
    await create(bench, "configmaps", "settings", data={"a": "1", "b": "2"})
    items = {"name": "settings", "items": [{"key": "b", "path": "sub/renamed", "mode": 0o600}]}
    volumes = [
        {"name": "whole", "configMap": {"name": "settings"}},
        {"name": "part", "configMap": items},
    ]
    mounts = [
        {"name": "whole", "mountPath": "/whole"},
        {"name": "part", "mountPath": "/part", "readOnly": True},
    ]

    log = await run(
        bench,
        node,
        "cat /whole/a /whole/b /part/sub/renamed; stat -c ' %a' /part/sub/renamed; ls /part",
        container={"volumeMounts": mounts},
        spec={"volumes": volumes},
    )

    assert log == "122 600\nsub\n"


async def test_a_pod_waits_for_a_secret_that_is_missing(bench: Bench, node: Kubelet) -> None:
    volumes = [{"name": "v", "secret": {"secretName": "token"}}]
    await bench.pod(
        node, "reader", "cat /s/key", container=mount("v", "/s"), spec={"volumes": volumes}
    )
    pod = await bench.until(f"{bench.pods}/reader", lambda pod: "ContainerCreating" in str(pod))
    assert pod["status"]["phase"] == "Pending"

    await create(bench, "secrets", "token", data={"key": base64.b64encode(b"word").decode()})

    assert (await bench.ended("reader"))["status"]["phase"] == "Succeeded"
    assert await bench.log("reader") == "word"


async def test_an_optional_source_may_be_missing(bench: Bench, node: Kubelet) -> None:
    volumes = [{"name": "v", "configMap": {"name": "none", "optional": True}}]

    log = await run(
        bench, node, "ls /v | wc -l", container=mount("v", "/v"), spec={"volumes": volumes}
    )

    assert log == "0\n"


async def test_a_host_path_is_the_folder_of_the_machine(bench: Bench, node: Kubelet) -> None:
    folder = bench.root / "with space, and comma"
    volumes = [{"name": "v", "hostPath": {"path": str(folder), "type": "DirectoryOrCreate"}}]

    await run(
        bench,
        node,
        "echo saved >/data/file",
        container=mount("v", "/data", subPath="deep/inside"),
        spec={"volumes": volumes},
    )

    assert (folder / "deep" / "inside" / "file").read_text() == "saved\n"


async def test_a_read_only_mount_cannot_be_written(bench: Bench, node: Kubelet) -> None:
    folder = bench.root / "fixed"
    volumes = [{"name": "v", "hostPath": {"path": str(folder)}}]

    log = await run(
        bench,
        node,
        "touch /data/x || echo refused",
        container=mount("v", "/data", readOnly=True),
        spec={"volumes": volumes},
    )

    assert "refused" in log
    assert list(folder.iterdir()) == []


async def test_a_claim_outlives_the_pod_that_wrote_it(bench: Bench, node: Kubelet) -> None:
    volume = f"{bench.namespace}-volume"
    body = {
        "metadata": {"name": volume},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "hostPath": {"path": str(bench.root / "claimed")},
            "claimRef": {"namespace": bench.namespace, "name": "checkpoints"},
            "storageClassName": "",
        },
    }
    await bench.api.request("POST", "/api/v1/persistentvolumes", body)
    claim = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "volumeName": volume,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    await create(bench, "persistentvolumeclaims", "checkpoints", spec=claim)
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "checkpoints"}}]
    shared: dict[str, Any] = {"container": mount("v", "/ckpt"), "spec": {"volumes": volumes}}
    await bench.pod(node, "writer", "echo 7 >/ckpt/step", **shared)
    await bench.ended("writer")
    await bench.api.request("DELETE", f"{bench.pods}/writer")
    await bench.gone("writer")

    log = await run(bench, node, "cat /ckpt/step", **shared)

    assert log == "7\n"
    await bench.api.request("DELETE", f"/api/v1/persistentvolumes/{volume}")


async def test_a_projected_token_opens_the_api(bench: Bench, node: Kubelet) -> None:
    command = """
import json, os, ssl, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount/"
token = open(folder + "token").read()
host = os.environ["KUBERNETES_SERVICE_HOST"] + ":" + os.environ["KUBERNETES_SERVICE_PORT"]
url = f"https://{host}/apis/authentication.k8s.io/v1/selfsubjectreviews"
body = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
request = urllib.request.Request(url, json.dumps(body).encode(), method="POST",
    headers={"Authorization": "Bearer " + token, "Content-Type": "application/json"})
context = ssl.create_default_context(cafile=folder + "ca.crt")
print(urllib.request.urlopen(request, context=context).read().decode())
"""
    spec = {"automountServiceAccountToken": True}
    await bench.pod(node, "reader", ["python", "-c", command], spec=spec)

    pod = await bench.ended("reader")

    answer = json.loads(await bench.log("reader"))
    user = answer["status"]["userInfo"]
    assert user["username"] == f"system:serviceaccount:{bench.namespace}:default"
    assert user["extra"]["authentication.kubernetes.io/pod-uid"] == [pod["metadata"]["uid"]]


async def test_the_downward_api_tells_the_pod_about_itself(bench: Bench, node: Kubelet) -> None:
    items = [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "one", "fieldRef": {"fieldPath": "metadata.annotations['a.b/c']"}},
        {
            "path": "cpus",
            "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"},
        },
    ]
    volumes = [{"name": "v", "downwardAPI": {"items": items}}]

    log = await run(
        bench,
        node,
        "cat /v/labels; echo; cat /v/one; echo; cat /v/cpus",
        container=mount("v", "/v"),
        spec={"volumes": volumes},
        metadata={"labels": {"x": "1", "y": "2"}, "annotations": {"a.b/c": "d"}},
    )

    assert log == 'x="1"\ny="2"\nd\n8'


async def test_a_volume_of_an_unknown_kind_fails_the_pod(bench: Bench, node: Kubelet) -> None:
    volumes = [{"name": "v", "nfs": {"server": "10.0.0.1", "path": "/"}}]
    await bench.pod(node, "remote", "true", container=mount("v", "/v"), spec={"volumes": volumes})

    pod = await bench.ended("remote")

    assert pod["status"]["phase"] == "Failed"
    assert pod["status"]["reason"] == "FailedMount"
    assert "nfs" in pod["status"]["message"]


async def test_the_environment_comes_from_everywhere(bench: Bench, node: Kubelet) -> None:
    await create(bench, "configmaps", "settings", data={"a": "1", "b": "2"})
    await create(bench, "secrets", "token", data={"key": base64.b64encode(b"word").decode()})
    env = [
        {"name": "PLAIN", "value": "x"},
        {"name": "LATER", "value": "$(PLAIN)-$(P_a)-$(NOBODY)-$$(PLAIN)"},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "b"}}},
        {"name": "S", "valueFrom": {"secretKeyRef": {"name": "token", "key": "key"}}},
        {
            "name": "NONE",
            "valueFrom": {"secretKeyRef": {"name": "gone", "key": "key", "optional": True}},
        },
        {
            "name": "MIB",
            "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}},
        },
    ]

    log = await run(
        bench,
        node,
        ["sh", "-c", 'echo "$LATER $IP $NODE $B $S ${NONE-unset} $MIB $1"; hostname', "x", "$(B)"],
        container={
            "env": env,
            "envFrom": [{"prefix": "P_", "configMapRef": {"name": "settings"}}],
            "resources": {"limits": {"memory": "2Gi"}},
        },
        spec={"hostname": "worker-0"},
    )

    pod = await bench.api.request("GET", f"{bench.pods}/reader")
    ip, name = pod["status"]["podIP"], node.shape.name
    assert log == f"x-1-$(NOBODY)-$(PLAIN) {ip} {name} 2 word unset 2048 2\nworker-0\n"


@pytest.mark.parametrize("folder", ["/work-here", "/usr/share"])
async def test_the_working_directory_is_the_one_asked_for(
    bench: Bench, node: Kubelet, folder: str
) -> None:
    log = await run(bench, node, "pwd", container={"workingDir": folder})

    assert log == f"{folder}\n"
