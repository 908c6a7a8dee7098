"""What the planner is told: the work, the goal, the pools, the models, and what runs now."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from ebbtide.core.models.start_up import Duration
from ebbtide.core.models.survival import Survival
from ebbtide.core.planner.speed import Speed
from ebbtide.core.planner.supply import ALWAYS, Supply
from ebbtide.core.values.objective import Minimize
from ebbtide.core.values.pool import Pool

WORST: Final = 2.0
"""A changeover may take so many times what was expected, and the deadline still holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """A pool that the job may use, and what is known of it now."""

    pool: Pool
    free: int | None = None
    """Nodes that the job can have there now, those it has included; None: up to the limit."""
    life: Survival | None = None
    """Of a new node; None for on-demand nodes, which are not taken away."""
    supply: Supply = ALWAYS
    """How long nodes can be had at a time, and how long not."""
    start_up: Duration | None = None
    """From the request of a node to a worker that trains; None: the default of `Overheads`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overheads:
    """What changes and interruptions cost, seconds each."""

    start_s: float  # a node from request to a worker that trains
    save_s: float  # training stands still for one checkpoint
    restore_s: float  # load after a total loss
    reform_s: float  # members of a new generation find together: one rescale

    @property
    def changeover_s(self) -> float:
        """From the decision to go on elsewhere, with nothing left but a checkpoint, to progress."""
        return self.start_s + self.restore_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """What runs now."""

    workers: Mapping[str, int] = field(default_factory=dict)  # by pool
    servers: int = 0
    spares: int = 0
    changes: tuple[datetime, ...] = ()  # when the plan was changed, within the last hour
    is_there: bool = True  # all workers have nodes, or nodes that are coming


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """What on-demand needs to keep the deadline once spot is gone; see `guarding`."""

    slack_s: float  # time to the deadline, less the work left on the fastest fleet on demand
    samples_per_hour: float  # of that fleet
    changeover_s: float  # expected, from the decision to progress
    tick_s: float  # until the next decision

    @property
    def least_s(self) -> float:
        """Slack to have whenever spot may go: the worst changeover, and a tick to see it."""
        return WORST * self.changeover_s + self.tick_s

    @property
    def may_wait(self) -> bool:
        """Tell whether what has been asked of spot may be waited for for another tick."""
        return self.slack_s >= self.least_s

    @property
    def may_start(self) -> bool:
        """Tell whether spot may be asked for a node while nobody trains."""
        return self.slack_s >= self.least_s + self.changeover_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """One question to the planner."""

    steps_left: int
    global_batch: int
    uses_servers: bool
    sizes: tuple[int, ...]  # legal numbers of workers, ascending
    on_demand_floor: int  # workers
    gpus_per_worker: int
    processes_per_worker: int
    minimize: Minimize = Minimize.COST
    due: datetime | None = None
    budget_left_usd: Decimal | None = None
    spent_usd: Decimal = Decimal(0)
    pools: tuple[PoolState, ...]
    speed: Speed
    overheads: Overheads
    server_usd_per_hour: Decimal = Decimal(0)  # one server's share of an on-demand node
    servers: tuple[int, int] = (1, 1)  # fewest and most; the same twice: a fixed number
    spares: int | None = 0  # None: as many as pay
    fixed_usd_per_hour: Decimal = Decimal(0)  # what runs whatever the plan; no coordinator does
    checkpoint_interval: timedelta | None = None  # None: chosen by the planner
    running: Running = Running()
    guard: Guard | None = None  # None: there is no deadline that on-demand could keep
    tells_losers: bool = True  # names the runners-up of a plan that is kept, too
