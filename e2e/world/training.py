"""
A TrainingJob in a world, followed from its first version to its last.

Every version of the object that the API server shows is kept, so that a test can ask not only how
the job ended but whether it ever said something wrong on the way.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any, Final, Self

from world.installation import apply

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path
    from types import TracebackType

    from world.api import Json
    from world.cloud.machine import Machine
    from world.installation import Operator
    from world.world import World

GROUP: Final = "apis/ebbtide.dev/v1alpha1"
JOB_LABEL: Final = "ebbtide.dev/job-name"
ROLE_LABEL: Final = "ebbtide.dev/replica-type"
INDEX_LABEL: Final = "ebbtide.dev/replica-index"
LOG_TAIL: Final = 3_000


class Training:
    """One job; an asynchronous context manager that follows it."""

    def __init__(
        self,
        world: World,
        manifest: Mapping[str, Any],
        *,
        volume: Path,
        operator: Operator | None = None,
    ) -> None:
        """
        Apply nothing yet.

        `volume` is the folder behind the job's checkpoints; `operator` helps to explain a failure.
        """
        self.operator = operator
        self.world = world
        self.manifest = dict(manifest)
        self.name: str = manifest["metadata"]["name"]
        self.path = f"{world.path('trainingjobs', GROUP)}/{self.name}"
        self.volume = volume
        self.history: list[Json] = []
        self.gone = False
        self._news = asyncio.Condition()
        self._following: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Apply the job and follow it."""
        await apply(self.world, self.path, self.manifest)
        self._following = asyncio.create_task(self._follow())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop following; the job stays."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    # ---------------------------------------------------------------- what it says

    @property
    def status(self) -> Json:
        """The newest status."""
        found: Json = self.history[-1].get("status", {}) if self.history else {}
        return found

    @property
    def step(self) -> int:
        """The newest step that the status tells."""
        return int(self.status.get("progress", {}).get("step", 0))

    def counter(self, name: str) -> int:
        """Return one of the counters."""
        return int(self.status.get("counters", {}).get(name, 0))

    def condition(self, kind: str) -> Json:
        """Return a condition; an empty one if it is not there."""
        return condition(self.status, kind)

    @property
    def result(self) -> Json:
        """What the training script wrote at its end."""
        found: Json = json.loads((self.volume / "result.json").read_text())
        return found

    async def pods(self, role: str = "worker") -> list[Json]:
        """Return the job's pods of one role, those that run first."""
        selector = f"{JOB_LABEL}={self.name},{ROLE_LABEL}={role}"
        found = await self.world.api.request("GET", self.world.path("pods"), labelSelector=selector)
        pods: list[Json] = found["items"]
        return sorted(pods, key=lambda pod: pod["status"].get("phase") != "Running")

    async def machines(self, *, market: str = "Spot", only: Collection[str] = ()) -> list[Machine]:
        """
        Return the machines of one market that carry running workers, lowest index first.

        `only` names the pods that count; none: all.
        """
        pods = [
            pod
            for pod in await self.pods()
            if pod["status"].get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
            and (not only or pod["metadata"]["name"] in only)
        ]
        pods.sort(key=lambda pod: int(pod["metadata"]["labels"][INDEX_LABEL]))
        machines = [self.world.node(pod["spec"]["nodeName"]) for pod in pods]
        # A pod whose machine is off goes on as Running until somebody notices.
        return [m for m in machines if str(m.pool.market) == market and str(m.state) == "running"]

    # ---------------------------------------------------------------- waiting and changing

    async def until(
        self, holds: Callable[[Training], object], *, what: str, timeout: float = 90.0
    ) -> None:
        """Wait until something holds for the job as it was last seen."""
        try:
            async with asyncio.timeout(timeout), self._news:
                await self._news.wait_for(lambda: holds(self))
        except TimeoutError:
            message = f"{self.name}: not {what} within {timeout} s\n{await self.describe()}"
            raise TimeoutError(message) from None

    async def until_step(self, step: int, *, timeout: float = 90.0) -> None:
        """Wait until so many steps are done."""
        await self.until(lambda job: job.step >= step, what=f"at step {step}", timeout=timeout)

    async def until_state(self, state: str, *, timeout: float = 90.0) -> None:
        """Wait for a state."""
        await self.until(lambda job: job.status.get("state") == state, what=state, timeout=timeout)

    async def until_true(self, kind: str, *, timeout: float = 90.0) -> None:
        """Wait for a condition to be True."""
        await self.until(
            lambda job: job.condition(kind).get("status") == "True", what=kind, timeout=timeout
        )

    async def until_over(self, *, timeout: float = 150.0) -> None:
        """Wait for the end; raise when it is not Complete."""
        ends = ("Complete", "Failed")
        await self.until(lambda job: job.status.get("state") in ends, what="over", timeout=timeout)
        if self.status["state"] != "Complete":
            message = f"{self.name} failed\n{await self.describe()}"
            raise AssertionError(message)

    async def change(self, **spec: Any) -> None:
        """Change fields of the spec, as `kubectl patch` does."""
        merge = "application/merge-patch+json"
        await self.world.api.request("PATCH", self.path, {"spec": spec}, content_type=merge)

    async def delete(self) -> None:
        """Delete the job."""
        await self.world.api.request("DELETE", self.path)

    # ---------------------------------------------------------------- for whoever reads a failure

    async def describe(self) -> str:
        """Tell everything that explains what went wrong."""
        lines = [f"{self.name}: {json.dumps(self.status, default=str)[:LOG_TAIL]}"]
        lines += await self.events()
        for role in ("coordinator", "server", "worker"):
            for pod in await self.pods(role):
                name = pod["metadata"]["name"]
                lines.append(f"--- {name}: {json.dumps(_short(pod))}")
                lines.append((await self.log(name))[-LOG_TAIL:])
        if self.operator is not None:
            lines += ["--- operator", self.operator.tail()]
        lines.append("--- journal")
        lines += [str(entry) for entry in self.world.cloud.journal.entries[-30:]]
        return "\n".join(lines)

    async def log(self, pod: str) -> str:
        """Return a pod's log, or why it cannot be had."""
        path = f"{self.world.path('pods')}/{pod}/log"
        try:
            return await self.world.api.text("GET", path)
        except Exception as error:  # noqa: BLE001 -- only explains another failure
            return f"no log: {error}"

    async def events(self) -> list[str]:
        """Return the events on the job, oldest first."""
        found = await self.world.api.request("GET", self.world.path("events"))
        items = [e for e in found["items"] if e["involvedObject"].get("name") == self.name]
        items.sort(key=lambda e: e.get("lastTimestamp") or e.get("eventTime") or "")
        return [f"{e.get('type')} {e.get('reason')}: {e.get('message')}" for e in items]

    # ---------------------------------------------------------------- inside

    async def _follow(self) -> None:
        collection, _, name = self.path.rpartition("/")
        events = self.world.api.watch(collection, fieldSelector=f"metadata.name={name}")
        async with contextlib.aclosing(events):
            async for kind, found in events:
                versions = found if kind == "SYNC" else [found]
                async with self._news:
                    self.gone = kind == "DELETED"
                    self.history += [] if self.gone else versions
                    self._news.notify_all()


def condition(status: Json, kind: str) -> Json:
    """Return a condition of a status; an empty one if it is not there."""
    found = (c for c in status.get("conditions") or [] if c["type"] == kind)
    return next(found, {})


async def provide_claim(world: World, name: str) -> Path:
    """Make a volume on this machine and a claim that is bound to it; return its folder."""
    folder = world.root / "volumes" / f"{world.namespace}-{name}"
    folder.mkdir(parents=True)
    size = {"storage": "1Gi"}
    volume = f"{world.namespace}-{name}"
    spec = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    await apply(
        world,
        f"/api/v1/persistentvolumes/{volume}",
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {
                **spec,
                "capacity": size,
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": str(folder)},
                "claimRef": {"namespace": world.namespace, "name": name},
            },
        },
    )
    await apply(
        world,
        f"{world.path('persistentvolumeclaims')}/{name}",
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name},
            "spec": {**spec, "volumeName": volume, "resources": {"requests": size}},
        },
    )
    return folder


def _short(pod: Json) -> Json:
    status = pod["status"]
    kept = ("phase", "reason", "message", "containerStatuses")
    return {"node": pod["spec"].get("nodeName"), **{k: status[k] for k in kept if k in status}}
