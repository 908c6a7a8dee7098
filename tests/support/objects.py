"""Objects as the API server hands them out: pods and nodes of a job."""

from typing import Any

from ebbtide.wire import names

Json = dict[str, Any]
JOB_UID = "7f4c1b52-0000-4000-8000-000000000001"
TIME = "2026-01-01T12:00:00Z"


def pod_object(index: int = 0, attempt: int = 1, **changes: Any) -> Json:
    """Return a worker of the job `digits` in `team`, with parts of it merged over."""
    role = changes.pop("role", "worker")
    name = names.pod_name(job="digits", role=role, index=index, attempt=attempt)
    body: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "resourceVersion": "10",
            "creationTimestamp": TIME,
            "labels": {
                names.LABEL_JOB_NAME: "digits",
                names.LABEL_ROLE: role,
                names.LABEL_INDEX: str(index),
                names.LABEL_ATTEMPT: str(attempt),
                names.LABEL_POOL: "spot",
            },
            "ownerReferences": [owner()],
        },
        "spec": {
            "nodeName": "node-1",
            "containers": [
                {"name": "trainer", "resources": {"limits": {"nvidia.com/gpu": "1"}}},
            ],
        },
        "status": {"phase": "Running", "podIP": "10.0.0.1"},
    }
    return _over(body, changes)


def node_object(name: str = "node-1", *, ready: bool = True, **changes: Any) -> Json:
    """Return a node with one GPU, with parts of it merged over."""
    body: Json = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "10",
            "creationTimestamp": TIME,
            "labels": {"example.com/pool": "v100-spot"},
        },
        "spec": {},
        "status": {
            "allocatable": {"nvidia.com/gpu": "1", "cpu": "8"},
            "nodeInfo": {"bootID": "boot-1"},
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True" if ready else "Unknown",
                    "reason": "KubeletReady" if ready else "NodeStatusUnknown",
                    "lastTransitionTime": TIME,
                }
            ],
        },
    }
    return _over(body, changes)


def owner(uid: str = JOB_UID, *, kind: str = "TrainingJob", name: str = "digits") -> Json:
    """Return an owner reference that controls."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _over(old: Json, change: Json) -> Json:
    merged = dict(old)
    for key, value in change.items():
        inner = merged.get(key)
        both = isinstance(value, dict) and isinstance(inner, dict)
        merged[key] = _over(inner, value) if both and isinstance(inner, dict) else value
    return merged
