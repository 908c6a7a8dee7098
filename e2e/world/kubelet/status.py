"""
What a kubelet says about a pod: pure functions from container states to a status.

The rules are those of a kubelet 1.36.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

Json: TypeAlias = dict[str, Any]

KILLED: Final = 137
PENDING: Final = "Pending"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
TERMINAL: Final = (SUCCEEDED, FAILED)
WAITING_FOR_MAIN: Final = {"waiting": {"reason": "ContainerCreating"}}
WAITING_FOR_INIT: Final = {"waiting": {"reason": "PodInitializing"}}
LOST: Final = {
    "terminated": {
        "exitCode": KILLED,
        "reason": "ContainerStatusUnknown",
        "message": "The container could not be located when the pod was terminated",
        "startedAt": None,
        "finishedAt": None,
    }
}


@dataclass(slots=True, kw_only=True)
class ContainerRecord:
    """What is known about one container of a pod."""

    name: str
    image: str
    state: Json
    last_state: Json = field(default_factory=dict)
    image_id: str = ""
    container_id: str = ""
    ready: bool = False
    started: bool = False
    restart_count: int = 0

    @property
    def ended(self) -> bool:
        """Whether the container is terminated now."""
        return "terminated" in self.state

    @property
    def running(self) -> bool:
        """Whether the container runs now."""
        return "running" in self.state

    @property
    def exit_code(self) -> int | None:
        """The code of the last run that ended, if one did."""
        ended = self.state.get("terminated") or self.last_state.get("terminated")
        return None if ended is None else int(ended["exitCode"])

    def report(self) -> Json:
        """Return the ContainerStatus of the API."""
        found: Json = {
            "name": self.name,
            "image": self.image,
            "imageID": self.image_id,
            "ready": self.ready,
            "started": self.started,
            "restartCount": self.restart_count,
            "state": self.state,
            "lastState": self.last_state,
        }
        if self.container_id:
            found["containerID"] = self.container_id
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Why a pod failed, where the containers do not tell."""

    reason: str
    message: str
    even_if_succeeded: bool = False
    """Whether the pod is Failed although every container exited 0."""
    disruption: str = ""
    """The reason of a DisruptionTarget condition; empty for none."""


SHUT_DOWN: Final = Outcome(
    reason="Terminated",
    message="Pod was terminated in response to imminent node shutdown.",
    disruption="TerminationByKubelet",
)
REJECTED: Final = Outcome(
    reason="NodeShutdown",
    message="Pod was rejected: Pod was rejected as the node is shutting down.",
    even_if_succeeded=True,
)
DEADLINE: Final = Outcome(
    reason="DeadlineExceeded",
    message="Pod was active on the node longer than the specified deadline",
    even_if_succeeded=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodReport:
    """Everything that the status of a pod is made of."""

    pod: Json
    """The object as last seen: spec, generation and earlier conditions."""
    started_at: str
    host_ip: str
    pod_ip: str
    has_sandbox: bool
    init: Sequence[ContainerRecord]
    main: Sequence[ContainerRecord]
    ended: bool
    """No container runs, and none will again."""
    outcome: Outcome | None = None


def restored(spec: Json, before: Json | None, *, waiting: Json, final: bool) -> ContainerRecord:
    """
    Return the record of a container at the start of a node agent.

    What an earlier boot of the node ran is lost with it; `final` says that it may not run again.
    """
    record = ContainerRecord(name=spec["name"], image=spec["image"], state=waiting)
    if before is None:
        return record
    record.restart_count = before.get("restartCount", 0)
    record.image_id = before.get("imageID", "")
    record.container_id = before.get("containerID", "")
    record.last_state = before.get("lastState") or {}
    state = before.get("state") or {}
    if "running" in state:
        lost = {"terminated": {**LOST["terminated"], "containerID": record.container_id}}
        if final:
            record.state = lost
        else:
            record.last_state = lost
            record.restart_count += 1
    elif "terminated" in state:
        record.state = state
        record.ready = False
    return record


def close(record: ContainerRecord) -> None:
    """Mark a container that has no end of its own when its pod is terminated."""
    record.ready = record.started = False
    if not record.ended:
        record.state = LOST


def phase(
    policy: str,
    *,
    init: Sequence[ContainerRecord],
    main: Sequence[ContainerRecord],
    ended: bool,
) -> str:
    """Tell the phase as a kubelet does, from the states of the containers."""
    if policy == "Never" and any(record.exit_code for record in init):
        return FAILED
    if any(record.exit_code != 0 or not record.ended for record in init):
        return FAILED if ended else PENDING
    if any("waiting" in record.state and not record.last_state for record in main):
        return PENDING
    if any(record.running for record in main):
        return RUNNING
    clean = all(record.exit_code == 0 for record in main)
    final = ended or policy == "Never" or (policy == "OnFailure" and clean)
    if not final:
        return RUNNING
    return SUCCEEDED if clean else FAILED


def pod_status(report: PodReport, *, now: str) -> Json:
    """Return the status to write."""
    pod, outcome = report.pod, report.outcome
    before = pod.get("status", {})
    policy = pod["spec"].get("restartPolicy", "Always")
    now_in = phase(policy, init=report.init, main=report.main, ended=report.ended)
    if now_in in TERMINAL and not report.ended:
        # The end of a pod is told once, when its reason is known too.
        now_in = RUNNING if any(record.ended for record in report.main) else PENDING
    found: Json = {
        "phase": now_in,
        "observedGeneration": pod["metadata"].get("generation"),
        "startTime": report.started_at,
        "hostIP": report.host_ip,
        "hostIPs": [{"ip": report.host_ip}],
        "containerStatuses": [record.report() for record in report.main],
    }
    if report.has_sandbox or before.get("podIP"):
        found["podIP"] = report.pod_ip
        found["podIPs"] = [{"ip": report.pod_ip}]
    if report.init:
        found["initContainerStatuses"] = [record.report() for record in report.init]
    told = outcome if report.ended else None
    if told and (told.even_if_succeeded or found["phase"] != SUCCEEDED):
        found.update(phase=FAILED, reason=told.reason, message=told.message)
    if before.get("phase") in TERMINAL:
        found["phase"] = before["phase"]  # an end is final
    found["conditions"] = _conditions(report, phase=found["phase"], now=now)
    if told and told.disruption:
        condition = {"reason": told.disruption, "message": told.message}
        found["conditions"].append(
            _condition(report, "DisruptionTarget", value=True, now=now, words=condition)
        )
    return found


def _conditions(report: PodReport, *, phase: str, now: str) -> list[Json]:
    sandbox = report.has_sandbox and not report.ended and phase not in TERMINAL
    up, words = _readiness(report.main, phase)
    gates, gate_words = _gates(report.pod)
    done, done_words = _initialized(report.init, phase)
    values: tuple[tuple[str, bool, Json], ...] = (
        ("PodReadyToStartContainers", sandbox, {}),
        ("Initialized", done, done_words),
        ("ContainersReady", up, words),
        ("Ready", up and gates, words if not up else gate_words),
        ("PodScheduled", True, {}),
    )
    return [
        _condition(report, kind, value=value, now=now, words=found) for kind, value, found in values
    ]


def _readiness(main: Sequence[ContainerRecord], phase: str) -> tuple[bool, Json]:
    if phase == SUCCEEDED:
        return False, {"reason": "PodCompleted"}
    if phase == FAILED:
        return False, {"reason": "PodFailed"}
    unready = [record.name for record in main if not record.ready]
    if not unready:
        return True, {}
    message = f"containers with unready status: [{' '.join(unready)}]"
    return False, {"reason": "ContainersNotReady", "message": message}


def _initialized(init: Sequence[ContainerRecord], phase: str) -> tuple[bool, Json]:
    if phase == SUCCEEDED:
        return True, {"reason": "PodCompleted"}
    unfinished = [record.name for record in init if record.exit_code != 0]
    if not unfinished:
        return True, {}
    message = f"containers with incomplete status: [{' '.join(unfinished)}]"
    return False, {"reason": "ContainersNotInitialized", "message": message}


def _gates(pod: Json) -> tuple[bool, Json]:
    """Tell whether the conditions that the pod names as readiness gates are true."""
    found = {c["type"]: c["status"] for c in pod.get("status", {}).get("conditions") or []}
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or []]
    closed = [gate for gate in gates if found.get(gate) != "True"]
    if not closed:
        return True, {}
    message = ", ".join(
        f'the status of pod readiness gate "{gate}" is not "True"' for gate in closed
    )
    return False, {"reason": "ReadinessGatesNotReady", "message": message}


def _condition(report: PodReport, kind: str, *, value: bool, now: str, words: Json) -> Json:
    status = "True" if value else "False"
    moved = now
    for earlier in report.pod.get("status", {}).get("conditions") or []:
        if earlier["type"] == kind and earlier["status"] == status:
            moved = earlier.get("lastTransitionTime") or now
    return {
        "type": kind,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": moved,
        "observedGeneration": report.pod["metadata"].get("generation"),
        # A strategic patch merges by type, so a reason that no longer holds must be emptied.
        "reason": words.get("reason"),
        "message": words.get("message"),
    }
