"""A node: registers, keeps its Lease, runs its pods, and has the faults that nodes have."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import aiohttp

from world.api import MERGE, STRATEGIC, ApiError
from world.kubelet import clock as clocks
from world.kubelet import registration, status
from world.kubelet.addresses import Addresses, LoopbackAddresses, Ring
from world.kubelet.images import Images, ImageStore
from world.kubelet.link import Link
from world.kubelet.logs import LogServer
from world.kubelet.pod import NodeSide, PodWorker

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from world.api import Api
    from world.kubelet.clock import Clock
    from world.kubelet.container import Container
    from world.kubelet.hosts import HostsFile
    from world.kubelet.shape import NodeShape

Json: TypeAlias = dict[str, Any]

NOT_FOUND: Final = 404
CONFLICT: Final = 409
STATUS_EVERY: Final = 10
"""Heartbeats between two writes of the node's conditions."""
SLACK_SECONDS: Final = 5.0
"""How much longer than its grace a group of pods may hold up a shutdown."""
RETRY_SECONDS: Final = 0.2
API_TROUBLE: Final = (ApiError, aiohttp.ClientError, TimeoutError)


class Kubelet:
    """One boot of one node. A machine that comes back under the same name is a new object."""

    def __init__(
        self,
        *,
        api: Api,
        shape: NodeShape,
        root: Path,
        serving: tuple[str, str],
        images: Images | None = None,
        hosts: HostsFile | None = None,
        addresses: Addresses | None = None,
        clock: Clock = clocks.utc_now,
    ) -> None:
        """Do nothing yet; `root` is a folder for all nodes, `serving` certificate and key files."""
        self.shape = shape
        self.boot_id = str(uuid.uuid4())
        self.ready = asyncio.Event()
        """Set when the node has said for the first time that it is ready."""
        self.faults: list[BaseException] = []
        """Errors that nobody expected. A test looks here and fails on them."""
        self._capacity = shape.all_capacity()
        self._clock = clock
        self._link = Link(api)
        self._addresses = addresses or LoopbackAddresses()
        self._logs = LogServer(self, serving=serving)
        self._path = f"{registration.NODES}/{shape.name}"
        self._workers: dict[str, PodWorker] = {}
        self._since: dict[str, tuple[str, str]] = {}
        self._uid = ""
        self._shutting_down = False
        self._off = asyncio.Event()
        self._following: asyncio.Task[None] | None = None
        self._node_side = NodeSide(
            ip=shape.ip,
            root=root / shape.name / self.boot_id,
            capacity=self._capacity,
            link=self._link,
            ring=Ring(shape.ip),
            addresses=self._addresses,
            hosts=hosts,
            store=ImageStore(images or Images()),
            clock=clock,
            rejects=lambda: self._shutting_down,
            fault=self.faults.append,
        )

    async def run(self) -> None:
        """
        Be a node until cancelled or powered off; afterwards no process of it is left.

        The node's own address belongs to whoever made the node; the pods' come and go with them.
        """
        off = asyncio.create_task(self._off.wait())
        living = asyncio.create_task(self._live())
        try:
            await asyncio.wait({off, living}, return_when=asyncio.FIRST_COMPLETED)
            if living.done():
                living.result()
        finally:
            self.power_off()
            for task in (off, living):
                task.cancel()
            await asyncio.gather(off, living, return_exceptions=True)
            for worker in self._workers.values():
                await worker.closed()
            await self._logs.stop()

    async def _live(self) -> None:
        port = await self._logs.start(self.shape.ip)
        await self._register(port)
        self.ready.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._beat())
            group.create_task(self._follow())

    # ------------------------------------------------------------------ faults

    async def shutdown(self, *, grace: float, critical_grace: float) -> None:
        """
        Do what a kubelet does after the machine's signal that it will go.

        Ordinary pods end first, then those of critical priority. The caller powers off.
        """
        self._shutting_down = True
        with contextlib.suppress(*API_TROUBLE):
            await self._write_conditions()
        workers = list(self._workers.values())
        for critical, limit in ((False, grace), (True, critical_grace)):
            group = [worker for worker in workers if worker.is_critical == critical]
            if group:
                ending = [asyncio.create_task(worker.shut_down(limit)) for worker in group]
                _, late = await asyncio.wait(ending, timeout=limit + SLACK_SECONDS)
                for task in late:
                    task.cancel()

    def power_off(self) -> None:
        """Fall silent and lose every process at once."""
        self.partition()
        for worker in self._workers.values():
            worker.kill()
        self._off.set()

    def crash_pod(self, uid: str) -> None:
        """Kill a pod's processes without a word; the node lives on and tells what it sees."""
        self._workers[uid].crash()

    def partition(self) -> None:
        """Lose the control plane; the processes of the pods live on."""
        self._link.online.clear()
        if self._following is not None:
            self._following.cancel()

    async def heal(self) -> None:
        """End a partition; pods that were deleted meanwhile are killed when the list arrives."""
        if self._off.is_set():
            return
        self._link.online.set()
        with contextlib.suppress(*API_TROUBLE):
            await self._write_conditions()

    async def set_capacity(self, resources: Mapping[str, str]) -> None:
        """Change what the node offers, as a device plugin does when it arrives."""
        self._capacity.update(resources)
        body = {"capacity": self._capacity, "allocatable": self._capacity}
        await self._write_status(body)

    # -------------------------------------------------------------------- node

    async def _register(self, port: int) -> None:
        try:
            node = await self._link.request(
                "POST", registration.NODES, registration.node_object(self.shape)
            )
        except ApiError as error:
            if error.status != CONFLICT:
                raise
            labels = {"metadata": {"labels": self.shape.all_labels()}}  # the name came back
            node = await self._link.request("PATCH", self._path, labels, content_type=MERGE)
        self._uid = node["metadata"]["uid"]
        for condition in node.get("status", {}).get("conditions") or []:
            self._since[condition["type"]] = (condition["status"], condition["lastTransitionTime"])
        await self._create_lease()
        first = registration.boot_status(
            self.shape, boot_id=self.boot_id, port=port, conditions=self._conditions()
        )
        await self._write_status({**first, "capacity": self._capacity})

    async def _create_lease(self) -> None:
        """Create the Lease, when a new cluster has made its namespace."""
        while True:
            now = clocks.to_micros(self._clock())
            lease = registration.lease_object(self.shape.name, owner_uid=self._uid, now=now)
            try:
                await self._link.request("POST", registration.LEASES, lease)
            except ApiError as error:
                if error.status == CONFLICT:
                    return
                if error.status != NOT_FOUND:
                    raise
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return

    async def _beat(self) -> None:
        beats = 0
        while True:
            await asyncio.sleep(self.shape.heartbeat_seconds)
            beats += 1
            try:
                await self._renew()
                if beats % STATUS_EVERY == 0:
                    await self._write_conditions()
            except ApiError as error:
                # 404: the Node was deleted under a machine that still runs.
                if error.status != NOT_FOUND and not error.is_passing:
                    self.faults.append(error)
            except (aiohttp.ClientError, TimeoutError):
                continue  # the API server is away; the next beat comes soon

    async def _renew(self) -> None:
        path = f"{registration.LEASES}/{self.shape.name}"
        renewal = {"spec": {"renewTime": clocks.to_micros(self._clock())}}
        try:
            await self._link.request("PATCH", path, renewal, content_type=MERGE)
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            await self._create_lease()  # it went with a former Node of this name

    def _conditions(self) -> list[Json]:
        now = clocks.to_seconds(self._clock())
        found = registration.node_conditions(
            shutting_down=self._shutting_down, since=self._since, now=now
        )
        self._since = {c["type"]: (c["status"], c["lastTransitionTime"]) for c in found}
        return found

    async def _write_conditions(self) -> None:
        if self._link.online.is_set():
            await self._write_status({"conditions": self._conditions()})

    async def _write_status(self, body: Json) -> None:
        path = f"{self._path}/status"
        await self._link.request("PATCH", path, {"status": body}, content_type=STRATEGIC)

    # -------------------------------------------------------------------- pods

    async def _follow(self) -> None:
        """Follow the node's pods; after a partition start again with the whole list."""
        while True:
            await self._link.online.wait()
            self._following = asyncio.create_task(self._follow_pods())
            try:
                await asyncio.wait({self._following})
                if not self._following.cancelled():
                    self._following.result()
            finally:
                self._following.cancel()

    async def _follow_pods(self) -> None:
        selector = f"spec.nodeName={self.shape.name}"
        events = self._link.watch("/api/v1/pods", fieldSelector=selector)
        async with contextlib.aclosing(events):
            async for kind, found in events:
                if kind == "SYNC":
                    self._compare(found)
                elif kind == "DELETED":
                    self._forget(found["metadata"]["uid"])
                else:
                    self._notice(found)

    def _compare(self, pods: list[Json]) -> None:
        present = {pod["metadata"]["uid"] for pod in pods}
        for uid in self._workers.keys() - present:
            self._forget(uid)
        for pod in pods:
            self._notice(pod)
        for worker in self._workers.values():
            worker.refresh()

    def _notice(self, pod: Json) -> None:
        uid = pod["metadata"]["uid"]
        if uid in self._workers:
            self._workers[uid].update(pod)
        elif "deletionTimestamp" in pod["metadata"] or not _is_finished(pod):
            self._workers[uid] = PodWorker(pod, self._node_side)
            self._workers[uid].start()

    def _forget(self, uid: str) -> None:
        worker = self._workers.pop(uid, None)
        if worker is not None:
            worker.forget()

    # -------------------------------------------------------------------- logs

    def find(self, namespace: str, pod: str, container: str) -> ContainerLog | None:
        """Return the log of a container of this node."""
        for worker in reversed(self._workers.values()):
            found = worker.container(container) if worker.key == (namespace, pod) else None
            if found is not None:
                return ContainerLog(found)
        return None


class ContainerLog:
    """The log of a container, for the log server."""

    def __init__(self, container: Container) -> None:
        """Look at a container."""
        self._container = container

    def path(self, *, previous: bool) -> Path | None:
        """Return the log of the last run or of the one before."""
        found = self._container.log(self._container.record.restart_count - previous)
        return found if found.exists() else None

    def ended(self) -> bool:
        """Tell whether the container runs no more."""
        return not self._container.record.running


def _is_finished(pod: Json) -> bool:
    return pod.get("status", {}).get("phase") in status.TERMINAL
