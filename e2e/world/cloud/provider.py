"""The provider's side: it sells machines, boots them, takes them back and writes the bill."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

from world.cloud.actions import delete_node, remove_taint
from world.cloud.autoscaler import Autoscaler
from world.cloud.bill import Bill, Item
from world.cloud.journal import Journal
from world.cloud.machine import Machine, State
from world.cloud.pace import Pace
from world.cloud.view import View
from world.kubelet.clock import utc_now
from world.kubelet.shape import NodeShape

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from types import TracebackType

    from world.api import Api
    from world.cloud.pool import Pool
    from world.kubelet import Images, Kubelet
    from world.network import Network

START_SECONDS = 60.0


class BuildKubelet(Protocol):
    """Makes the agent of a node from its shape; with images of its own if given."""

    def __call__(self, shape: NodeShape, *, images: Images | None = None) -> Kubelet:
        """Make the agent; it runs nothing yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """How a machine comes up; what is None is drawn as the pool says."""

    provision_seconds: float | None = None
    gpu_seconds: float | None = None
    images: Images | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What a cloud runs on."""

    api: Api
    network: Network
    build_kubelet: BuildKubelet
    slow_images: Callable[[float], Images]
    """Makes the images of a node that has none yet: each pull takes so many real seconds."""
    tag: str = ""
    """Part of each node's name: two clouds on one control plane may not share names."""


@dataclass(slots=True)
class Cloud:
    """Pools and their machines; an asynchronous context manager."""

    deployment: Deployment
    pools: dict[str, Pool]
    pace: Pace = field(default_factory=Pace)
    seed: int = 0
    machines: dict[str, Machine] = field(default_factory=dict)
    available: dict[str, int] = field(default_factory=dict)
    """So many machines of a pool the provider has at most, for now; see `set_available`."""
    bill: Bill = field(default_factory=Bill)
    journal: Journal = field(default_factory=lambda: Journal(utc_now))
    faults: list[BaseException] = field(default_factory=list)
    autoscaler: Autoscaler = field(init=False)
    view: View = field(init=False)
    _counts: dict[str, int] = field(default_factory=dict)
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Connect the parts."""
        self.view = View(self.api)
        self.autoscaler = Autoscaler(self)

    @property
    def api(self) -> Api:
        """The API server, as its administrator."""
        return self.deployment.api

    async def __aenter__(self) -> Self:
        """Start the machines that always run, and wait until they do."""
        try:
            self.spawn(self.view.follow())
            self.spawn(self.autoscaler.run())
            first = [machine for pool in self.pools.values() for machine in self.fill(pool)]
            async with asyncio.timeout(START_SECONDS):
                await self.wait_ready(first)
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take everything away."""
        await self.stop()

    async def stop(self) -> None:
        """End what goes on, power every machine off and delete its node."""
        agents = {machine.running for machine in self.machines.values()}
        tasks = self._tasks - agents  # a machine's own agent ends by its power-off
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        machines = list(self.machines.values())
        await asyncio.gather(*(self._discard(machine) for machine in machines))

    async def _discard(self, machine: Machine) -> None:
        await self.power_off(machine)
        await self.forget(machine)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run something beside the rest; its error becomes a fault of the cloud."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finish)
        return task

    def _finish(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.faults.append(error)

    # ---------------------------------------------------------------- buying

    def machines_of(self, pool: Pool) -> list[Machine]:
        """Return the machines of a pool that are there or on their way."""
        return [
            machine
            for machine in self.machines.values()
            if machine.pool.name == pool.name and machine.is_alive
        ]

    def headroom(self, pool: Pool) -> int:
        """Return how many more machines of a pool can be had now."""
        limit = min(pool.max_nodes, self.available.get(pool.name, pool.max_nodes))
        return max(0, limit - len(self.machines_of(pool)))

    def set_available(self, pool: str, machines: int | None) -> None:
        """
        Let the provider have so many machines of a pool; 0: none to be had; None: no limit.

        Machines that run stay; those on their way are not delivered beyond the limit.
        """
        if machines is None:
            self.available.pop(self.pools[pool].name, None)
        else:
            self.available[self.pools[pool].name] = machines
        self.journal.add("available", pool=pool, detail=str(machines))
        self.view.changed.set()

    def fill(self, pool: Pool) -> list[Machine]:
        """Request what a pool lacks of the machines that it always has."""
        missing = min(pool.min_nodes - len(self.machines_of(pool)), self.headroom(pool))
        return [self.request(pool) for _ in range(missing)]

    def request(self, pool: Pool, boot: Boot | None = None) -> Machine:
        """Buy a machine; it comes up by and by."""
        count = self._counts[pool.name] = self._counts.get(pool.name, 0) + 1
        name = f"{pool.name}-{self.deployment.tag}{count}"
        machine = Machine(name=name, pool=pool, subnet=self.deployment.network.take_subnet())
        self.machines[name] = machine
        self.journal.add("requested", node=name, pool=pool.name)
        machine.delivery = self.spawn(self._deliver(machine, boot or Boot()))
        return machine

    async def wait_ready(self, machines: Iterable[Machine]) -> None:
        """Wait until machines are Ready; a fault of the cloud meanwhile is raised."""
        for machine in machines:
            waiting = asyncio.create_task(machine.ready.wait())
            while not waiting.done():
                if self.faults:
                    waiting.cancel()
                    raise self.faults[0]
                await asyncio.wait({waiting, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)

    async def _deliver(self, machine: Machine, boot: Boot) -> None:
        pool = machine.pool
        delay = boot.provision_seconds
        if delay is None:
            delay = self.random(f"provision/{machine.name}").uniform(*pool.provision_seconds)
        await self.pace.sleep(delay)
        limit = self.available.get(pool.name, pool.max_nodes)
        if len(self.machines_of(pool)) > limit:
            self.journal.add("stockout", node=machine.name, pool=pool.name)
            machine.state = State.OFF
            self.machines.pop(machine.name, None)
            self.deployment.network.release_subnet(machine.subnet)
            self.view.changed.set()
            return
        await self.boot(machine, boot)

    def random(self, what: str) -> random.Random:
        """Return the generator for one purpose: the same for a seed, whatever else happens."""
        return random.Random(f"{self.seed}/{what.replace(self.deployment.tag, '')}")

    # ---------------------------------------------------------------- running

    async def boot(self, machine: Machine, boot: Boot | None = None) -> None:
        """Switch a machine on, for the first time or again; return when its node is Ready."""
        boot = boot or Boot()
        pool = machine.pool
        delay = boot.gpu_seconds
        if delay is None:
            delay = self.random(f"gpus/{machine.name}/{machine.boots}").uniform(*pool.gpu_seconds)
        late = pool.gpu is not None and delay > 0
        shape = self._shape(machine, late=late)
        machine.kubelet = self.deployment.build_kubelet(shape, images=boot.images)
        machine.state, machine.leaving, machine.settled = State.BOOTING, False, False
        machine.has_gpus, machine.idle_since = not late, None
        machine.boots += 1
        machine.running = self.spawn(machine.kubelet.run())
        await self._await_boot(machine)
        machine.state = State.RUNNING
        entry = self.journal.add("ready", node=machine.name, pool=pool.name)
        item = Item(
            node=machine.name,
            pool=pool.name,
            usd_per_node_hour=pool.usd_per_node_hour,
            ready=entry.at,
        )
        self.bill.start(item)
        machine.ready.set()
        self.view.changed.set()
        if late:
            self.spawn(self._bring_gpus(machine, delay))

    def _shape(self, machine: Machine, *, late: bool) -> NodeShape:
        pool = machine.pool
        taints = (*pool.taints(), pool.startup_taint()) if late else pool.taints()
        return NodeShape(
            name=machine.name,
            ip=f"10.77.{machine.subnet}.1",
            labels=pool.labels(),
            taints=taints,
            capacity=pool.capacity(gpus=0 if late else None),
            provider_id=f"ebbtide-local://{pool.zone}/{machine.name}",
        )

    async def _await_boot(self, machine: Machine) -> None:
        if machine.kubelet is None or machine.running is None:
            message = f"machine {machine.name} is not switched on"
            raise RuntimeError(message)
        up = asyncio.create_task(machine.kubelet.ready.wait())
        try:
            await asyncio.wait({up, machine.running}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            up.cancel()
        if not machine.kubelet.ready.is_set():
            machine.running.result()  # raises what ended it
            message = f"the kubelet of {machine.name} ended before its node was Ready"
            raise RuntimeError(message)

    async def _bring_gpus(self, machine: Machine, delay: float) -> None:
        """Let the device plugin arrive: a GPU node is Ready before it has GPUs."""
        boots = machine.boots
        await self.pace.sleep(delay)
        if machine.boots != boots or machine.state is not State.RUNNING or not machine.kubelet:
            return
        await machine.kubelet.set_capacity(machine.pool.capacity())
        await remove_taint(self.api, machine.name, machine.pool.startup_taint())
        machine.has_gpus = True
        self.journal.add("gpus", node=machine.name, pool=machine.pool.name)
        self.view.changed.set()

    async def power_off(self, machine: Machine) -> None:
        """Cut a machine's power: it falls silent, and every process on it is gone at once."""
        if machine.kubelet is None or machine.state is State.OFF:
            machine.state = State.OFF
            return
        machine.state = State.OFF
        machine.kubelet.power_off()
        entry = self.journal.add("power-off", node=machine.name, pool=machine.pool.name)
        self.bill.stop(machine.name, entry.at)
        self.deployment.network.heal(machine.subnet)
        self.faults.extend(machine.kubelet.faults)
        machine.ready.clear()
        if machine.running is not None:
            await asyncio.wait({machine.running})
        self.view.changed.set()

    async def forget(self, machine: Machine) -> None:
        """Delete the Node of a machine that is gone for good, and give its address back."""
        if self.machines.pop(machine.name, None) is None:
            return
        await delete_node(self.api, machine.name)
        self.journal.add("node-deleted", node=machine.name, pool=machine.pool.name)
        self.deployment.network.release_subnet(machine.subnet)
