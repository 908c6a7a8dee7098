"""The environment that our containers share."""

from collections.abc import Mapping
from typing import Any

from ebbtide.core.values.decision import CreatePod
from ebbtide.core.values.job import Job
from ebbtide.wire.names import (
    COORDINATOR_PORT,
    ENV_ADDRESS,
    ENV_ATTEMPT,
    ENV_COORDINATOR,
    ENV_INDEX,
    ENV_JOB,
    ENV_NODE,
    ENV_ROLE,
    ENV_TOKEN_FILE,
    ENV_WORKER,
    TOKEN_PATH,
    coordinator_service,
    pod_name,
)


def identity(job: Job, action: CreatePod) -> list[dict[str, Any]]:
    """Return the variables that tell a pod who and where it is."""
    name, role = job.key.name, str(action.role)
    fixed = {
        ENV_JOB: str(job.key),
        ENV_WORKER: pod_name(job=name, role=role, index=action.index, attempt=action.attempt),
        ENV_ROLE: role,
        ENV_INDEX: str(action.index),
        ENV_ATTEMPT: str(action.attempt),
    }
    if job.has_coordinator:
        fixed |= {ENV_COORDINATOR: coordinator_address(job), ENV_TOKEN_FILE: TOKEN_PATH}
    return [
        *variables(fixed),
        _from_field(ENV_ADDRESS, "status.podIP"),
        _from_field(ENV_NODE, "spec.nodeName"),
    ]


def variables(values: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return plain variables."""
    return [{"name": name, "value": value} for name, value in values.items()]


def coordinator_address(job: Job) -> str:
    """Return where a job's coordinator answers, as host:port."""
    return f"{coordinator_service(job.key.name)}.{job.key.namespace}.svc:{COORDINATOR_PORT}"


def _from_field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
