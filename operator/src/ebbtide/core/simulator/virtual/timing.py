"""How long things take in a virtual cluster, and how they come about."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from ebbtide.core.models.start_up import NODE_STAGES, StartUpModel
from ebbtide.core.planner.inputs import Overheads


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds each. A run is held against a real one by giving it the delays of the real one."""

    node_s: float = 60.0
    """From the request of a node until it is Ready, where no law of `start_up` is given."""
    start_up: StartUpModel | None = None
    """Instead: the stages of nodes are drawn from their laws, by pool."""
    container_s: float = 2.0
    """From a bound pod to a container that runs; the image is on the node, or comes with it."""
    join_s: float = 8.0
    """From a container that runs to a worker that could train: imports, connection."""
    first_join_s: float | None = None
    """The same where nobody has joined yet: all import at once. None: as later."""
    coordinator_s: float = 2.0
    """From the coordinator's pod to a coordinator that answers; its node is always there."""
    reform_s: float = 0.03
    """From a loss that is noticed to the next generation, its state from memory (design.md 6)."""
    restore_s: float = 5.0
    """... and its state from a checkpoint."""
    stall_s: float = 0.05
    """How long training stands still for one checkpoint."""
    commit_s: float = 2.0
    """From the beginning of a save until it is durable; the final one and urgent ones too."""
    exit_s: float = 0.5
    """From a process that may go to a container that has ended."""
    loss_s: float | None = None
    """From power-off until the coordinator calls the workers lost. None: after four silent
    heartbeats; less where connections break rather than fall silent."""
    silence_s: float = 40.0
    """From power-off to Ready=Unknown: --node-monitor-grace-period (Kubernetes 1.31: 40 s)."""
    deletion_s: float = 60.0
    """From power-off until the cloud controller has deleted the Node object."""
    collection_s: float = 40.0
    """From a Node that is gone to pods that are: the quarantine of the pod garbage collector."""
    idle_s: float = 600.0
    """How long a node without pods is kept: --scale-down-unneeded-time (cluster-autoscaler)."""
    warned_share: float = 1.0
    """The share of revocations that a notice precedes, as long as the pool's notice says."""

    @classmethod
    def expected(cls, overheads: Overheads) -> Self:
        """Return delays that add up to what the planner expects."""
        plain = cls()
        return cls(
            node_s=max(overheads.start_s - plain.container_s - plain.join_s, 0.0),
            stall_s=overheads.save_s,
            restore_s=overheads.restore_s,
            reform_s=overheads.reform_s,
        )

    def draw_node_s(self, pool: str, chance: np.random.Generator) -> float:
        """Return how long a node of a pool takes from its request until it is Ready."""
        if self.start_up is None:
            return self.node_s
        total = 0.0
        for name in NODE_STAGES:
            if name in self.start_up.stages:
                mean, deviation, _ = self.start_up.stages[name].guess(pool)
                total += float(np.exp(mean + deviation * chance.standard_normal()))
        return total

    def join_after_s(self, *, first: bool) -> float:
        """Return how long a worker takes to join; `first`: nobody has joined yet."""
        return self.first_join_s if first and self.first_join_s is not None else self.join_s

    def draw_is_warned(self, chance: np.random.Generator) -> bool:
        """Tell whether a revocation is announced."""
        return self.warned_share >= 1 or bool(chance.random() < self.warned_share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """From a moment on, so many seconds after the start, something has another value."""

    at_s: float
    value: float
    warned: bool | None = None
    """Whether nodes that are taken for it had notice; None: by chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What providers offer over time, by pool. A pool without an entry has all its nodes."""

    nodes: Mapping[str, tuple[Change, ...]] = field(default_factory=dict)
    """How many can be had, those that we hold included."""
    usd_per_node_hour: Mapping[str, tuple[Change, ...]] = field(default_factory=dict)
    """Prices; before the first change: the pool's own."""
