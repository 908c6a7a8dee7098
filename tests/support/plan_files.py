"""Manifests for the tests of `ebbtide plan`."""

from typing import Any

AT = "2026-08-01T12:00:00Z"
TEMPLATE = {
    "spec": {
        "containers": [
            {
                "name": "trainer",
                "image": "example/trainer",
                "command": ["python", "train.py"],
                "resources": {"limits": {"nvidia.com/gpu": 1}},
                "volumeMounts": [{"name": "state", "mountPath": "/checkpoints"}],
            }
        ],
        "volumes": [{"name": "state", "persistentVolumeClaim": {"claimName": "state"}}],
    }
}


def make_job(**spec: Any) -> dict[str, Any]:
    """Return a TrainingJob of eight hours at most; fields of its spec may be given."""
    return {
        "apiVersion": "ebbtide.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "resnet50"},
        "spec": {
            "work": {"steps": 64_000, "globalBatchSize": 1024},
            "objective": {"deadlineSeconds": 28_800},
            "elasticPolicy": {"minReplicas": 2, "maxReplicas": 16},
            "capacity": {"onDemandFloor": 0},
            "template": TEMPLATE,
            **spec,
        },
    }


def make_pool(name: str, usd: str, *, spot: bool = False, gpu: str = "V100") -> dict[str, Any]:
    """Return a CapacityPool of sixteen nodes with one GPU each."""
    return {
        "apiVersion": "ebbtide.dev/v1alpha1",
        "kind": "CapacityPool",
        "metadata": {"name": name},
        "spec": {
            "nodeSelector": {"pool": name},
            "market": "Spot" if spot else "OnDemand",
            "maxNodes": 16,
            "gpu": {"type": gpu, "count": 1},
            "price": {"usdPerNodeHour": usd},
        },
    }


POOLS = [make_pool("v100-spot", "0.92", spot=True), make_pool("v100-ondemand", "3.06")]
PROFILE = {
    "apiVersion": "ebbtide.dev/v1alpha1",
    "kind": "WorkloadProfile",
    "metadata": {"name": "mine"},
    "spec": {
        "workload": "resnet50",
        "gradientBytes": 102e6,
        "stepTimes": [
            {"gpu": "V100", "localBatch": batch, "seconds": 0.01 + 0.003 * batch}
            for batch in (32, 64, 128, 256, 512)
        ],
    },
}
