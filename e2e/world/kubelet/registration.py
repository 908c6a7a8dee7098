"""What a node says about itself: pure builders of Node, node status and Lease."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from world.kubelet.shape import NodeShape

Json: TypeAlias = dict[str, Any]

VERSION: Final = "v1.36.3"
NODES: Final = "/api/v1/nodes"
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
LEASE_SECONDS: Final = 40

HEALTHY: Final = {
    "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}
READY: Final = ("True", "KubeletReady", "kubelet is posting ready status")
SHUTTING_DOWN: Final = ("False", "KubeletNotReady", "node is shutting down")


def node_object(shape: NodeShape) -> Json:
    """Return the Node to create."""
    not_ready = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": shape.name, "labels": shape.all_labels()},
        "spec": {
            "taints": [not_ready, *shape.taints],
            "providerID": shape.provider_id or f"local://{shape.name}",
        },
    }


def boot_status(shape: NodeShape, *, boot_id: str, port: int, conditions: Sequence[Json]) -> Json:
    """Return the first status of a boot."""
    capacity = shape.all_capacity()
    return {
        "capacity": capacity,
        "allocatable": capacity,
        "addresses": [
            {"type": "InternalIP", "address": shape.ip},
            {"type": "Hostname", "address": shape.name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "nodeInfo": {
            "machineID": shape.name,
            "systemUUID": shape.name,
            "bootID": boot_id,
            "kernelVersion": os.uname().release,
            "osImage": "process",
            "containerRuntimeVersion": "process://1",
            "kubeletVersion": VERSION,
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
        "conditions": list(conditions),
    }


def node_conditions(
    *, shutting_down: bool, since: Mapping[str, tuple[str, str]], now: str
) -> list[Json]:
    """Return the conditions, Ready last; `since` has status and time of the last change of each."""
    values = {kind: ("False", *words) for kind, words in HEALTHY.items()}
    values["Ready"] = SHUTTING_DOWN if shutting_down else READY
    conditions = []
    for kind, (status, reason, message) in values.items():
        before, moved = since.get(kind, ("", now))
        conditions.append(
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": now,
                "lastTransitionTime": moved if before == status else now,
            }
        )
    return conditions


def lease_object(name: str, *, owner_uid: str, now: str) -> Json:
    """Return the Lease to create; it goes when its Node goes."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": owner_uid}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": now,
        },
    }
