"""Whether a pod fits a node, as far as an autoscaler has to know. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from world.kubelet import quantity

if TYPE_CHECKING:
    from world.api import Json

Resources = Mapping[str, Decimal]

BLOCKING: Final = ("NoSchedule", "NoExecute")
FINAL_PHASES: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a node, there or to come, offers to further pods."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, str], ...]
    free: Resources

    def fits(self, pod: Json) -> bool:
        """Tell whether the scheduler would put the pod here."""
        return (
            selects(pod, self.labels)
            and tolerates(pod, self.taints)
            and all(amount <= self.free.get(name, 0) for name, amount in requests(pod).items())
        )

    def take(self, pod: Json) -> Room:
        """Return the room that is left when the pod is here."""
        wanted = requests(pod)
        free = {name: amount - wanted.get(name, 0) for name, amount in self.free.items()}
        return Room(name=self.name, labels=self.labels, taints=self.taints, free=free)


def parse_resources(resources: Mapping[str, str]) -> dict[str, Decimal]:
    """Read quantities as plain numbers."""
    return {name: quantity.parse(str(amount)) for name, amount in resources.items()}


def requests(pod: Json) -> dict[str, Decimal]:
    """Return what the scheduler reserves: the containers' sum, or the largest init container."""
    spec = pod["spec"]
    total: dict[str, Decimal] = {}
    for container in spec["containers"]:
        for name, amount in _container_requests(container).items():
            total[name] = total.get(name, Decimal(0)) + amount
    for container in spec.get("initContainers", []):
        for name, amount in _container_requests(container).items():
            total[name] = max(total.get(name, Decimal(0)), amount)
    total["pods"] = Decimal(1)
    return total


def _container_requests(container: Json) -> dict[str, Decimal]:
    resources = container.get("resources", {})
    return parse_resources({**resources.get("limits", {}), **resources.get("requests", {})})


def tolerates(pod: Json, taints: Iterable[Mapping[str, str]]) -> bool:
    """Tell whether the pod tolerates every taint that keeps pods off."""
    tolerations = pod["spec"].get("tolerations", [])
    return all(
        any(_matches_taint(toleration, taint) for toleration in tolerations)
        for taint in taints
        if taint["effect"] in BLOCKING
    )


def _matches_taint(toleration: Mapping[str, str], taint: Mapping[str, str]) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    same_value = toleration.get("value", "") == taint.get("value", "")
    return toleration.get("key") == taint["key"] and same_value


def selects(pod: Json, labels: Mapping[str, str]) -> bool:
    """Tell whether the pod's node selector and required node affinity accept the labels."""
    spec = pod["spec"]
    if any(labels.get(key) != value for key, value in spec.get("nodeSelector", {}).items()):
        return False
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(
        all(_matches_term(term, labels) for term in terms.get("matchExpressions", []))
        for terms in required["nodeSelectorTerms"]
    )


def _matches_term(term: Json, labels: Mapping[str, str]) -> bool:
    found, values = labels.get(term["key"]), term.get("values", [])
    operator: str = term["operator"]
    if operator in {"Gt", "Lt"}:
        if found is None:
            return False
        return int(found) > int(values[0]) if operator == "Gt" else int(found) < int(values[0])
    answers = {
        "In": found in values,
        "NotIn": found not in values,
        "Exists": found is not None,
        "DoesNotExist": found is None,
    }
    return answers[operator]


def is_pending(pod: Json) -> bool:
    """Tell whether the scheduler has looked for a node in vain; such pods bring nodes."""
    if "nodeName" in pod["spec"] or "deletionTimestamp" in pod["metadata"]:
        return False
    return any(
        condition["type"] == "PodScheduled"
        and condition["status"] == "False"
        and condition.get("reason") == "Unschedulable"
        for condition in pod.get("status", {}).get("conditions", [])
    )


def occupies(pod: Json) -> bool:
    """Tell whether a pod holds resources of the node that it is bound to."""
    phase = pod.get("status", {}).get("phase")
    return "nodeName" in pod["spec"] and phase not in FINAL_PHASES


def place(pods: Iterable[Json], rooms: Iterable[Room]) -> tuple[list[Json], list[Room]]:
    """Put each pod into the first room that takes it; return those left over, and the rooms."""
    left, rooms = [], list(rooms)
    for pod in pods:
        for index, room in enumerate(rooms):
            if room.fits(pod):
                rooms[index] = room.take(pod)
                break
        else:
            left.append(pod)
    return left, rooms
