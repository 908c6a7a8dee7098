"""
Nodes and kubelets without processes: objects that a test writes, and what a kubelet would answer.

A bare node is a Node whose Lease is renewed; a bare kubelet says of a bound pod what its node's
`behaviour` says, and confirms deletions. Whatever can happen to a node or a pod is one patch, so a
trial of the operator's judgement costs seconds and no training.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Self

from support.bare_status import Behaviour, condition, running
from world.api import MERGE, STRATEGIC, ApiError
from world.cloud.pool import GPU_RESOURCE
from world.installation import POOLS, apply
from world.kubelet import clock, registration
from world.kubelet.shape import NodeShape
from world.training import ROLE_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from support.bare_trainers import Trainers
    from world.api import Json
    from world.cloud.pool import Pool
    from world.world import World

BEAT_SECONDS: Final = 1.0
NUMBERS: Final = itertools.count(1)  # node names are the cluster's: never the same one again


@dataclass(slots=True, kw_only=True)
class BareNode:
    """One node of a fleet."""

    name: str
    pool: Pool
    behaviour: Behaviour = running
    """What becomes of a pod that is bound here."""
    beats: bool = True
    """Whether its kubelet lives: renews the Lease, starts pods and confirms deletions."""
    holds: set[str] = field(default_factory=set)
    """Pods whose deletion is not confirmed yet, as while they use up their grace."""


class Fleet:
    """Bare nodes of a few pools in a world, and their pods; an asynchronous context manager."""

    def __init__(self, world: World, *pools: Pool) -> None:
        """Make nothing yet."""
        self.world = world
        self.pools = {pool.name: pool for pool in pools}
        self.nodes: dict[str, BareNode] = {}
        self.pods: dict[str, Json] = {}
        """The workers' pods as they are now, by name."""
        self.made: dict[str, float] = {}
        """When each worker's pod was first seen, by name, in the event loop's time."""
        self.trainers: Trainers | None = None
        """Processes for the pods, where a job is to have members."""
        self.most_dead = 0
        """The largest number of failed pods that there ever were at a time."""
        self._news = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Describe the pools to the cluster; begin to beat and to follow the pods."""
        for pool in self.pools.values():
            await apply(self.world, f"{POOLS}/{pool.name}", pool.manifest())
        self._tasks = [asyncio.create_task(self._beat()), asyncio.create_task(self._follow())]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take everything away; what went wrong in the background is raised."""
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.trainers is not None:
            await self.trainers.close()
        for name in list(self.nodes):
            await self.delete(name)
        for pool in self.pools:
            with contextlib.suppress(ApiError):
                await self.world.api.request("DELETE", f"{POOLS}/{pool}")
        for result in results:
            if isinstance(result, Exception) and error is None:
                raise result

    # ---------------------------------------------------------------- nodes

    async def add(self, pool: str, number: int = 1) -> list[BareNode]:
        """Boot nodes of a pool."""
        return [await self._boot(self.pools[pool]) for _ in range(number)]

    async def delete(self, name: str) -> None:
        """Take a node away without a word: its object is gone, its pods still say Running."""
        self.nodes.pop(name, None)
        self._power_off(name)
        with contextlib.suppress(ApiError):
            await self.world.api.request("DELETE", f"{registration.NODES}/{name}")

    async def mark(self, name: str, *taints: Mapping[str, str], cordon: bool | None = None) -> None:
        """Set what taints a node has beside those of its pool, and whether it is cordoned."""
        lasting = self.nodes[name].pool.taints()
        spec: Json = {"taints": [*lasting, *taints]}
        if cordon is not None:
            spec["unschedulable"] = cordon
        await self.world.api.request(
            "PATCH", f"{registration.NODES}/{name}", {"spec": spec}, content_type=MERGE
        )

    async def silence(self, name: str) -> None:
        """Stop a machine and leave its Node: the Lease ends, and Ready becomes Unknown."""
        self.nodes[name].beats = False
        self._power_off(name)
        unknown = condition("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting")
        await self._write(name, {"conditions": [unknown]})

    async def reboot(self, name: str) -> None:
        """Let a machine come back under its name from another boot."""
        ready = condition("Ready", "True", "KubeletReady", "kubelet is posting ready status")
        self.nodes[name].beats = True
        await self._renew(name)
        info = {"nodeInfo": {"bootID": str(uuid.uuid4())}}
        await self._write(name, {"conditions": [ready], **info})

    def node_of(self, pod: str) -> BareNode:
        """Return the node that carries a pod."""
        return self.nodes[self.pods[pod]["spec"]["nodeName"]]

    # ---------------------------------------------------------------- pods

    async def set_pod(self, name: str, status: Json) -> None:
        """Write a pod's status, as its kubelet does."""
        path = f"{self.world.path('pods')}/{name}/status"
        await self.world.api.request("PATCH", path, {"status": status}, content_type=STRATEGIC)

    async def delete_pod(self, name: str) -> None:
        """Delete a pod, as a user does."""
        await self.world.api.request("DELETE", f"{self.world.path('pods')}/{name}")

    async def until(
        self, holds: Callable[[Mapping[str, Json]], object], *, what: str, within: float = 10.0
    ) -> None:
        """Wait until something holds for the workers' pods."""
        try:
            async with asyncio.timeout(within), self._news:
                await self._news.wait_for(lambda: holds(self.pods))
        except TimeoutError:
            shown = "\n".join(f"{name}: {_short(pod)}" for name, pod in self.pods.items())
            operator = (self.world.root / "operator.log").read_text(errors="replace")[-3000:]
            message = f"not {what} within {within} s; made: {list(self.made)}\n{shown}\n{operator}"
            raise TimeoutError(message) from None

    async def until_running(self, *names: str, within: float = 10.0) -> None:
        """Wait until pods of these names run."""
        await self.until(
            lambda pods: all(is_running(pods.get(name)) for name in names),
            what=f"running: {', '.join(names)}",
            within=within,
        )

    # ---------------------------------------------------------------- inside

    async def _boot(self, pool: Pool) -> BareNode:
        number = next(NUMBERS)
        shape = NodeShape(
            name=f"bare-{pool.name}-{number}",
            ip=f"10.77.250.{number % 250 + 1}",  # nobody calls it
            labels=pool.labels(),
            taints=pool.taints(),
            capacity={GPU_RESOURCE: str(pool.gpus_per_node)},
        )
        body = registration.node_object(shape)
        body["spec"]["taints"] = list(shape.taints)  # there is no boot to wait for
        made = await self.world.api.request("POST", registration.NODES, body)
        now = clock.to_micros(datetime.now(tz=UTC))
        lease = registration.lease_object(shape.name, owner_uid=made["metadata"]["uid"], now=now)
        await self.world.api.request("POST", registration.LEASES, lease)
        conditions = registration.node_conditions(shutting_down=False, since={}, now=_now())
        status = registration.boot_status(
            shape, boot_id=str(uuid.uuid4()), port=10250, conditions=conditions
        )
        await self._write(shape.name, status)
        self.nodes[shape.name] = BareNode(name=shape.name, pool=pool)
        return self.nodes[shape.name]

    async def _write(self, node: str, status: Json) -> None:
        path = f"{registration.NODES}/{node}/status"
        await self.world.api.request("PATCH", path, {"status": status}, content_type=STRATEGIC)

    async def _beat(self) -> None:
        while True:
            for node in list(self.nodes.values()):
                if node.beats:
                    with contextlib.suppress(ApiError):  # deleted in this very moment
                        await self._renew(node.name)
            await asyncio.sleep(BEAT_SECONDS)

    async def _renew(self, node: str) -> None:
        renewal = {"spec": {"renewTime": clock.to_micros(datetime.now(tz=UTC))}}
        path = f"{registration.LEASES}/{node}"
        await self.world.api.request("PATCH", path, renewal, content_type=MERGE)

    async def _follow(self) -> None:
        selector = f"{ROLE_LABEL}=worker"
        events = self.world.api.watch(self.world.path("pods"), labelSelector=selector)
        async with contextlib.aclosing(events), asyncio.TaskGroup() as answers:
            async for kind, found in events:
                async with self._news:
                    self._take(kind, found)
                    self._news.notify_all()
                for pod in found if kind == "SYNC" else [found]:
                    if kind != "DELETED":
                        answers.create_task(self._answer(pod))

    def _take(self, kind: str, found: Any) -> None:
        if kind == "SYNC":
            self.pods = {pod["metadata"]["name"]: pod for pod in found}
        elif kind == "DELETED":
            self.pods.pop(found["metadata"]["name"], None)
        else:
            self.pods[found["metadata"]["name"]] = found
        for name in self.pods:
            self.made.setdefault(name, asyncio.get_running_loop().time())
        dead = [pod for pod in self.pods.values() if pod["status"].get("phase") == "Failed"]
        self.most_dead = max(self.most_dead, len(dead))

    async def _answer(self, pod: Json) -> None:
        """Do what a kubelet does about a pod."""
        name, node = pod["metadata"]["name"], self.nodes.get(pod["spec"].get("nodeName", ""))
        if node is None or not node.beats:
            return
        with contextlib.suppress(ApiError):  # gone, or changed, in this very moment
            if "deletionTimestamp" in pod["metadata"] and name not in node.holds:
                await self._stop(name)
                await self._confirm(pod)
            elif pod["status"].get("phase") == "Pending" and "startTime" not in pod["status"]:
                await self._start(pod, node)
            elif pod["spec"].get("activeDeadlineSeconds") and is_running(pod):
                await self._stop(name)
                await self.set_pod(name, {"phase": "Failed", "reason": "DeadlineExceeded"})

    async def _start(self, pod: Json, node: BareNode) -> None:
        name, status = pod["metadata"]["name"], node.behaviour(pod)
        await self.set_pod(name, {"startTime": _now(), **status})
        if self.trainers is None or status["phase"] != "Running":
            return
        await self.trainers.start(pod)
        end = await self.trainers.end(pod)
        if end is not None and name in self.pods and node.name in self.nodes and node.beats:
            await self.set_pod(name, end)

    async def _stop(self, name: str) -> None:
        if self.trainers is not None:
            await self.trainers.stop(name)

    def _power_off(self, node: str) -> None:
        for name, pod in self.pods.items():
            if self.trainers is not None and pod["spec"].get("nodeName") == node:
                self.trainers.kill(name)

    async def release(self, name: str) -> None:
        """Confirm a deletion that was held."""
        self.node_of(name).holds.discard(name)
        await self._answer(self.pods[name])

    async def _confirm(self, pod: Json) -> None:
        path = f"{self.world.path('pods')}/{pod['metadata']['name']}"
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": pod["metadata"]["uid"]},
        }
        await self.world.api.request("DELETE", path, body)


def is_running(pod: Json | None) -> bool:
    """Tell whether a pod runs and nobody wants it to go."""
    if pod is None or "deletionTimestamp" in pod["metadata"]:
        return False
    return bool(pod["status"].get("phase") == "Running")


def _now() -> str:
    return clock.to_seconds(datetime.now(tz=UTC))


def _short(pod: Json) -> Json:
    kept = ("phase", "reason", "message", "conditions")
    shown = {key: pod["status"].get(key) for key in kept}
    deleted = pod["metadata"].get("deletionTimestamp")
    return {"node": pod["spec"].get("nodeName"), "deleted": deleted, **shown}
