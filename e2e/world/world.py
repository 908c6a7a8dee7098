"""The world: a control plane, a network, a cloud and its nodes as one thing to try jobs on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from world.api import Api, ApiError, Json
from world.cloud.machine import Machine, State
from world.cloud.pace import Pace
from world.cloud.pool import Pool, make_system_pool
from world.cloud.provider import Cloud, Deployment
from world.cloud.scenarios import make_record, play
from world.kubelet import HostsFile, Images, Kubelet, NodeShape

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from types import TracebackType

    from world.cloud.record import Record
    from world.session import Session

NOT_FOUND: Final = 404
CONFLICT: Final = 409
LONGEST_OBJECT: Final = 4_000
Found = Json | None


class World:
    """
    Nodes and a cloud on a session; an asynchronous context manager.

    `factor` scales every delay of the cloud: 0.1 is ten times as fast as life.
    """

    def __init__(
        self,
        session: Session,
        *,
        pools: Iterable[Pool],
        factor: float = 1.0,
        seed: int = 0,
        namespace: str = "default",
        images: Images | None = None,
        system: Pool | None = None,
    ) -> None:
        """Describe a world; nothing runs yet. `system` replaces the usual system pool."""
        self.session = session
        self.namespace = namespace
        self.images = images or Images()
        self.kubeconfig = session.kubeconfig
        self.api = Api(session.kubeconfig)
        self._kubelets: list[Kubelet] = []
        self._stack = contextlib.AsyncExitStack()
        known = [system or make_system_pool(), *pools]
        deployment = Deployment(
            api=self.api,
            network=session.network,
            build_kubelet=self._build_kubelet,
            slow_images=self._make_slow_images,
            tag=session.make_tag(),
        )
        self.cloud = Cloud(
            deployment=deployment,
            pools={pool.name: pool for pool in known},
            pace=Pace(factor),
            seed=seed,
        )

    async def __aenter__(self) -> Self:
        """Start the cloud with its system node; the namespace is there and has its account."""
        async with contextlib.AsyncExitStack() as stack:
            self.root = Path(stack.enter_context(_temporary_folder()))
            await stack.enter_async_context(self.api)
            await self._make_namespace()
            self._hosts = HostsFile(self.root / "hosts")
            names = asyncio.create_task(self._hosts.run(self.api))
            stack.push_async_callback(_end, names)
            self._names = names
            await stack.enter_async_context(self.cloud)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the nodes, the cloud and everything that they left."""
        await self._stack.aclose()

    @property
    def faults(self) -> list[BaseException]:
        """Errors that nobody expected, of nodes and of the cloud; a good run has none."""
        faults = [*self.cloud.faults]
        faults += [fault for kubelet in self._kubelets for fault in kubelet.faults]
        if self._names.done() and not self._names.cancelled() and (e := self._names.exception()):
            faults.append(e)
        return list(dict.fromkeys(faults))

    # ---------------------------------------------------------------- nodes

    def nodes(self, pool: str | None = None) -> list[Machine]:
        """Return the machines that run, of one pool if named."""
        return [
            machine
            for machine in self.cloud.machines.values()
            if machine.state is State.RUNNING and pool in {None, machine.pool.name}
        ]

    def node(self, name: str) -> Machine:
        """Return a machine by the name of its node."""
        if name not in self.cloud.machines:
            known = ", ".join(self.cloud.machines) or "none"
            message = f"there is no machine {name!r}; there are: {known}"
            raise KeyError(message)
        return self.cloud.machines[name]

    def revoke(self, scenario: str, *, node: str, **options: Any) -> Revocation:
        """Start a revocation scenario on a node; await the result for its end and its record."""
        machine = self.node(node)
        record = make_record(scenario, machine)
        task = self.cloud.spawn(play(self.cloud, scenario, machine, record=record, **options))
        return Revocation(record, task)

    def _build_kubelet(self, shape: NodeShape, *, images: Images | None = None) -> Kubelet:
        kubelet = Kubelet(
            api=self.api,
            shape=shape,
            root=self.root / "nodes",
            serving=self.session.serving,
            images=images or self.images,
            hosts=self._hosts,
            addresses=self.session.network,
        )
        self._kubelets.append(kubelet)
        return kubelet

    def _make_slow_images(self, seconds: float) -> Images:
        return replace(self.images, pull_seconds=lambda _: seconds)

    # ---------------------------------------------------------------- waiting

    async def until(
        self,
        path: str,
        predicate: Callable[[Found], object],
        *,
        timeout: float = 60.0,
        what: str = "",
    ) -> Found:
        """
        Wait until the object at a path satisfies the predicate; None stands for no object.

        Returns what satisfied it. On time-out the error names what was waited for and shows the
        last object seen.
        """
        collection, _, name = path.rpartition("/")
        last: Found = None
        events = self.api.watch(collection, fieldSelector=f"metadata.name={name}")
        try:
            async with asyncio.timeout(timeout), contextlib.aclosing(events):
                async for kind, found in events:
                    if kind == "SYNC":
                        last = found[0] if found else None
                    else:
                        last = None if kind == "DELETED" else found
                    if predicate(last):
                        return last
        except TimeoutError:
            message = f"{path}: not {what or 'as expected'} within {timeout} s; {_show(last)}"
            raise TimeoutError(message) from None
        message = f"{path}: the watch ended"
        raise ConnectionError(message)

    async def until_pod(
        self, name: str, predicate: Callable[[Json], object], **options: Any
    ) -> Json:
        """Wait for a pod of the world's namespace that satisfies the predicate."""
        path = f"{self.path('pods')}/{name}"
        found = await self.until(path, lambda pod: pod is not None and predicate(pod), **options)
        return found or {}

    def path(self, resource: str, group: str = "api/v1") -> str:
        """Return the path of a resource in the world's namespace."""
        return f"/{group}/namespaces/{self.namespace}/{resource}"

    async def _make_namespace(self) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        try:
            await self.api.request("POST", "/api/v1/namespaces", body)
        except ApiError as error:
            if error.status != CONFLICT:
                raise
        await self.until(self.path("serviceaccounts/default"), bool, what="created")


class OpenWorld(Protocol):
    """Starts a world; what the tests' fixture of this name gives."""

    async def __call__(self, pools: Iterable[Pool], **options: Any) -> World:
        """Take the pools, and what `World` takes besides."""


class Revocation:
    """A scenario that runs; await it for its end."""

    def __init__(self, record: Record, task: asyncio.Task[Record]) -> None:
        """Belong to a task of the cloud."""
        self.record = record
        self._task = task

    def __await__(self) -> Generator[Any, None, Record]:
        """Wait for the end; return the record, or raise what went wrong."""
        return asyncio.shield(self._task).__await__()

    @property
    def is_over(self) -> bool:
        """Whether the scenario has come to its end."""
        return self._task.done()


@contextlib.contextmanager
def _temporary_folder() -> Iterator[str]:
    """Make a folder for the nodes, readable for the pods' processes."""
    with tempfile.TemporaryDirectory(prefix="ebbtide-world-") as folder:
        yield folder


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _show(found: Found) -> str:
    if found is None:
        return "there is no such object"
    found = {**found, "metadata": {**found["metadata"], "managedFields": None}}
    return f"last seen: {json.dumps(found)[:LONGEST_OBJECT]}"
