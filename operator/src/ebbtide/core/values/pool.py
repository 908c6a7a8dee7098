"""Pools: nodes of one kind that a job may use."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Protocol

PODS_PER_CPU_NODE: Final = 110  # the kubelet's own limit


class Market(enum.StrEnum):
    """How the provider sells a node."""

    SPOT = "Spot"
    ON_DEMAND = "OnDemand"

    @property
    def capacity_type(self) -> str:
        """The value of the capacity-type label."""
        return "spot" if self is Market.SPOT else "on-demand"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A node as a price list has it."""

    provider: str
    instance_type: str
    region: str  # "": whichever is the dearest
    market: Market
    gpu_type: str
    gpus: int


class PriceList(Protocol):
    """Knows prices."""

    def __call__(self, listing: Listing, /) -> Decimal:
        """Return the USD of one whole node for one hour; raises UnknownPriceError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One CapacityPool."""

    name: str
    market: Market
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    zone: str = ""
    region: str = ""
    notice: timedelta = timedelta(seconds=30)
    max_nodes: int = 1
    gpu_type: str = ""
    gpus_per_node: int = 1
    usd_per_node_hour: Decimal = Decimal(0)

    def workers_per_node(self, gpus_per_worker: int) -> int:
        """How many workers of that size one node carries; 0 = none fits."""
        if gpus_per_worker == 0:
            return PODS_PER_CPU_NODE
        return self.gpus_per_node // gpus_per_worker

    def usd_per_worker_hour(self, gpus_per_worker: int) -> Decimal:
        """What one worker of that size costs per hour on nodes that are full of them."""
        return self.usd_per_node_hour / self.workers_per_node(gpus_per_worker)

    def room(self, gpus_per_worker: int) -> int:
        """How many workers of that size the whole pool carries."""
        return self.max_nodes * self.workers_per_node(gpus_per_worker)


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What one job's own pods show of a pool."""

    held: int = 0  # workers of the job that have a node there and can be counted on
    coming: int = 0  # ... that have none yet
    waiting_since: datetime | None = None  # since when one of those waits for it
    dry_since: datetime | None = None  # ... where it waits for so long that there is none
