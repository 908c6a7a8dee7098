"""Names, labels, annotations and the owner of everything that belongs to a job."""

from collections.abc import Mapping
from typing import Any, Final

from ebbtide.core.values.decision import CreatePod
from ebbtide.core.values.job import Job
from ebbtide.wire.names import (
    ANNOTATION_TEMPLATE_HASH,
    API_VERSION,
    GROUP,
    LABEL_ATTEMPT,
    LABEL_CAPACITY_TYPE,
    LABEL_INDEX,
    LABEL_JOB_NAME,
    LABEL_JOB_UID,
    LABEL_POOL,
    LABEL_ROLE,
    TRAINING_JOB,
    pod_name,
)

_FOREIGN: Final = (
    "kopf.",
    "kopf.zalando.org/",
    "kubectl.kubernetes.io/last-applied-configuration",
    "argocd.argoproj.io/",
    f"{GROUP}/",  # ours are set by us alone
)
_STAY: Final = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}
"""Asks autoscalers not to move a pod for tidiness' sake; what a template says has precedence."""


def owner_reference(job: Job) -> dict[str, Any]:
    """Return the reference that has the garbage collector delete children with their job."""
    return {
        "apiVersion": API_VERSION,
        "kind": TRAINING_JOB,
        "name": job.key.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def child_metadata(job: Job, *, name: str, component: str) -> dict[str, Any]:
    """Return the metadata of a child that is no pod."""
    return {
        "name": name,
        "namespace": job.key.namespace,
        "labels": {**_common_labels(job, component), **_job_labels(job)},
        "ownerReferences": [owner_reference(job)],
    }


def pod_metadata(job: Job, action: CreatePod) -> dict[str, Any]:
    """Return the metadata of a pod, without what its template adds."""
    role = str(action.role)
    name = pod_name(job=job.key.name, role=role, index=action.index, attempt=action.attempt)
    metadata = child_metadata(job, name=name, component=role)
    metadata["labels"] |= {
        LABEL_ROLE: role,
        LABEL_INDEX: str(action.index),
        LABEL_ATTEMPT: str(action.attempt),
    }
    if action.pool is not None:
        metadata["labels"] |= {
            LABEL_POOL: action.pool.name,
            LABEL_CAPACITY_TYPE: action.pool.market.capacity_type,
        }
    metadata["annotations"] = {**_STAY, ANNOTATION_TEMPLATE_HASH: job.template_hash}
    return metadata


def with_template(metadata: dict[str, Any], template: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod's metadata with what the user's template says, as far as that is theirs."""
    asked = template.get("metadata") or {}
    labels = {**metadata["labels"], **_theirs(asked.get("labels"))}
    annotations = {**metadata["annotations"], **_theirs(asked.get("annotations"))}
    return {**metadata, "labels": labels, "annotations": annotations}


def coordinator_selector(job: Job, attempt: int) -> dict[str, str]:
    """Return labels that exactly one attempt of the coordinator has."""
    return {
        LABEL_JOB_UID: job.uid,
        LABEL_ROLE: "coordinator",
        LABEL_ATTEMPT: str(attempt),
    }


def _theirs(entries: Mapping[str, str] | None) -> dict[str, str]:
    return {key: text for key, text in (entries or {}).items() if not key.startswith(_FOREIGN)}


def _job_labels(job: Job) -> dict[str, str]:
    return {LABEL_JOB_NAME: job.key.name, LABEL_JOB_UID: job.uid}


def _common_labels(job: Job, component: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "ebbtide",
        "app.kubernetes.io/instance": job.key.name,
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/part-of": "ebbtide",
        "app.kubernetes.io/managed-by": "ebbtide",
    }
