"""
How a pod's end is judged: the rules in order, the first that matches counts.

A revocation is the provider's doing, a restart nobody's fault, a failure the job's own; what we
ended ourselves counts nothing. Only failures use up `backoffLimit`.
"""

import enum
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ebbtide.core.lifecycle.signs import Outlook, Sign, is_going_away
from ebbtide.core.values.observed import Node, Pod, PodPhase, Role
from ebbtide.wire.names import EXIT_DONE, EXIT_LEFT

KUBELET_TOOK_IT: Final = frozenset({"TerminationByKubelet", "DeletionByPodGC"})
TAKEN_IF_NODE_GOES: Final = frozenset({"DeletionByTaintManager", "EvictionByEvictionAPI"})
SHUTDOWN_REASONS: Final = frozenset({"Terminated", "Shutdown", "NodeShutdown"})
NOBODYS_FAULT: Final = frozenset({"Evicted", "Preempting", "UnexpectedAdmissionError"})
LOG_LINES: Final = 600  # characters of a failed container's last words that a message carries


class Verdict(enum.Enum):
    """What an end counts as."""

    DONE = "done"
    REVOCATION = "revocation"
    RESTART = "restart"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One end, what it counts as, and why in words."""

    verdict: Verdict
    cause: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Whether the job's work is done: None while nobody who would know can be asked."""

    done: bool | None


def judge(  # noqa: PLR0911 -- one return for each rule, the first that matches
    pod: Pod, node: Node | None, sign: Sign, *, work: Work, now: datetime
) -> Judgement | None:
    """Judge the end of a pod that we did not end; None while it has not ended."""
    at = pod.finished_at or now
    if sign.outlook is Outlook.LOST and not pod.ended:
        verdict = Verdict.RESTART if pod.role is Role.COORDINATOR else Verdict.REVOCATION
        return Judgement(verdict=verdict, cause=sign.text, at=now)
    if not pod.ended:
        return None
    if pod.role is Role.COORDINATOR:
        return Judgement(
            verdict=Verdict.RESTART, cause=f"the coordinator ended: {_end(pod)}", at=at
        )
    taken = _taken_by_provider(pod, node, sign)
    if taken:
        return Judgement(verdict=Verdict.REVOCATION, cause=taken, at=at)
    blameless = _blameless(pod)
    if blameless:
        return Judgement(verdict=Verdict.RESTART, cause=blameless, at=at)
    if sign.outlook is Outlook.NOT_READY:
        return None  # it may have been the node's end: wait until that is known
    return _own_doing(pod, work=work, at=at)


def _taken_by_provider(pod: Pod, node: Node | None, sign: Sign) -> str:
    if pod.disruption in KUBELET_TOOK_IT:
        return f"{pod.disruption}: {pod.disruption_message or pod.message}"
    if pod.disruption in TAKEN_IF_NODE_GOES and is_going_away(node):
        return f"{pod.disruption}, {sign.text or 'its node is going away'}"
    if pod.reason in SHUTDOWN_REASONS:
        return f"{pod.reason}: {pod.message}"
    if sign.outlook is Outlook.LOST and pod.phase is not PodPhase.SUCCEEDED:
        return sign.text  # who exited 0 before that had nothing to lose
    if pod.exit_code == EXIT_LEFT and sign.outlook in (Outlook.WARNED, Outlook.NOT_READY):
        return f"it left in time, {sign.text}"
    return ""


def _blameless(pod: Pod) -> str:
    if pod.disruption:
        return f"{pod.disruption}: {pod.disruption_message or pod.message}"
    if pod.reason in NOBODYS_FAULT or pod.reason.startswith("OutOf"):
        return f"{pod.reason}: {pod.message}"
    if pod.exit_code == EXIT_LEFT:
        return "it left unasked (exit 82)"
    deleted = pod.deletion_requested
    if deleted is not None and (pod.finished_at is None or pod.finished_at >= deleted):
        return "somebody deleted it"
    return ""


def _own_doing(pod: Pod, *, work: Work, at: datetime) -> Judgement:
    if pod.phase is PodPhase.SUCCEEDED or pod.exit_code == EXIT_DONE:
        if work.done:
            return Judgement(verdict=Verdict.DONE, cause="the work is done", at=at)
        if work.done is None:
            cause = "it exited 0 while the coordinator was away"
            return Judgement(verdict=Verdict.RESTART, cause=cause, at=at)
        cause = (
            "WorkUnfinished: it exited 0 before the work was done (does the script leave the loop?)"
        )
        return Judgement(verdict=Verdict.FAILURE, cause=cause, at=at)
    return Judgement(verdict=Verdict.FAILURE, cause=_end(pod), at=at)


def _end(pod: Pod) -> str:
    """Put a pod's end into words: container, exit code, reason, last lines."""
    where = f"container {pod.exit_container}" if pod.exit_container else "the pod"
    code = f" exited {pod.exit_code}" if pod.exit_code is not None else " ended"
    reason = pod.exit_reason or pod.reason
    words = f"{where}{code}" + (f" ({reason})" if reason else "")
    last = (pod.exit_message or pod.message).strip()
    return f"{words}: {last[-LOG_LINES:]}" if last else words
