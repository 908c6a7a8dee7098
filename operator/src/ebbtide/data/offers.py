"""One offer of a node with GPUs, and one that is not believed."""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from typing_extensions import override

Market: TypeAlias = Literal["OnDemand", "Spot"]

CURRENCY: Final = "USD"
INTERRUPTIONS: Final = ("<5%", "5-10%", "10-15%", "15-20%", ">20%")
"""Share of the nodes of a type that were taken in a month, as AWS puts types into classes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """What one GPU of a type has, by the vendor's data sheet."""

    memory_gib: float
    flops_fp32: float
    """Peak, per second."""
    flops_tensor: float | None = None
    """Peak of the matrix units in half precision, without sparsity; None where there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One type of node in one region; prices are of the whole node, in USD per hour."""

    provider: str
    instance_type: str
    region: str
    """Empty where the list names none."""
    gpu: str
    gpus: int
    on_demand_usd: float
    spot_usd: float | None = None
    nic_gbps: float | None = None
    interruption: int | None = None
    """Index into INTERRUPTIONS."""
    date: str = ""
    source: str = ""

    @property
    def name(self) -> str:
        """What messages call it."""
        place = f" in {self.region}" if self.region else ""
        return f"{self.provider} {self.instance_type} ({self.gpus} x {self.gpu}){place}"

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """What tells offers apart."""
        return self.provider, self.instance_type, self.region, self.gpu, self.gpus

    @property
    def market(self) -> Market:
        """Where a node of it is cheaper: a spot price is no bargain by its name."""
        if self.spot_usd is not None and self.spot_usd < self.on_demand_usd:
            return "Spot"
        return "OnDemand"

    def usd_per_hour(self, market: Market) -> float | None:
        """Return the price of that market, and never that of the other."""
        return self.on_demand_usd if market == "OnDemand" else self.spot_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A row that is not believed."""

    row: int
    """From 1, in the order of the list."""
    name: str
    reason: str

    @override
    def __str__(self) -> str:
        return f"offer {self.row} ({self.name}): {self.reason}"
