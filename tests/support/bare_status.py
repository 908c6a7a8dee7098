"""Statuses of pods as kubelets and the taint manager write them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeAlias

from world.kubelet import clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from world.api import Json

Behaviour: TypeAlias = "Callable[[Json], Json]"

TRAINER: Final = "trainer"


def condition(kind: str, status: str, reason: str, message: str = "") -> Json:
    """Return one condition that turned now."""
    moment = _now()
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": moment,
    }


def running(pod: Json) -> Json:
    """Every container runs."""
    names = [one["name"] for one in pod["spec"]["containers"]]
    return {
        "phase": "Running",
        "conditions": [condition("Ready", "True", "ContainersReady")],
        "containerStatuses": [
            container(name, {"running": {"startedAt": _now()}}, ready=True) for name in names
        ],
    }


def starting(pod: Json) -> Json:
    """The first init container runs, everybody else waits for it."""
    [first, *_] = [one["name"] for one in pod["spec"]["initContainers"]]
    waits = {"waiting": {"reason": "PodInitializing"}}
    return {
        "phase": "Pending",
        "initContainerStatuses": [container(first, {"running": {"startedAt": _now()}})],
        "containerStatuses": [container(one["name"], waits) for one in pod["spec"]["containers"]],
    }


def failed_init(pod: Json) -> Json:
    """The first init container exits 1 with its last words."""
    [first, *_] = [one["name"] for one in pod["spec"]["initContainers"]]
    end = terminated(1, "Error", "no such data set: gs://nowhere")
    waits = {"waiting": {"reason": "PodInitializing"}}
    return {
        "phase": "Failed",
        "initContainerStatuses": [container(first, end)],
        "containerStatuses": [container(one["name"], waits) for one in pod["spec"]["containers"]],
    }


def rejected(pod: Json) -> Json:
    """The kubelet does not admit the pod: its device plugin is not back."""
    del pod
    message = "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices"
    return {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": message}


def lost(*, reason: str = "", disruption: str = "", exited: int | None = None) -> Json:
    """The pod failed; without `exited` nobody says how its containers ended."""
    status: Json = {"phase": "Failed"}
    if reason:
        status |= {"reason": reason, "message": f"the pod was {reason}"}
    if disruption:
        target = condition("DisruptionTarget", "True", disruption, "the pod has to go")
        status["conditions"] = [target]
    if exited is None:
        status["containerStatuses"] = None
    else:
        end = terminated(exited, "Error" if exited else "Completed", "")
        status["containerStatuses"] = [container(TRAINER, end)]
    return status


def terminated(code: int, reason: str, message: str) -> Json:
    """Return the state of a container that ended now."""
    end = {"exitCode": code, "reason": reason, "message": message}
    return {"terminated": {**end, "startedAt": _now(), "finishedAt": _now()}}


def container(name: str, state: Json, *, ready: bool = False, restarts: int = 0) -> Json:
    """Return the status of one container."""
    return {
        "name": name,
        "state": state,
        "ready": ready,
        "started": ready,
        "restartCount": restarts,
        "image": "",
        "imageID": "",
    }


def _now() -> str:
    return clock.to_seconds(datetime.now(tz=UTC))
