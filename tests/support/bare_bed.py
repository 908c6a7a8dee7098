"""What a trial on bare nodes stands on: Ebbtide on a real API server, and a job of bare workers."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final, Protocol

from support.bare_trainers import Trainers
from support.bed import make_digits_job
from world.training import Training

if TYPE_CHECKING:
    from support.bare import Fleet
    from support.proxy import Proxy
    from world.api import Json
    from world.cloud.pool import Pool
    from world.installation import Installation
    from world.world import World

INIT: Final = {"name": "data", "image": "data", "command": ["fetch"]}


class BareBed:
    """A fleet, and the operator behind its proxy."""

    def __init__(
        self, world: World, *, installation: Installation, fleet: Fleet, proxy: Proxy
    ) -> None:
        self.world = world
        self.installation = installation
        self.fleet = fleet
        self.proxy = proxy
        self.stack = contextlib.AsyncExitStack()

    def train(self, **options: Any) -> Trainers:
        """Let what runs from now on count steps with its coordinator."""
        self.fleet.trainers = Trainers(self.world, folder=self.world.root, **options)
        return self.fleet.trainers

    async def submit(
        self, workers: int, *, minimum: int | None = None, init: bool = False, **spec: Any
    ) -> Training:
        """Apply a job of so many bare workers and follow it."""
        manifest = make_bare_job(workers, minimum=minimum, init=init, **spec)
        follower = Training(self.world, manifest, volume=self.world.root)
        return await self.stack.enter_async_context(follower)

    async def until_event(self, *words: str, within: float = 10.0) -> None:
        """Wait for an event whose message has all these words."""
        watch = self.world.api.watch(self.world.path("events"))
        try:
            async with asyncio.timeout(within), contextlib.aclosing(watch) as events:
                async for kind, found in events:
                    for event in found if kind == "SYNC" else [found]:
                        if all(word in str(event.get("message")) for word in words):
                            return
        except TimeoutError:
            raise TimeoutError(f"no event with {words} within {within} s") from None

    async def until_marked(self, workers: int) -> None:
        """Wait until so many pods bear the boot of their node: the operator is at rest then."""
        await self.fleet.until(
            lambda pods: sum(is_marked(pod) for pod in pods.values()) == workers, what="marked"
        )

    async def start(self, workers: int, **options: Any) -> Training:
        """Submit a job and wait until every worker's first pod runs."""
        job = await self.submit(workers, **options)
        await self.fleet.until_running(*(name_of(index) for index in range(workers)), within=20.0)
        return job


class OpenBareBed(Protocol):
    """Starts a bed; what the fixture of this name gives."""

    async def __call__(self, *pools: Pool, **settings: Any) -> BareBed:
        """Take pools other than the usual one, and what differs in the operator's settings."""


def name_of(index: int, attempt: int = 1, *, job: str = "digits") -> str:
    """Return the name of a worker's pod."""
    return f"{job}-worker-{index}-{attempt}"


def is_marked(pod: Json) -> bool:
    """Tell whether the operator has noted of which boot a pod's node was."""
    return "ebbtide.dev/boot-id" in (pod["metadata"].get("annotations") or {})


def make_bare_job(workers: int, *, minimum: int | None, init: bool, **spec: Any) -> Json:
    """Return the digits job without a claim: nothing of it is ever trained."""
    capacity = {"onDemandFloor": 0}
    low = workers if minimum is None else minimum
    job = make_digits_job(workers=(low, workers), **{"capacity": capacity, **spec})
    pod = job["spec"]["template"]["spec"]
    [volume] = pod["volumes"]
    pod["volumes"] = [{"name": volume["name"], "hostPath": {"path": "/nowhere"}}]
    if init:
        pod["initContainers"] = [dict(INIT)]
    return job


def count_verdicts(job: Training) -> tuple[int, int, int]:
    """Return how many revocations, restarts and failures were counted."""
    return (job.counter("revocations"), job.counter("restarts"), job.counter("failures"))


def count_ready(job: Training) -> int:
    """Return how many of the job's worker pods are ready, by its status."""
    workers = job.status.get("replicaStatuses", {}).get("worker", {})
    return int(workers.get("ready", 0))
