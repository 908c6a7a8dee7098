"""Node labels that a pod demands or shuns, added to whatever affinity it already has."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Final

SPOT_LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    "cloud.google.com/gke-spot": ("true",),
    "cloud.google.com/gke-preemptible": ("true",),
    "eks.amazonaws.com/capacityType": ("SPOT",),
    "karpenter.sh/capacity-type": ("spot",),
    "kubernetes.azure.com/scalesetpriority": ("spot",),
    "ebbtide.dev/capacity-type": ("spot",),
}
"""How providers mark spot nodes."""


def never_on_spot() -> list[dict[str, Any]]:
    """Return expressions that hold on every node but those sold as spot."""
    return [
        {"key": key, "operator": "NotIn", "values": list(values)}
        for key, values in SPOT_LABELS.items()
    ]


def is_one_of(labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return expressions that hold where a node has every label."""
    return [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]


def require(
    affinity: Mapping[str, Any] | None, expressions: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """
    Return an affinity that demands the expressions on top of what it demanded.

    Terms of a node affinity are alternatives, so each of them gets the expressions.
    """
    result: dict[str, Any] = copy.deepcopy(dict(affinity or {}))
    node = result.setdefault("nodeAffinity", {})
    required = node.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms = required.get("nodeSelectorTerms") or [{}]
    added = [dict(expression) for expression in expressions]
    required["nodeSelectorTerms"] = [
        {**term, "matchExpressions": [*term.get("matchExpressions", ()), *added]} for term in terms
    ]
    return result
