"""Knowledge from fitted models: those that ship with the package, or the user's own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from ebbtide.core.models import checkpoint
from ebbtide.core.models.lifetime.model import Lifetimes
from ebbtide.core.models.stored import Model
from ebbtide.core.models.survival import Survival
from ebbtide.core.models.table import Table
from ebbtide.core.planner import own_lives
from ebbtide.core.planner.inputs import Overheads
from ebbtide.core.planner.knowledge import Workload
from ebbtide.core.planner.rank_times import Chip, Knowing
from ebbtide.core.planner.speed import Speed
from ebbtide.core.planner.speeds import Layout, build_speed, correct
from ebbtide.core.values.past import Life, LifeTold, Past
from ebbtide.core.values.pool import Market, Pool
from ebbtide.core.values.workload import Profile

LIFE_UNIT_S: Final = 300.0
MOST_LAWS: Final = 256
"""Kept, each of at most 23 kB."""
FINE_UNIT_S: Final = 60.0
"""For a pool that has lost nodes: some lose them within minutes."""
LIFE_UNTIL_S: Final = 48 * 3600.0
STAGING_BYTES_PER_S: Final = 1e9
"""Training stands still while state is copied aside; it is written beside the training."""
LEAST_STALL_S: Final = 0.01
UNKNOWN_BYTES: Final = 3e8
"""Of a checkpoint, where nothing tells: ResNet-50's parameters and two moments."""
REFORM_S: Final = 1.0
"""Members find together again in tens of milliseconds; what they redo is part of a step."""
ADAM_COPIES: Final = 3.0
"""Parameters and two moments, four bytes each."""
BYTES: Final = 4.0
MOST_SPEEDS: Final = 1024
"""Kept, each of some hundred bytes."""
TYPICAL_TENSORS: Final = 161
"""Of ResNet-50; the checkpoint model wants a number."""


class _Asked(NamedTuple):
    """What the speed of a job's workers depends on, as long as it is not measured."""

    profile: int
    workload: str
    layout: Layout
    types: tuple[str, ...]


class _Lived(NamedTuple):
    """What the law of life of a pool's nodes depends on."""

    pool: tuple[str, str, str]
    lives: tuple[Life, ...]
    hour: datetime | None  # None: the hour of day tells nothing


@dataclass(frozen=True, kw_only=True)
class Embedded:
    """Answers for one job after another; what it holds of any changes no answer."""

    lifetimes: Lifetimes
    models: Knowing = field(default_factory=Knowing)
    """What is known whatever the workload: GPU types and fitted models."""
    checkpoint: Model | None = None
    start_s: float = 180.0
    """From the request of a node to a worker that trains."""
    _speeds: dict[_Asked, tuple[Profile | None, Speed]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """What was worked out before, which is the same again; profiles are kept for their ids."""
    _laws: dict[_Lived, Survival] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _overheads: dict[int, tuple[Profile | None, Overheads]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def speed(self, workload: Workload, pools: Sequence[Pool]) -> Speed:
        """Return how fast workers of each GPU type are."""
        job = workload.job
        layout = Layout(
            global_batch=job.global_batch_size,
            sizes=job.sizes(),
            ranks_per_worker=job.processes_per_worker,
            workers_per_node=min(
                (pool.workers_per_node(job.gpus_per_worker) for pool in pools), default=1
            ),
            uses_servers=job.uses_servers,
        )
        types = tuple(dict.fromkeys(pool.gpu_type for pool in pools))
        asked = _Asked(id(workload.profile), job.workload, layout, types)
        if asked not in self._speeds:
            knowing = replace(self.models, workload=job.workload, profile=workload.profile)
            if len(self._speeds) >= MOST_SPEEDS:
                self._speeds.clear()
            self._speeds[asked] = workload.profile, build_speed(knowing, layout, types)
        _, speed = self._speeds[asked]
        return speed if workload.measured is None else correct(speed, workload.measured, layout)

    def life(self, pool: Pool, now: datetime, past: Past) -> Survival | None:
        """Return the law of life of a new node; None where nodes are not taken away."""
        if pool.market is Market.ON_DEMAND:
            return None
        lives = own_lives.select(past, now=now, start=self._start)
        hour = None if self.lifetimes.hours is None else now.replace(second=0, microsecond=0)
        lived = _Lived((pool.name, pool.zone, pool.gpu_type), lives, hour)
        if lived not in self._laws:
            if len(self._laws) >= MOST_LAWS:
                self._laws.clear()
            model = own_lives.learn(self.lifetimes, pool, lives)
            unit_s = FINE_UNIT_S if any(life.revoked for life in lives) else LIFE_UNIT_S
            asked = own_lives.ask(pool, now)
            laws = model.laws_of(asked, unit_s=unit_s, until_s=LIFE_UNTIL_S)
            self._laws[lived] = laws[0]
        return self._laws[lived]

    def tell_life(self, pool: Pool, past: Past, now: datetime) -> LifeTold | None:
        """Say what is expected of a new node; None where no node of the pool was ever lost."""
        if pool.market is Market.ON_DEMAND:
            return None
        return own_lives.tell(self.lifetimes, pool, past, now=now, start=self._start)

    @property
    def _start(self) -> timedelta:
        return timedelta(seconds=self.start_s)

    def overheads(self, workload: Workload) -> Overheads:
        """Return what starts, saves and changes take."""
        profile = workload.profile
        if id(profile) not in self._overheads:
            if len(self._overheads) >= MOST_SPEEDS:
                self._overheads.clear()
            self._overheads[id(profile)] = profile, self._work_out(profile)
        return self._overheads[id(profile)][1]

    def _work_out(self, profile: Profile | None) -> Overheads:
        size = _checkpoint_bytes(profile)
        return Overheads(
            start_s=self.start_s,
            save_s=LEAST_STALL_S + size / STAGING_BYTES_PER_S,
            restore_s=self._transfer_seconds(size, profile),
            reform_s=REFORM_S,
        )

    def _transfer_seconds(self, size: float, profile: Profile | None) -> float:
        """Return how long a checkpoint takes to and from its store."""
        if self.checkpoint is None:
            return size / STAGING_BYTES_PER_S
        tensors = TYPICAL_TENSORS if profile is None or not profile.tensors else profile.tensors
        asked = Table.of(
            workload=["?"],
            size_mb=[max(size / checkpoint.MEGABYTE, checkpoint.SIZE.least * 2)],
            tensors=[tensors],
        )
        return float(checkpoint.KIND.ask(self.checkpoint, asked).value[0])


def chips_of(flops: Mapping[str, float], nic_gbps: Mapping[str, float]) -> dict[str, Chip]:
    """Join what data sheets and price lists say of GPU types."""
    return {name: Chip(flops=value, nic_gbps=nic_gbps.get(name)) for name, value in flops.items()}


def _checkpoint_bytes(profile: Profile | None) -> float:
    if profile is not None and profile.checkpoint_bytes:
        return profile.checkpoint_bytes
    if profile is not None and profile.parameters:
        return profile.parameters * BYTES * ADAM_COPIES
    return UNKNOWN_BYTES
