"""What a node is, before it boots: its name, address, labels, taints and resources."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_CAPACITY: Final = {
    "cpu": "8",
    "memory": "32Gi",
    "ephemeral-storage": "100Gi",
    "pods": "110",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShape:
    """One node, as the cloud describes it."""

    name: str
    ip: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[dict[str, str], ...] = ()
    capacity: Mapping[str, str] = field(default_factory=dict)
    """What differs from `DEFAULT_CAPACITY`. Without nvidia.com/gpu no device plugin has run yet."""
    provider_id: str = ""
    heartbeat_seconds: float = 1.0
    """Between two renewals of the Lease; a real kubelet waits 10 s."""

    def all_labels(self) -> dict[str, str]:
        """Return the labels with those that every node has."""
        return {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            **self.labels,
        }

    def all_capacity(self) -> dict[str, Any]:
        """Return the resources with those that every node has."""
        return {**DEFAULT_CAPACITY, **self.capacity}
