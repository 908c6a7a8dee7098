"""The cluster as the control loop sees it: look, act, write the status, tell events."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from ebbtide.cluster import paths
from ebbtide.cluster.act import Actor, Outcome
from ebbtide.cluster.cache import NodeCache, NodeChange, PodCache
from ebbtide.cluster.children import ChildrenCache
from ebbtide.cluster.events import Teller
from ebbtide.cluster.links import POLL_SECONDS, Dial, Links
from ebbtide.cluster.observe import Observer
from ebbtide.cluster.pool_notes import PoolNotes
from ebbtide.cluster.pool_status import PoolStatusWriter
from ebbtide.cluster.port import Api
from ebbtide.cluster.profiles import ProfileCache, ProfileRecord, ProfileSink
from ebbtide.cluster.records import JobRecords, PoolRecords
from ebbtide.cluster.shapes import Page, parse_version
from ebbtide.cluster.sinks import NodeSink, PodSink
from ebbtide.cluster.status import StatusWriter
from ebbtide.cluster.watch import PAGE, Watch
from ebbtide.core.values.decision import Action, Event
from ebbtide.core.values.job import JobKey
from ebbtide.core.values.observed import Observed
from ebbtide.core.values.status import JobStatus
from ebbtide.manifests.options import Options
from ebbtide.wire import names


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What we look at: no namespaces means all of them."""

    namespaces: tuple[str, ...] = ()
    poll_seconds: float = POLL_SECONDS  # how old a coordinator's progress may be
    pools: tuple[dict[str, Any], ...] = ()  # of the configuration file; none: CapacityPool objects
    notes_namespace: str = ""  # for the records of such pools; "": in memory only

    @property
    def each(self) -> tuple[str, ...]:
        """The namespaces to watch one by one; "" for all at once."""
        return self.namespaces or ("",)


class LiveCluster:
    """One API server. `wake` is called with the key of every job that something happened to."""

    def __init__(
        self,
        api: Api,
        *,
        scope: Scope,
        options: Options,
        dial: Dial,
        clock: Callable[[], datetime],
        wake: Callable[[JobKey], None],
    ) -> None:
        self._api = api
        self._scope = scope
        self._clock = clock
        self._wake = wake
        self.jobs = JobRecords(wake)
        self.pools = PoolRecords(self._pools_changed)
        self.profiles = ProfileCache(self._profile_changed)
        self.pods = PodCache(self._pod_changed)
        self.nodes = NodeCache(self._node_changed)
        self._children = ChildrenCache(api)
        self._links = Links(
            dial,
            self._children.token,
            clock=clock,
            wake=wake,
            poll_seconds=scope.poll_seconds,
        )
        self._observer = Observer(
            jobs=self.jobs,
            pools=self.pools,
            profiles=self.profiles,
            pods=self.pods,
            nodes=self.nodes,
            children=self._children,
            links=self._links,
        )
        self._actor = Actor(
            api, pods=self.pods, children=self._children, links=self._links, options=options
        )
        self._status = StatusWriter(api, self.jobs)
        self._teller = Teller(api)
        self.pool_status = PoolStatusWriter(
            api,
            pools=self.pools,
            nodes=self.nodes,
            pods=self.pods,
            notes=PoolNotes(api, namespace=scope.notes_namespace),
            clock=clock,
        )
        self.watches = self._make_watches()

    def _make_watches(self) -> tuple[Watch, ...]:
        api, namespaces = self._api, self._scope.each
        pods = [
            Watch(
                api,
                paths.within(namespace, "pods"),
                PodSink(self.pods, namespace=namespace),
                params={"labelSelector": names.LABEL_JOB_NAME},
            )
            for namespace in namespaces
        ]
        profiles = [
            Watch(
                api,
                paths.within(namespace, names.WORKLOAD_PROFILES, root=paths.OURS),
                ProfileSink(self.profiles, namespace=namespace),
            )
            for namespace in namespaces
        ]
        return (*pods, Watch(api, paths.NODES, NodeSink(self.nodes)), *profiles)

    async def synced(self) -> None:
        """Wait until all watches have listed what there is."""
        for watch in self.watches:
            await watch.synced.wait()

    async def close(self) -> None:
        """End every link to a coordinator."""
        await self._links.close()

    async def prime(self) -> None:
        """List our own kinds: at the start, and now and then to find what was missed."""
        if self._scope.pools:
            self.pools.replace(self._scope.pools)
        else:
            pools, _ = await self._list(paths.POOLS)
            self.pools.replace(pools)
        for namespace in self._scope.each:
            path = paths.within(namespace, names.TRAINING_JOBS, root=paths.OURS)
            jobs, version = await self._list(path)
            self.jobs.replace(jobs, namespace=namespace, version=version)
        self._children.keep(record.job.uid for record in self.jobs.records())

    async def observe(self, key: JobKey) -> Observed | None:
        """Return what there is of a job; None when it is gone."""
        return await self._observer.observe(key)

    async def act(self, observed: Observed, actions: Sequence[Action]) -> Outcome:
        """Carry out what was decided."""
        return await self._actor.act(observed, actions)

    async def write_status(self, observed: Observed, status: JobStatus) -> bool:
        """Write what changed; tell whether anything was."""
        return await self._status.write(observed, status)

    async def tell(self, observed: Observed, events: Sequence[Event]) -> None:
        """Write events on the job."""
        await self._teller.tell(observed.job, events, self._clock())

    def _pod_changed(self, key: JobKey) -> None:
        self.pool_status.changed()
        self._wake(key)

    def _pools_changed(self) -> None:
        self.pool_status.changed()
        for key in self.jobs.known():
            self._wake(key)

    def _profile_changed(self, changed: ProfileRecord) -> None:
        for record in self.jobs.records():
            if changed.may_mean(record.job):
                self._wake(record.job.key)

    def _node_changed(self, change: NodeChange) -> None:
        self.pool_status.changed()
        for key in self.pods.jobs_on(change.name):
            self._wake(key)
        if change.appeared:
            for key in self.pods.jobs_waiting():
                self._wake(key)

    async def _list(self, path: str) -> tuple[list[dict[str, Any]], int]:
        items: list[dict[str, Any]] = []
        params = {"limit": str(PAGE)}
        while True:
            page = msgspec.json.decode(await self._api.read(path, params), type=Page)
            items += [msgspec.json.decode(item) for item in page.items or ()]
            if not page.metadata.next_page:
                return items, parse_version(page.metadata.resource_version)
            params = {"limit": str(PAGE), "continue": page.metadata.next_page}
