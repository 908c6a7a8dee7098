"""The kind CapacityPool: nodes of one kind that jobs may use."""

import enum
from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from ebbtide.api.fields import (
    Count,
    Labels,
    LabelValue,
    Money,
    Rule,
    Schema,
)
from ebbtide.api.pool_status import PoolStatus
from ebbtide.core.values.pool import Market

Key = Annotated[str, StringConstraints(max_length=317)]


class Operator(enum.StrEnum):
    """How a toleration compares."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class Effect(enum.StrEnum):
    """What a taint does."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class PoolToleration(Schema):
    """A taint that workers on this pool bear."""

    key: Key | None = Field(default=None, description="Key of the taint; absent: every key.")
    operator: Operator | None = Field(default=None, description="Equal (default) or Exists.")
    value: LabelValue | None = Field(default=None, description="Value of the taint, for Equal.")
    effect: Effect | None = Field(default=None, description="Absent: every effect.")
    toleration_seconds: Count | None = Field(
        default=None, description="How long a NoExecute taint is borne; absent: for ever."
    )


class Gpu(Schema):
    """The GPUs of one node."""

    type: Annotated[str, StringConstraints(min_length=1, max_length=63)] = Field(
        description="Kind of GPU, as in V100."
    )
    count: Annotated[int, Field(strict=True, ge=1, le=64)] = Field(
        default=1, description="GPUs of one node."
    )


class CatalogueEntry(Schema):
    """A node in the price list that ships with Ebbtide."""

    provider: Annotated[str, StringConstraints(min_length=1, max_length=63)] = Field(
        description="Provider, as in aws."
    )
    instance_type: Annotated[str, StringConstraints(min_length=1, max_length=63)] = Field(
        description="Type of node, as in p3.2xlarge; spec.region, spec.market and spec.gpu say the"
        " rest. Without a region the dearest counts."
    )


class Price(Schema):
    """What one node costs: a price, or where to look it up."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.usdPerNodeHour) != has(self.catalogue)",
            message="price must have either usdPerNodeHour or catalogue",
            holds=lambda price: (price.usd_per_node_hour is None) != (price.catalogue is None),
        ),
        Rule(
            cel="!has(self.usdPerNodeHour) || self.usdPerNodeHour.matches('[1-9]')",
            message="usdPerNodeHour must be above 0: what costs nothing wins every comparison",
            field=".usdPerNodeHour",
            holds=lambda price: (price.usd_per_node_hour or "1").strip("0.") != "",
        ),
    )
    usd_per_node_hour: Money | None = Field(
        default=None, description="US dollars for one node and hour, as in 0.92."
    )
    catalogue: CatalogueEntry | None = Field(
        default=None, description="Instead: a node whose price is looked up."
    )


class PoolSpec(Schema):
    """Nodes of one kind."""

    node_selector: Labels = Field(description="Labels that tell the nodes of this pool.")
    tolerations: Annotated[list[PoolToleration], Field(max_length=32)] = Field(
        default_factory=list,
        description="Added to the workers that run here.",
        json_schema_extra={"default": []},
    )
    market: Market = Field(description="How the provider sells the nodes: Spot or OnDemand.")
    zone: LabelValue = Field(default="", description="Zone of the nodes.")
    region: LabelValue = Field(default="", description="Region of the nodes.")
    notice_seconds: Annotated[int, Field(strict=True, ge=0, le=86400)] = Field(
        default=30, description="How long before it takes a node the provider says so."
    )
    max_nodes: Annotated[int, Field(strict=True, ge=0, le=100_000)] = Field(
        description="The most nodes that this pool can have."
    )
    gpu: Gpu | None = Field(default=None, description="GPUs of one node; absent: none.")
    price: Price = Field(description="What one node costs.")


class CapacityPool(Schema):
    """A CapacityPool describes nodes of one kind that jobs may use."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="self.metadata.name.size() <= 63",
            message="metadata.name must have at most 63 characters: it becomes a label of pods",
        ),
    )
    spec: PoolSpec = Field(description="The nodes.")
    status: PoolStatus = Field(default_factory=PoolStatus, description="What is.")
