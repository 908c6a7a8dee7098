"""The pod of one worker: the user's template, run under our runtime on a chosen pool."""

import copy
import re
from typing import Any, Final

from ebbtide.core.values.decision import CreatePod
from ebbtide.core.values.job import Job, Launcher
from ebbtide.core.values.pool import Pool
from ebbtide.manifests.affinity import is_one_of, require
from ebbtide.manifests.credential import ANY_USER, token_mount, token_volume
from ebbtide.manifests.environment import identity, variables
from ebbtide.manifests.metadata import pod_metadata, with_template
from ebbtide.manifests.options import Options
from ebbtide.wire.names import (
    ENV_ALLOCATOR,
    ENV_CHECKPOINT_PATH,
    ENV_GPU,
    ENV_NOTICE_SECONDS,
    ENV_POOL,
    ENV_PROCESSES,
    HUGE_PAGES,
    host_name,
)

RUNTIME: Final = "ebbtide.runtime.worker"
_INTERPRETER: Final = re.compile(r"(.*/)?python(3(\.[0-9]+)?)?")

Json = dict[str, Any]


def build_worker(job: Job, action: CreatePod, *, options: Options) -> Json:
    """Return the pod of one attempt of a worker."""
    if action.pool is None:
        raise ValueError(f"{job.key}: a worker needs a pool, worker {action.index} has none")
    spec: Json = copy.deepcopy(dict(job.template["spec"]))
    containers: list[Json] = spec["containers"]
    ours = [*identity(job, action), *_training(job, action.pool)]
    containers[0] = _trainer(job, containers[0], ours, options)
    if action.image:
        containers[0]["image"] = action.image
    for container in (*containers, *(spec.get("initContainers") or ())):
        container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
    if job.has_coordinator:
        spec["volumes"] = [*(spec.get("volumes") or ()), token_volume(job, ANY_USER)]
    spec["restartPolicy"] = "Never"
    spec["hostname"] = host_name(job=job.key.name, role=str(action.role), index=action.index)
    if spec.get("automountServiceAccountToken") is None:
        spec["automountServiceAccountToken"] = False
    if spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = int(action.pool.notice.total_seconds())
    _place(spec, action.pool)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": with_template(pod_metadata(job, action), job.template),
        "spec": spec,
    }


def _trainer(job: Job, container: Json, ours: list[Json], options: Options) -> Json:
    """Return the first container: the same command, started by our runtime where it has a part."""
    command: list[str] = container["command"]
    names = {variable["name"] for variable in ours}
    theirs = [entry for entry in container.get("env") or () if entry["name"] not in names]
    # Ours first, so that theirs may refer to them as $(EBBTIDE_...).
    environment = [*ours, *theirs]
    if not job.has_coordinator:
        return {**container, "env": environment}
    if ENV_ALLOCATOR not in {entry["name"] for entry in theirs}:
        environment += variables({ENV_ALLOCATOR: HUGE_PAGES})
    rest = {key: value for key, value in container.items() if key != "args"}
    launched = ("--torchrun",) if job.launcher is Launcher.TORCHRUN else ()
    return {
        **rest,
        "command": [
            *(interpreter_of(command, options), "-m", RUNTIME, *launched, "--"),
            *(*command, *(container.get("args") or ())),
        ],
        "env": environment,
        "volumeMounts": [*(container.get("volumeMounts") or ()), token_mount()],
    }


def interpreter_of(command: list[str], options: Options) -> str:
    """Return the interpreter that the script itself is written for, when the command names it."""
    first = command[0]
    if _INTERPRETER.fullmatch(first):
        return first
    folder, slash, name = first.rpartition("/")
    return f"{folder}/python" if slash and name == "torchrun" else options.python


def _training(job: Job, pool: Pool) -> list[Json]:
    return variables({
        ENV_CHECKPOINT_PATH: job.checkpoint_path,
        ENV_PROCESSES: str(job.processes_per_worker),
        ENV_POOL: pool.name,
        ENV_GPU: pool.gpu_type,
        ENV_NOTICE_SECONDS: f"{pool.notice.total_seconds():g}",
    })  # fmt: skip


def _place(spec: Json, pool: Pool) -> None:
    """Bind a pod to a pool. Where the template demands another node, no node is right: it waits."""
    asked: dict[str, str] = spec.get("nodeSelector") or {}
    clashing = {
        key: value for key, value in pool.node_selector.items() if asked.get(key, value) != value
    }
    spec["nodeSelector"] = {**pool.node_selector, **asked}
    if clashing:
        spec["affinity"] = require(spec.get("affinity"), is_one_of(clashing))
    tolerations = list(spec.get("tolerations") or ())
    for toleration in pool.tolerations:
        if toleration not in tolerations:
            tolerations.append(dict(toleration))
    if tolerations:
        spec["tolerations"] = tolerations
