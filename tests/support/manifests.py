"""Manifests as users write them, and how to change one."""

import copy
from collections.abc import Mapping
from typing import Any, Final

ABSENT: Final = object()
"""As a value in `changed`: remove the field."""

Json = dict[str, Any]


def job_manifest(name: str = "digits", **spec: Any) -> Json:
    """Return a job that is right, with fields of its spec replaced."""
    return {
        "apiVersion": "ebbtide.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {
            "work": {"steps": 600, "globalBatchSize": 64},
            "elasticPolicy": {"minReplicas": 2, "maxReplicas": 4},
            "template": template(),
            **spec,
        },
    }


def stored(manifest: Mapping[str, Any]) -> Json:
    """Return a manifest as the API server hands it out, defaults aside."""
    metadata = {
        **manifest["metadata"],
        "uid": "7f4c1b52-0000-4000-8000-000000000001",
        "generation": 3,
        "resourceVersion": "41",
        "creationTimestamp": "2026-01-01T12:00:00Z",
    }
    return {**manifest, "metadata": metadata}


def template(**pod: Any) -> Json:
    """Return a template that is right, with fields of its pod replaced."""
    return {
        "spec": {
            "containers": [container()],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            **pod,
        }
    }


def container(**fields: Any) -> Json:
    """Return a trainer that is right, with fields replaced."""
    return {
        "name": "trainer",
        "image": "registry.example/digits:1",
        "command": ["python", "train.py"],
        "volumeMounts": [{"name": "data", "mountPath": "/checkpoints"}],
        **fields,
    }


def pool_manifest(name: str = "v100-spot", **spec: Any) -> Json:
    """Return a pool that is right, with fields of its spec replaced."""
    return {
        "apiVersion": "ebbtide.dev/v1alpha1",
        "kind": "CapacityPool",
        "metadata": {"name": name},
        "spec": {
            "nodeSelector": {"example.com/pool": name},
            "market": "Spot",
            "maxNodes": 8,
            "gpu": {"type": "V100", "count": 1},
            "price": {"usdPerNodeHour": "0.92"},
            **spec,
        },
    }


def profile_manifest(name: str = "resnet50", **spec: Any) -> Json:
    """Return a profile that is right, with fields of its spec replaced."""
    return {
        "apiVersion": "ebbtide.dev/v1alpha1",
        "kind": "WorkloadProfile",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {
            "workload": "resnet50",
            "parameters": 25_600_000,
            "gradientBytes": 102_400_000,
            "stepTimes": [{"gpu": "V100", "localBatch": 64, "seconds": 0.2}],
            **spec,
        },
    }


def changed(manifest: Mapping[str, Any], changes: Mapping[str, Any]) -> Json:
    """Return a manifest with values set at paths like spec.template.spec.containers.0.command."""
    result: Json = copy.deepcopy(dict(manifest))
    for path, value in changes.items():
        *folders, last = path.split(".")
        place: Any = result
        for step in folders:
            place = place[int(step)] if step.isdigit() else place.setdefault(step, {})
        if value is ABSENT:
            del place[last]
        elif last.isdigit():
            place[int(last)] = value
        else:
            place[last] = value
    return result
