"""
The status of a CapacityPool, and the values of the core, both ways.

Moments keep their fractions: what is computed from the past must be the same after a restart.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any

from pydantic import Field, StrictBool

from ebbtide.api.fields import Count, Moment, Name, Number, Rate, Ratio, Schema, Short
from ebbtide.api.job_status import ConditionStatus
from ebbtide.api.stored import read_stored
from ebbtide.api.texts import Json, render_second, render_time, slim
from ebbtide.core.values.past import (
    MOST_FOLLOWED,
    MOST_LIVES,
    MOST_SPELLS,
    Followed,
    Life,
    LifeTold,
    Past,
    Spell,
)


class PoolNodes(Schema):
    """Nodes that are there."""

    ready: Count = Field(default=0, description="Nodes that are Ready.")
    total: Count = Field(default=0, description="Nodes that exist.")


class PoolAvailability(Schema):
    """Whether nodes can be had."""

    available: StrictBool = Field(description="Whether nodes could be had when last asked for.")
    since: Moment = Field(description="Since when that is so.")
    left_out_until: Moment | None = Field(
        default=None,
        description="Until then no more nodes are asked for: it gave none when last tried.",
    )


class PoolLifetime(Schema):
    """How long nodes live until the provider takes them."""

    family: Short = Field(description="The kind of distribution that was fitted.")
    parameters: Annotated[dict[Short, Number], Field(max_length=32)] = Field(
        default_factory=dict, description="What it says by name; times in hours."
    )
    samples: Count = Field(
        default=0, description="Lives of this pool's own nodes that it was fitted to."
    )
    brier: Ratio | None = Field(
        default=None,
        description="Integrated Brier score on lives of this pool that the fit did not see.",
    )


class SpellStatus(Schema):
    """From when on nodes could be had, or not."""

    available: StrictBool = Field(description="Whether nodes could be had.")
    since: Moment = Field(description="From when on.")


class LifeStatus(Schema):
    """The life of a node that is over."""

    since: Moment = Field(description="When the node became Ready.")
    seconds: Rate = Field(description="How long it lived.")
    revoked: StrictBool = Field(
        description="Whether the provider took it; else it was not needed any more."
    )


class FollowedStatus(Schema):
    """A node whose life is being followed."""

    node: Name = Field(description="Name of the node.")
    mark: Short = Field(description="Of its object and its boot.")
    since: Moment = Field(description="When it became Ready.")
    idle_since: Moment | None = Field(
        default=None, description="Since when no pod of a job is on it; absent: one is."
    )


class PoolHistory(Schema):
    """What is remembered of the pool; the operator learns from it."""

    spells: Annotated[list[SpellStatus], Field(max_length=MOST_SPELLS)] = Field(
        default_factory=list, description="When nodes could be had, of the last 30 days."
    )
    failed_tries: Count = Field(
        default=0, description="Waits in a row, each as long as allowed, that ended without a node."
    )
    failed_at: Moment | None = Field(
        default=None, description="The end of the last of them; absent: one goes on."
    )
    lives: Annotated[list[LifeStatus], Field(max_length=MOST_LIVES)] = Field(
        default_factory=list, description="Lives of nodes that jobs used, of a week."
    )
    followed: Annotated[list[FollowedStatus], Field(max_length=MOST_FOLLOWED)] = Field(
        default_factory=list, description="Nodes whose lives are followed."
    )


class PoolStatus(Schema):
    """What is. Written by the operator alone."""

    nodes: PoolNodes = Field(default_factory=PoolNodes, description="Nodes that are there.")
    availability: PoolAvailability | None = Field(
        default=None, description="Whether nodes can be had; absent until a job asked for one."
    )
    last_revocation_time: Moment | None = Field(
        default=None, description="When the provider last took a node that a job used."
    )
    lifetime: PoolLifetime | None = Field(
        default=None,
        description="How long a new node is expected to live; absent until one was lost.",
    )
    history: PoolHistory = Field(
        default_factory=PoolHistory, description="What all of this, and the planner, rests on."
    )
    conditions: list[ConditionStatus] = Field(
        default_factory=list,
        max_length=16,
        description="What is to be said about the pool.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """Everything that the operator writes into the status of a pool."""

    ready: int = 0
    total: int = 0
    left_out_until: datetime | None = None
    lifetime: LifeTold | None = None
    past: Past = field(default_factory=Past)


def parse_pool_status(status: Mapping[str, Any] | None) -> PoolState:
    """Return a stored status; raise InvalidManifestError where it is none of ours."""
    stored = read_stored(PoolStatus, status)
    availability, lifetime = stored.availability, stored.lifetime
    return PoolState(
        ready=stored.nodes.ready,
        total=stored.nodes.total,
        left_out_until=None if availability is None else availability.left_out_until,
        lifetime=None if lifetime is None else LifeTold(**dict(lifetime)),
        past=_parse_past(stored.history),
    )


def _parse_past(stored: PoolHistory) -> Past:
    return Past(
        spells=tuple(Spell(**dict(found)) for found in stored.spells),
        failed_tries=stored.failed_tries,
        failed_at=stored.failed_at,
        lives=tuple(
            Life(since=found.since, lasted=timedelta(seconds=found.seconds), revoked=found.revoked)
            for found in stored.lives
        ),
        followed=tuple(Followed(**dict(found)) for found in stored.followed),
    )


def render_pool_status(state: PoolState) -> Json:
    """Return the status as it is stored."""
    spell, told = state.past.spell, state.lifetime
    revoked = state.past.last_revocation
    return slim({
        "nodes": {"ready": state.ready, "total": state.total},
        "availability": None
        if spell is None
        else slim({
            "available": spell.available,
            "since": render_second(spell.since),
            "leftOutUntil": _second(state.left_out_until),
        }),
        "lastRevocationTime": _second(revoked),
        "lifetime": None
        if told is None
        else slim({
            "family": told.family,
            "parameters": dict(told.parameters),
            "samples": told.samples,
            "brier": told.brier,
        }),
        "history": _render_past(state.past),
    })  # fmt: skip


def _render_past(past: Past) -> Json:
    return slim(
        {
            "spells": [
                {"available": spell.available, "since": render_time(spell.since)}
                for spell in past.spells
            ],
            "failedTries": past.failed_tries or None,
            "failedAt": None if past.failed_at is None else render_time(past.failed_at),
            "lives": [
                {
                    "since": render_time(life.since),
                    "seconds": life.lasted.total_seconds(),
                    "revoked": life.revoked,
                }
                for life in past.lives
            ],
            "followed": [
                slim(
                    {
                        "node": one.node,
                        "mark": one.mark,
                        "since": render_time(one.since),
                        "idleSince": None
                        if one.idle_since is None
                        else render_time(one.idle_since),
                    }
                )
                for one in past.followed
            ],
        }
    )


def _second(moment: datetime | None) -> str | None:
    return None if moment is None else render_second(moment)
