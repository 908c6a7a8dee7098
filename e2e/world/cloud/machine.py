"""One machine of the cloud: bought, booted, perhaps booted again under its name, and gone."""

from __future__ import annotations

import asyncio
import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from world.cloud.fit import Room, occupies, parse_resources, requests
from world.cloud.pool import GPU_RESOURCE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from world.api import Json
    from world.cloud.pool import Pool
    from world.kubelet import Kubelet

NODE_TROUBLE = "node.kubernetes.io/"
"""Prefix of the taints that the node controller sets and takes away."""


class State(enum.StrEnum):
    """Where a machine is in its life."""

    REQUESTED = "requested"
    BOOTING = "booting"
    RUNNING = "running"
    OFF = "off"


@dataclass(slots=True, eq=False)
class Machine:
    """One machine; its Node object in the cluster has the same name."""

    name: str
    pool: Pool
    subnet: int
    state: State = State.REQUESTED
    leaving: bool = False
    """Whether a revocation has begun: the autoscaler no longer counts on it."""
    has_gpus: bool = False
    settled: bool = False
    """Whether the cluster has seen this boot Ready and free of the not-ready taint."""
    idle_since: float | None = None
    boots: int = 0
    kubelet: Kubelet | None = None
    delivery: asyncio.Task[None] | None = None
    """Ends when the machine is Ready, or when the provider had none after all."""
    running: asyncio.Task[None] | None = None
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_alive(self) -> bool:
        """Whether it is there or on its way; it counts against the pool's limit."""
        return self.state is not State.OFF

    def observe(self, node: Json | None) -> None:
        """Note when the cluster has taken this boot in."""
        if self.state is not State.RUNNING or node is None or self.settled:
            return
        kubelet = self.kubelet
        same_boot = kubelet and node["status"]["nodeInfo"]["bootID"] == kubelet.boot_id
        self.settled = bool(same_boot) and not _has_trouble(node)

    def find_room(self, node: Json | None, pods: Iterable[Json]) -> Room | None:
        """Return what it offers now or soon, as the scheduler would see it; None if nothing."""
        if not self.is_alive or self.leaving:
            return None
        if not self.settled or node is None:
            return plan_room(self.pool, self.name)
        if node["spec"].get("unschedulable"):
            return None
        startup = self.pool.startup_taint()["key"]
        taints = tuple(taint for taint in node["spec"].get("taints", []) if taint["key"] != startup)
        free = parse_resources(node["status"]["allocatable"])
        if not self.has_gpus and self.pool.gpu:
            free.update(parse_resources({GPU_RESOURCE: str(self.pool.gpus_per_node)}))
        for pod in pods:
            if occupies(pod):
                for name, amount in requests(pod).items():
                    free[name] = free.get(name, amount) - amount
        labels = node["metadata"]["labels"]
        return Room(name=self.name, labels=labels, taints=taints, free=free)


def plan_room(pool: Pool, name: str) -> Room:
    """Return what a fresh node of a pool offers."""
    resources = {**pool.capacity(), "ephemeral-storage": "100Gi", "pods": "110"}
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", **pool.labels()}
    labels["kubernetes.io/hostname"] = name
    return Room(name=name, labels=labels, taints=pool.taints(), free=parse_resources(resources))


def _has_trouble(node: Json) -> bool:
    return any(taint["key"].startswith(NODE_TROUBLE) for taint in node["spec"].get("taints", []))
