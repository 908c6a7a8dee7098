"""What the planner asks of models; the shell loads them, so that the core does no I/O."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from ebbtide.core.models.survival import Survival
from ebbtide.core.planner.inputs import Overheads
from ebbtide.core.planner.speed import Speed
from ebbtide.core.values.job import Job
from ebbtide.core.values.past import Past
from ebbtide.core.values.plan import Measured
from ebbtide.core.values.pool import Pool
from ebbtide.core.values.workload import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One job's workload, and what is known of it."""

    job: Job
    profile: Profile | None = None
    measured: Measured | None = None  # how fast it trains


class Knowledge(Protocol):
    """Answers for one job."""

    def speed(self, workload: Workload, pools: Sequence[Pool]) -> Speed:
        """Return how fast workers of each GPU type are."""

    def life(self, pool: Pool, now: datetime, past: Past) -> Survival | None:
        """Return the law of life of a new node; None where nodes are not taken away."""

    def overheads(self, workload: Workload) -> Overheads:
        """Return what starts, saves and changes take."""
