"""
Where the user or the launcher says how many: the cheapest pools first, without a plan.

Target = `elasticPolicy.replicas` in plan mode Manual, else the largest legal size. The first
`onDemandFloor` workers go to the cheapest on-demand pool, the others to the cheapest spot pool with
room, then to on-demand. A worker that waited in vain in a pool goes to the next one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ebbtide.core.values.job import Job, SpotUse
from ebbtide.core.values.pool import Market, Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedSize:
    """Where each worker of one job goes."""

    spot: tuple[Pool, ...]  # cheapest first
    on_demand: tuple[Pool, ...]
    floor: int
    desired: int
    gpus: int
    spares: int = 0  # warm workers beyond those that train, placed like them
    unfit: tuple[str, ...] = ()  # why each other pool is out of the question
    dry: frozenset[str] = frozenset()  # gave no node when last asked, and are left out for a while

    @property
    def workers(self) -> int:
        """How many indexes have a pod: those that train, and spares."""
        return self.desired + self.spares

    def candidates(self, index: int) -> tuple[Pool, ...]:
        """Return the pools for one worker in the order in which they are tried."""
        if index < self.floor:
            return self.on_demand
        return self.spot + self.on_demand

    def place(
        self, index: int, *, load: Mapping[str, int], tried: Sequence[str] = ()
    ) -> Pool | None:
        """
        Choose the pool of one worker.

        Args:
            index: the worker's.
            load: workers (of this size) that each pool carries or will, by pool name.
            tried: pools where this worker waited in vain.

        Returns:
            The first pool with room that is neither tried nor dry, else the first untried one; all
            tried or full: the first with room; else None.

        """
        roomy = [pool for pool in self.candidates(index) if self._has_room(pool, load)]
        fresh = [pool for pool in roomy if pool.name not in tried]
        hopeful = (pool for pool in fresh if pool.name not in self.dry)
        return next(iter((*hopeful, *fresh, *roomy)), None)

    def explain(self, index: int) -> str:
        """Say why nothing can be chosen for a worker."""
        if not self.candidates(index):
            kind = "on-demand pool" if index < self.floor else "pool"
            return f"no {kind} fits: " + ("; ".join(self.unfit) or "there is no CapacityPool")
        names = ", ".join(f"{p.name} (maxNodes {p.max_nodes})" for p in self.candidates(index))
        return f"every pool that fits is full: {names}"

    def _has_room(self, pool: Pool, load: Mapping[str, int]) -> bool:
        return load.get(pool.name, 0) < pool.room(self.gpus)


def fix_size(job: Job, pools: Sequence[Pool], *, dry: frozenset[str] = frozenset()) -> FixedSize:
    """Sort the pools that a job may use by what a worker costs there."""
    fit, unfit = sort_out(job, pools)
    desired = job.sizes()[-1] if job.replicas is None else job.replicas
    return FixedSize(
        spot=tuple(pool for pool in fit if pool.market is Market.SPOT),
        on_demand=tuple(pool for pool in fit if pool.market is Market.ON_DEMAND),
        floor=desired if job.spot is SpotUse.NEVER else job.on_demand_floor,
        desired=desired,
        gpus=job.gpus_per_worker,
        spares=job.spares or 0,  # Auto: without a plan nobody can say that one pays
        unfit=unfit,
        dry=dry.intersection(pool.name for pool in fit),
    )


def sort_out(job: Job, pools: Sequence[Pool]) -> tuple[tuple[Pool, ...], tuple[str, ...]]:
    """Return the pools that a job may use, the cheapest worker first; and why not the others."""
    fit: list[Pool] = []
    unfit: list[str] = []
    for pool in pools:
        reason = _why_not(job, pool)
        if reason:
            unfit.append(f"{pool.name}: {reason}")
        else:
            fit.append(pool)
    known = {pool.name for pool in pools}
    unfit += [
        f"{name}: there is no such CapacityPool" for name in job.pools or () if name not in known
    ]
    fit.sort(key=lambda pool: (pool.usd_per_worker_hour(job.gpus_per_worker), pool.name))
    return tuple(fit), tuple(unfit)


def _why_not(job: Job, pool: Pool) -> str:
    if job.pools is not None and pool.name not in job.pools:
        return "not in spec.capacity.pools"
    if job.pool_selector is not None and not job.pool_selector.items() <= pool.labels.items():
        return "its labels do not match spec.capacity.poolSelector"
    if pool.workers_per_node(job.gpus_per_worker) == 0:
        return f"a worker needs {job.gpus_per_worker} GPUs, its nodes have {pool.gpus_per_node}"
    if job.spot is SpotUse.NEVER and pool.market is Market.SPOT:
        return "spec.capacity.spot is Never"
    if job.spot is SpotUse.ONLY and pool.market is Market.ON_DEMAND:
        return "spec.capacity.spot is Only"
    return ""
