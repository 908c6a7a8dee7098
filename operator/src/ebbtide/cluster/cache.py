"""
What we know of the cluster's pods and nodes, from watches and from the answers to our writes.

An object is replaced by a newer version of itself only (resourceVersions of one kind can be
compared), so the answer to our own write counts at once and a watch that lags behind cannot undo
it. A pod that our delete took away at once stays away although the watch has not said so yet.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ebbtide.cluster.reading import CachedNode, CachedPod
from ebbtide.core.values.job import JobKey
from ebbtide.core.values.observed import Node, Pod

Wake = Callable[[JobKey], None]
PodKey = tuple[str, str]  # namespace, name
_NOTHING: Final[Mapping[str, CachedPod]] = MappingProxyType({})
_REMEMBERED_DELETES: Final = 20_000
_REMEMBERED_ENDS: Final = 5_000


class PodCache:
    """Pods with our label, by job and by node, and how many GPUs they take where."""

    def __init__(self, wake: Wake) -> None:
        self._wake = wake
        self._pods: dict[PodKey, CachedPod] = {}
        self._by_job: defaultdict[JobKey, dict[str, CachedPod]] = defaultdict(dict)
        self._by_node: defaultdict[str, Counter[JobKey]] = defaultdict(Counter)
        self._deleted: dict[str, float] = {}  # by UID, oldest first: up to which version
        self._departed: dict[str, CachedPod] = {}  # by UID, oldest first
        self.pool_gpus: Counter[str] = Counter()
        self.node_gpus: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._pods)

    def of_job(self, job: JobKey) -> Mapping[str, CachedPod]:
        """The pods with this job's name, by their own; a former job's among them."""
        return self._by_job.get(job, _NOTHING)

    def by_pool(self) -> Mapping[str, list[Pod]]:
        """The pods of all jobs of ours by the pool that they were sent to."""
        found: defaultdict[str, list[Pod]] = defaultdict(list)
        for one in self._pods.values():
            if one.job_uid:  # labels alone can be written by anybody: they tell nothing of a pool
                found[one.pod.pool].append(one.pod)
        return found

    def departed(self, job: JobKey) -> tuple[CachedPod, ...]:
        """
        The last that was seen of a job's pods whose objects are gone.

        An evicted pod may be gone within milliseconds of its end, and with it why it ended. What
        nobody remembers (after a restart, say) has vanished.
        """
        return tuple(one for one in self._departed.values() if one.job == job)

    def forget_departed(self, uids: Iterable[str]) -> None:
        """Let go of ends that are counted."""
        for uid in uids:
            self._departed.pop(uid, None)

    def jobs_on(self, node: str) -> tuple[JobKey, ...]:
        """The jobs with pods on a node."""
        return tuple(self._by_node.get(node, ()))

    def jobs_waiting(self) -> tuple[JobKey, ...]:
        """The jobs with pods that no node has yet."""
        return self.jobs_on("")

    def put(self, found: CachedPod) -> None:
        """Take a version of a pod, unless a newer one or its end is known."""
        key = (found.job.namespace, found.pod.name)
        old = self._pods.get(key)
        ended = self._deleted.get(found.pod.uid, -1)
        if found.version <= ended or (old is not None and old.version >= found.version):
            return
        if old is not None:
            self._unlink(key, old)
        self._link(key, found)
        if old is None or old.pod != found.pod:
            self._wake(found.job)

    def drop(
        self,
        namespace: str,
        name: str,
        uid: str,
        *,
        version: float = math.inf,
        last: CachedPod | None = None,
    ) -> None:
        """
        Take the end of a pod, from the watch (with its last state) or from the answer to a delete.

        What comes later of it, up to `version`, is old news. A pod that lost our label looks ended
        to the watch and may come back with a newer version.
        """
        self._deleted[uid] = version
        while len(self._deleted) > _REMEMBERED_DELETES:
            del self._deleted[next(iter(self._deleted))]
        old = self._pods.get((namespace, name))
        if last is not None or (old is not None and old.pod.uid == uid):
            self._remember(uid, last or old)
        if old is not None and old.pod.uid == uid:
            self._unlink((namespace, name), old)
            self._wake(old.job)

    def replace(self, found: Iterable[CachedPod], *, namespace: str, version: int) -> None:
        """Take a whole list, of one namespace or ("") of all, as it was at `version`."""
        listed = {(one.job.namespace, one.pod.name): one for one in found}
        for key, old in list(self._pods.items()):
            inside = not namespace or key[0] == namespace
            if inside and key not in listed and old.version <= version:
                self._unlink(key, old)
                self._wake(old.job)
        for one in listed.values():
            self.put(one)

    def _remember(self, uid: str, last: CachedPod | None) -> None:
        if last is None:
            return
        self._departed[uid] = last
        while len(self._departed) > _REMEMBERED_ENDS:
            del self._departed[next(iter(self._departed))]

    def _link(self, key: PodKey, found: CachedPod) -> None:
        self._pods[key] = found
        self._by_job[found.job][found.pod.name] = found
        self._by_node[found.pod.node][found.job] += 1
        self._count(found, 1)

    def _unlink(self, key: PodKey, old: CachedPod) -> None:
        del self._pods[key]
        pods = self._by_job[old.job]
        del pods[old.pod.name]
        if not pods:
            del self._by_job[old.job]
        jobs = self._by_node[old.pod.node]
        jobs[old.job] -= 1
        if not jobs[old.job]:
            del jobs[old.job]
        if not jobs:
            del self._by_node[old.pod.node]
        self._count(old, -1)

    def _count(self, found: CachedPod, sign: int) -> None:
        pod = found.pod
        if pod.ended or not pod.gpus or not found.job_uid:
            return  # labels alone can be written by anybody: they must not fill a pool
        for counter, where in ((self.pool_gpus, pod.pool), (self.node_gpus, pod.node)):
            counter[where] += sign * pod.gpus
            if not counter[where]:
                del counter[where]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChange:
    """What a node's news may mean to jobs."""

    name: str
    appeared: bool  # new, or able to take pods again


class NodeCache:
    """All nodes."""

    def __init__(self, changed: Callable[[NodeChange], None]) -> None:
        self._changed = changed
        self._nodes: dict[str, CachedNode] = {}
        self._view: Mapping[str, Node] | None = None
        self.readable = True  # False: we have no right to read nodes

    def view(self) -> Mapping[str, Node]:
        """All nodes as they are now; what was handed out before does not change."""
        if self._view is None:
            self._view = MappingProxyType({name: one.node for name, one in self._nodes.items()})
        return self._view

    def count(self, selector: Mapping[str, str]) -> tuple[int, int]:
        """How many nodes with these labels are ready, and how many there are."""
        wanted = selector.items()
        ready = [one.node.ready for one in self._nodes.values() if wanted <= one.labels.items()]
        return sum(ready), len(ready)

    def put(self, found: CachedNode) -> None:
        """Take a version of a node, unless a newer one is known."""
        name = found.node.name
        old = self._nodes.get(name)
        if old is not None and old.node.uid == found.node.uid and old.version >= found.version:
            return
        self._nodes[name] = found
        if old is not None and old.node == found.node and old.labels == found.labels:
            return
        self._view = None
        usable = found.node.ready and not found.node.unschedulable
        was_usable = old is not None and old.node.ready and not old.node.unschedulable
        self._changed(NodeChange(name=name, appeared=usable and not was_usable))

    def drop(self, name: str, uid: str) -> None:
        """Take the end of a node."""
        old = self._nodes.get(name)
        if old is not None and old.node.uid == uid:
            del self._nodes[name]
            self._view = None
            self._changed(NodeChange(name=name, appeared=False))

    def replace(self, found: Iterable[CachedNode]) -> None:
        """Take a whole list."""
        listed = {one.node.name: one for one in found}
        for name in [name for name in self._nodes if name not in listed]:
            self.drop(name, self._nodes[name].node.uid)
        for one in listed.values():
            self.put(one)
