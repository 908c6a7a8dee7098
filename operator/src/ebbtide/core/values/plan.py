"""A plan: what to run now, what is expected of it, and what it was chosen over."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Workers of one pool in a plan."""

    pool: str
    replicas: int  # workers
    batch_share: float  # of the global batch, all these workers together; a plan's add up to 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """What is expected; money is the whole job's, with what is already spent."""

    finish: datetime  # as likely before as after
    finish_late: datetime  # nine of ten times before
    cost_usd: Decimal
    cost_high_usd: Decimal  # nine of ten times below
    deadline_probability: float | None  # None: there is no deadline
    steps_per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """A plan that lost."""

    shares: tuple[Share, ...]
    servers: int
    predicted: Predicted
    why: str  # why it lost, in a sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the planner wants to run now."""

    shares: tuple[Share, ...]  # pools without workers are left out; the cheapest worker first
    servers: int
    spares: int
    on_demand_floor: int  # workers
    checkpoint_interval: timedelta
    predicted: Predicted
    reason: str  # one sentence
    spare_pool: str = ""  # where the spares are; empty: there are none
    awaited: tuple[Share, ...] = ()  # what it would rather run, where a pool gives no node now
    alternatives: tuple[Alternative, ...] = ()  # at most 5, the best first
    assumptions: tuple[str, ...] = ()  # what was taken for granted, and how sure each model is
    made_at: datetime

    @property
    def workers(self) -> int:
        """How many workers in all."""
        return sum(share.replicas for share in self.shares)

    def is_like(self, other: "Plan") -> bool:
        """Tell whether another plan runs the same workers in the same places."""
        mine, theirs = ({s.pool: s.replicas for s in p.shares} for p in (self, other))
        beside = [(p.servers, p.spares, p.spare_pool) for p in (self, other)]
        return mine == theirs and beside[0] == beside[1]

    def replicas_in(self, pool: str) -> int:
        """How many workers one pool has in this plan."""
        return sum(share.replicas for share in self.shares if share.pool == pool)


@dataclass(frozen=True, slots=True, kw_only=True)
class Infeasible:
    """No plan meets the goal."""

    reason: str  # names the value, the limit and what would be right
    nearest_deadline: datetime | None = None  # the earliest that can be met within the budget
    nearest_budget_usd: Decimal | None = None  # the least that meets the deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """How fast a fleet was seen to train."""

    workers: Mapping[str, int]  # by GPU type
    steps_per_second: float
    servers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """That there is no plan, as it is kept from pass to pass."""

    why: Infeasible
    made_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """A plan as it is kept from pass to pass."""

    plan: Plan | None = None
    basis: str = ""  # changes with what a plan must answer, before a dash what it must at once
    changes: tuple[datetime, ...] = ()  # when workers were moved by plan, within the last hour
    measured: Measured | None = None  # what the plan knew of the speed
    refusal: Refusal | None = None  # where there is no plan
