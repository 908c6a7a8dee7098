"""
The pod of one parameter server: the user's image under our runtime, without GPU, never on spot.

It asks for no pool: like the coordinator it sits beside workers, or on a plain node.
"""

import copy
from collections.abc import Mapping
from typing import Any, Final

from ebbtide.api.template import GPU
from ebbtide.core.values.decision import CreatePod
from ebbtide.core.values.job import Job
from ebbtide.manifests.affinity import never_on_spot, require
from ebbtide.manifests.credential import ANY_USER, token_mount, token_volume
from ebbtide.manifests.environment import identity, variables
from ebbtide.manifests.metadata import pod_metadata, with_template
from ebbtide.manifests.options import Options
from ebbtide.manifests.worker import interpreter_of
from ebbtide.wire.names import ENV_CHECKPOINT_PATH, ENV_NOTICE_SECONDS, host_name

RUNTIME: Final = "ebbtide.runtime.server"
GRACE_SECONDS: Final = 30
"""To hand its part over, where the template says nothing; Kubernetes' own default."""

Json = dict[str, Any]


def build_server(job: Job, action: CreatePod, *, options: Options) -> Json:
    """Return the pod of one attempt of a parameter server."""
    spec: Json = copy.deepcopy(dict(job.template["spec"]))
    spec.pop("initContainers", None)  # they, and what stands beside the trainer, are for training
    if spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = GRACE_SECONDS
    grace = int(spec["terminationGracePeriodSeconds"])
    spec["containers"] = [_container(job, action, spec["containers"][0], options, grace=grace)]
    spec["volumes"] = [*(spec.get("volumes") or ()), token_volume(job, ANY_USER)]
    spec["restartPolicy"] = "Never"
    spec["hostname"] = host_name(job=job.key.name, role=str(action.role), index=action.index)
    if spec.get("automountServiceAccountToken") is None:
        spec["automountServiceAccountToken"] = False
    spec["affinity"] = require(spec.get("affinity"), never_on_spot())
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": with_template(pod_metadata(job, action), job.template),
        "spec": spec,
    }


def _container(job: Job, action: CreatePod, trainer: Json, options: Options, *, grace: int) -> Json:
    """Return the first container of the template with another command, and without its probes."""
    fixed = {ENV_CHECKPOINT_PATH: job.checkpoint_path, ENV_NOTICE_SECONDS: str(grace)}
    ours = [*identity(job, action), *variables(fixed)]
    names = {variable["name"] for variable in ours}
    theirs = [entry for entry in trainer.get("env") or () if entry["name"] not in names]
    dropped = {"args", "ports", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe"}
    rest = {key: value for key, value in trainer.items() if key not in dropped}
    return {
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **rest,
        "command": [interpreter_of(trainer["command"], options), "-m", RUNTIME],
        "env": [*ours, *theirs],
        "resources": _resources(job, trainer),
        "volumeMounts": [*(trainer.get("volumeMounts") or ()), token_mount()],
    }


def _resources(job: Job, trainer: Mapping[str, Any]) -> Json:
    """Return what the job says of servers, else what its workers ask for less the GPUs."""
    if job.server_resources is not None:
        return copy.deepcopy(dict(job.server_resources))
    asked = trainer.get("resources") or {}
    return {
        part: {name: amount for name, amount in (asked.get(part) or {}).items() if name != GPU}
        for part in ("requests", "limits")
        if asked.get(part)
    }
