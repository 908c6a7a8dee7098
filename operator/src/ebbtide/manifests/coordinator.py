"""The pod of one attempt of a job's coordinator: small, locked down, never on spot."""

from typing import Any, Final

import msgspec

from ebbtide.core.values.decision import CreatePod
from ebbtide.core.values.job import Job
from ebbtide.manifests.affinity import never_on_spot, require
from ebbtide.manifests.credential import GROUP_ONLY, token_mount, token_volume
from ebbtide.manifests.environment import identity, variables
from ebbtide.manifests.metadata import pod_metadata
from ebbtide.manifests.options import Options
from ebbtide.wire.names import (
    COORDINATOR_PORT,
    ENV_METRICS_PORT,
    ENV_WORK,
    METRICS_PORT,
    host_name,
)

MODULE: Final = "ebbtide.coordinator"
NOBODY: Final = 65532
GRACE_SECONDS: Final = 10

Json = dict[str, Any]


def build_coordinator(job: Job, action: CreatePod, *, options: Options) -> Json:
    """Return the pod of one attempt of the coordinator."""
    spec: Json = {
        "restartPolicy": "Never",
        "hostname": host_name(job=job.key.name, role=str(action.role), index=action.index),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "affinity": require(None, never_on_spot()),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": NOBODY,
            "runAsGroup": NOBODY,
            "fsGroup": NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(job, action, options)],
        "volumes": [token_volume(job, GROUP_ONLY)],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": pod_metadata(job, action),
        "spec": spec,
    }


def _container(job: Job, action: CreatePod, options: Options) -> Json:
    work = msgspec.json.encode(action.work).decode()
    return {
        "name": "coordinator",
        "image": options.coordinator_image,
        "command": [options.coordinator_python, "-m", MODULE],
        "env": [
            *identity(job, action),
            *variables({ENV_WORK: work, ENV_METRICS_PORT: str(METRICS_PORT)}),
        ],
        "ports": [
            {"name": "coordinator", "containerPort": COORDINATOR_PORT},
            {"name": "metrics", "containerPort": METRICS_PORT},
        ],
        "resources": {
            "requests": {"cpu": "50m", "memory": "64Mi"},
            "limits": {"memory": "256Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [token_mount()],
    }
