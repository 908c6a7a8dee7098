"""What every part of a pod on this node knows about pod and node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from world.kubelet.link import Link

Json: TypeAlias = dict[str, Any]

CLUSTER_DOMAIN: Final = "cluster.local"
LONGEST_HOSTNAME: Final = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class PodContext:
    """One pod on one node, as it was when the node first saw it."""

    pod: Json
    ip: str
    host_ip: str
    capacity: Mapping[str, str]
    folder: Path
    """The pod's own folder on this machine."""
    link: Link

    @property
    def name(self) -> str:
        """The pod's name."""
        return str(self.pod["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return str(self.pod["metadata"]["namespace"])

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return str(self.pod["metadata"]["uid"])

    @property
    def spec(self) -> Json:
        """The pod's spec."""
        spec: Json = self.pod["spec"]
        return spec

    @property
    def path(self) -> str:
        """Where the API server keeps the pod."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    @property
    def hostname(self) -> str:
        """What the pod calls itself."""
        return str(self.spec.get("hostname") or self.name)[:LONGEST_HOSTNAME].rstrip("-.")

    @property
    def own_names(self) -> tuple[str, ...]:
        """The names under which the pod's own hosts file has its address."""
        if not self.spec.get("subdomain"):
            return (self.hostname,)
        zone = f"{self.spec['subdomain']}.{self.namespace}.svc.{CLUSTER_DOMAIN}"
        return (f"{self.hostname}.{zone}", self.hostname)
