"""What a job's plan depends on: the job, its pools, what it holds there, and the plan before."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final, TypeAlias

from ebbtide.core.planner.knowledge import Workload
from ebbtide.core.values.job import Job
from ebbtide.core.values.past import Past
from ebbtide.core.values.plan import PlanRecord
from ebbtide.core.values.pool import Pool, Room

NO_PAST: Final = Past()

Numbers: TypeAlias = Mapping[str, int]
"""Workers by pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """All that a job's plan depends on."""

    workload: Workload
    pools: tuple[Pool, ...]
    rooms: Mapping[str, Room]
    pasts: Mapping[str, Past] = field(default_factory=dict)
    other_gpus: Numbers = field(default_factory=dict)  # asked for by other jobs, by pool
    steps_left: int
    spent_usd: Decimal = Decimal(0)
    first_start: datetime | None = None
    training: bool = False
    before: PlanRecord
    interval: timedelta  # `planSeconds`: see `standing`
    wait: timedelta = timedelta(minutes=5)  # after which a pool that gives no node counts as dry
    start: timedelta = timedelta(minutes=3)  # expected of a node, from request to training
    time_scale: float = 1.0
    tells_losers: bool = True
    now: datetime

    @property
    def job(self) -> Job:
        """The job that is planned."""
        return self.workload.job

    @property
    def due(self) -> datetime | None:
        """When the work is to be done."""
        return self.job.objective.due(self.first_start or self.now)

    @property
    def dry(self) -> dict[str, datetime]:
        """
        Pools that are not counted on for more than they have given, and since when.

        The job waits there in vain, or somebody did not long ago (`Past.left_out_until`).
        """
        found = {}
        for pool in self.pools:
            room, past = self.rooms.get(pool.name, Room()), self.past(pool.name)
            since = room.dry_since or past.dry_since(self.now, self.wait)
            if since is not None:
                found[pool.name] = since
        return found

    def past(self, pool: str) -> Past:
        """What is remembered of a pool."""
        return self.pasts.get(pool, NO_PAST)

    def held(self, pool: str) -> int:
        """How many workers of the job have a node in a pool."""
        return self.rooms.get(pool, Room()).held

    def there(self, pool: str) -> int:
        """How many workers of the job have a node in a pool, or get one if it gives any."""
        room = self.rooms.get(pool, Room())
        return room.held + (0 if pool in self.dry else room.coming)
