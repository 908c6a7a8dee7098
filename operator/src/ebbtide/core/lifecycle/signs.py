"""
What a node tells of its future: healthy, warned or lost.

A warning is a sign that a node may go; it can pass, and then nothing is counted. A node is lost
when its object is gone, when it came back from another boot, or when it has been other than Ready
for `nodeLostSeconds`.
"""

import enum
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ebbtide.core.values.observed import Node, Pod
from ebbtide.core.values.settings import Settings

# Keys of taints that say a node is going away, by whoever sets them (docs/adr/0008-node-signs.md).
GOING_AWAY: Final = frozenset(
    {
        "aws-node-termination-handler/asg-lifecycle-termination",
        "aws-node-termination-handler/rebalance-recommendation",
        "aws-node-termination-handler/scheduled-maintenance",
        "aws-node-termination-handler/spot-itn",
        "cloud.google.com/impending-node-termination",
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",
        "node.kubernetes.io/out-of-service",
        "remediator.kubernetes.azure.com/unschedulable",
        "ToBeDeletedByClusterAutoscaler",
    }
)
# Of these, the ones after which the node is gone when the notice is used up.
CERTAIN: Final = frozenset({"aws-node-termination-handler/spot-itn"})


NEWS_LAG: Final = timedelta(seconds=5)
"""How long a pod may be known to be bound to a node that is not known yet."""


class Outlook(enum.Enum):
    """What is to be expected of the node under a pod."""

    HEALTHY = "healthy"
    WARNED = "warned"  # a taint, a cordon
    NOT_READY = "not ready"  # not for long enough yet to count as lost
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """The outlook and the words for it."""

    outlook: Outlook
    text: str = ""
    since: datetime | None = None  # NOT_READY: when it began
    certain: bool = False  # WARNED: the node will be gone when its notice is over
    recheck: timedelta | None = None  # when to look again although nothing may change


HEALTHY: Final = Sign(outlook=Outlook.HEALTHY)


def read_sign(pod: Pod, node: Node | None, *, now: datetime, settings: Settings) -> Sign:  # noqa: PLR0911 -- one return for each rule, the first that matches
    """Tell what is to be expected of the node that a pod is bound to."""
    if not pod.node:
        return HEALTHY
    if node is None and _is_just_bound(pod, now=now):
        return Sign(outlook=Outlook.HEALTHY, recheck=NEWS_LAG)
    if node is None:
        return Sign(outlook=Outlook.LOST, text=f"node {pod.node} is gone")
    if pod.boot_id and node.boot_id and pod.boot_id != node.boot_id:
        return Sign(outlook=Outlook.LOST, text=f"node {pod.node} came back from another boot")
    if not node.ready:
        return _not_ready(node, now=now, settings=settings)
    for taint in node.taints:
        if taint.key in GOING_AWAY:
            text = f"node {node.name} is tainted {taint.key}"
            return Sign(outlook=Outlook.WARNED, text=text, certain=taint.key in CERTAIN)
    if node.unschedulable:
        return Sign(outlook=Outlook.WARNED, text=f"node {node.name} is cordoned")
    return HEALTHY


def _is_just_bound(pod: Pod, *, now: datetime) -> bool:
    """Tell whether news of the pod's node may still be on its way: they come in another watch."""
    return not pod.started and (pod.bound_since is None or now - pod.bound_since < NEWS_LAG)


def is_going_away(node: Node | None) -> bool:
    """Tell whether a node bears a taint or cordon of one that is taken away, or is not there."""
    if node is None or not node.ready or node.unschedulable:
        return True
    return any(taint.key in GOING_AWAY for taint in node.taints)


def _not_ready(node: Node, *, now: datetime, settings: Settings) -> Sign:
    away = now - node.ready_changed
    because = f" ({node.ready_reason})" if node.ready_reason else ""
    if away >= settings.node_lost:
        text = f"node {node.name} is not Ready for {away.total_seconds():.0f} s{because}"
        return Sign(outlook=Outlook.LOST, text=text, since=node.ready_changed)
    text = f"node {node.name} is not Ready{because}"
    return Sign(outlook=Outlook.NOT_READY, text=text, since=node.ready_changed)
