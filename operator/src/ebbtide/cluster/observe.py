"""One look at a job: everything `step` may know, from the caches and two small reads."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from ebbtide.cluster.cache import NodeCache, PodCache
from ebbtide.cluster.children import Children, ChildrenCache
from ebbtide.cluster.errors import RejectedError
from ebbtide.cluster.links import Links
from ebbtide.cluster.profiles import ProfileCache
from ebbtide.cluster.reading import CachedPod
from ebbtide.cluster.records import JobRecords, PoolRecords
from ebbtide.core.values.job import BrokenJob, Job, JobKey
from ebbtide.core.values.observed import Node, Observed, Pod, PodPhase, Role
from ebbtide.core.values.status import JobStatus
from ebbtide.wire.names import coordinator_service

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Observer:
    """Gathers; holds nothing of its own."""

    def __init__(
        self,
        *,
        jobs: JobRecords,
        pools: PoolRecords,
        profiles: ProfileCache,
        pods: PodCache,
        nodes: NodeCache,
        children: ChildrenCache,
        links: Links,
    ) -> None:
        self._jobs = jobs
        self._pools = pools
        self._profiles = profiles
        self._pods = pods
        self._nodes = nodes
        self._children = children
        self._links = links

    async def observe(self, key: JobKey) -> Observed | None:
        """Return what there is of a job; None when it is gone."""
        record = self._jobs.get(key)
        if record is None:
            self._links.follow(key, "", None)
            return None
        children = await self._children.look(record.job)
        # From here on nothing is awaited: what follows is one moment's picture.
        record = self._jobs.get(key)
        if record is None:
            return None
        job = record.job
        if record.trouble:  # deciding without the ledger could count or make things twice
            raise RejectedError(f"the status of {key} cannot be read: {record.trouble}")
        profile, profile_error = self._profiles.find(job)
        cached = self._pods.of_job(key)
        own = tuple(one.pod for one in cached.values() if one.job_uid == job.uid)
        return Observed(
            job=job,
            status=record.status,
            pods=own,
            departed=self._departed(key, record.job.uid, record.status),
            nodes=self._read_nodes(own),
            pools=self._pools.pools(),
            pasts=self._pools.pasts(),
            pool_load=_less(self._pods.pool_gpus, own),
            node_gpus=MappingProxyType(dict(self._pods.node_gpus)),
            coordinator=self._links.follow(key, job.uid, reachable_coordinator(own)),
            former_attempts=former_attempts(cached.values(), job),
            has_secret=children.has_secret,
            service_attempt=children.service_attempt,
            foreign=_foreign(job, children),
            profile=profile,
            profile_error=profile_error,
        )

    def _departed(self, key: JobKey, uid: str, status: JobStatus) -> tuple[Pod, ...]:
        """Return what is known of pods that are gone and whose end is not counted yet."""
        gone = [one.pod for one in self._pods.departed(key) if one.job_uid == uid]
        judged = {index: entry.judged for index, entry in status.attempts.items()}
        counted = {pod.uid for pod in gone if pod.attempt <= judged.get(pod.index_key, 0)}
        self._pods.forget_departed(counted)
        return tuple(pod for pod in gone if pod.uid not in counted)

    def _read_nodes(self, pods: Iterable[Pod]) -> Mapping[str, Node]:
        if self._nodes.readable:
            return self._nodes.view()
        # Nothing is known of nodes: let none of them look lost. Losses then show on pods alone.
        return {pod.node: _stand_in(pod) for pod in pods if pod.node}


def _stand_in(pod: Pod) -> Node:
    return Node(
        name=pod.node, uid="", ready=True, ready_changed=_EPOCH, boot_id=pod.boot_id, gpus=pod.gpus
    )


def _less(load: Counter[str], own: Iterable[Pod]) -> Mapping[str, int]:
    """Return the GPUs by pool without this job's own."""
    others = Counter(load)
    for pod in own:
        if not pod.ended:
            others[pod.pool] -= pod.gpus
    return MappingProxyType({pool: gpus for pool, gpus in others.items() if gpus > 0})


def reachable_coordinator(pods: Iterable[Pod]) -> Pod | None:
    """Return the newest coordinator that runs and has an address."""
    running = [
        pod
        for pod in pods
        if pod.role is Role.COORDINATOR and pod.phase is PodPhase.RUNNING and pod.ip
    ]
    return max(running, key=lambda pod: pod.attempt, default=None)


def former_attempts(cached: Iterable[CachedPod], job: Job | BrokenJob) -> Mapping[str, int]:
    """Return the largest attempt by index on pods of former jobs of this name."""
    found: dict[str, int] = {}
    for one in cached:
        if one.job_uid not in ("", job.uid):
            key = one.pod.index_key
            found[key] = max(found.get(key, 0), one.pod.attempt)
    return MappingProxyType(found)


def _foreign(job: Job | BrokenJob, children: Children) -> frozenset[str]:
    if not children.service_foreign:
        return frozenset()
    return frozenset({f"Service {coordinator_service(job.key.name)}"})
