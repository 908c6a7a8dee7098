"""Providers in virtual time: nodes that come when pods wait for them, and go when capacity does."""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Final, Protocol

import numpy as np

from ebbtide.core.simulator.virtual.agenda import Agenda
from ebbtide.core.simulator.virtual.bill import Item, Meter
from ebbtide.core.simulator.virtual.timing import Change, Timing, Trace
from ebbtide.core.values.observed import Node, Taint
from ebbtide.core.values.pool import Pool

NOTICE: Final = Taint(
    key="aws-node-termination-handler/spot-itn", effect="NoSchedule", value="interruption"
)
"""What a node is tainted with when it will certainly be taken (docs/adr/0008-node-signs.md)."""


class State(enum.Enum):
    """Where a machine is in its life."""

    COMING = "coming"
    READY = "ready"
    LEAVING = "leaving"  # its notice runs
    DARK = "dark"  # without power; its Node object is still there
    GONE = "gone"


@dataclass(slots=True, kw_only=True)
class Machine:
    """One node, from its request to its end."""

    name: str
    pool: str
    number: int  # in the order of requests
    state: State = State.COMING
    idle_since: datetime | None = None

    @property
    def is_held(self) -> bool:
        """It counts against what the pool has."""
        return self.state in (State.COMING, State.READY)


class Tenants(Protocol):
    """What a cloud needs to know of pods, and what it does to them."""

    def num_waiting(self, pool: str) -> int:
        """Return how many pods of a pool wait for a node."""

    def is_used(self, node: str) -> bool:
        """Tell whether a pod that has not ended is on a node."""

    def schedule(self, pool: str) -> None:
        """Bind what waits to nodes of the pool with room."""

    def cut(self, node: str) -> None:
        """Have every process on a node stop without a word."""

    def orphan(self, node: str) -> None:
        """Know that a Node object is gone."""

    def tell(self) -> None:
        """Say that there is something new to see."""


class Cloud:
    """All pools of all providers."""

    def __init__(
        self,
        pools: tuple[Pool, ...],
        trace: Trace,
        *,
        agenda: Agenda,
        timing: Timing,
        chance: np.random.Generator,
        workers_per_node: Mapping[str, int],
    ) -> None:
        self.pools = {pool.name: pool for pool in sorted(pools, key=lambda pool: pool.name)}
        self.nodes: dict[str, Node] = {}
        self.machines: dict[str, Machine] = {}
        self.meter = Meter()
        self.num_taken = 0  # nodes that were Ready and were taken
        self._capacity = {pool.name: pool.max_nodes for pool in pools}
        self._agenda = agenda
        self._timing = timing
        self._chance = chance
        self._per_node = workers_per_node
        self._num_requested = 0
        self._tenants: Tenants | None = None
        self._note(trace)

    def _note(self, trace: Trace) -> None:
        for pool in self.pools:
            for change in trace.nodes.get(pool, ()):
                self._later(change, pool, self._offer)
            for change in trace.usd_per_node_hour.get(pool, ()):
                self._later(change, pool, self._reprice)

    def _later(self, change: Change, pool: str, do: Callable[[str, Change], None]) -> None:
        self._agenda.after(change.at_s, lambda: do(pool, change))

    def admit(self, tenants: Tenants) -> None:
        """Serve these pods."""
        self._tenants = tenants

    @property
    def is_still(self) -> bool:
        """Tell whether no machine is there or comes."""
        return not self.machines

    # ------------------------------------------------------------ coming

    def fill(self, pool: str) -> None:
        """Request nodes for the pods that wait, as far as there are any to be had."""
        if self._tenants is None:
            return
        each = self._per_node[pool]
        coming = sum(m.state is State.COMING for m in self.machines.values() if m.pool == pool)
        missing = -(-self._tenants.num_waiting(pool) // each) - coming if each else 0
        for _ in range(min(missing, self._room(pool))):
            self._request(pool)

    def _room(self, pool: str) -> int:
        held = sum(m.pool == pool and m.is_held for m in self.machines.values())
        return min(self._capacity[pool], self.pools[pool].max_nodes) - held

    def _request(self, pool: str) -> None:
        self._num_requested += 1
        machine = Machine(
            name=f"{pool}-{self._num_requested}", pool=pool, number=self._num_requested
        )
        self.machines[machine.name] = machine
        node_s = self._timing.draw_node_s(pool, self._chance)
        self._agenda.after(node_s, lambda: self._come(machine))

    def _come(self, machine: Machine) -> None:
        if machine.state is not State.COMING or self._tenants is None:
            return
        machine.state = State.READY
        now, pool = self._agenda.now, self.pools[machine.pool]
        self.nodes[machine.name] = Node(
            name=machine.name,
            uid=f"uid-{machine.name}",
            ready=True,
            ready_reason="KubeletReady",
            ready_changed=now,
            boot_id=f"boot-{machine.name}",
            gpus=pool.gpus_per_node,
        )
        self.meter.begin(
            Item(
                node=machine.name,
                pool=pool.name,
                market=pool.market,
                usd_per_hour=pool.usd_per_node_hour,
                is_idle=True,
                since=now,
                until=now,
            )
        )
        self._tenants.schedule(pool.name)
        self.look_for_use(machine.name)
        self._tenants.tell()

    def with_room(self, pool: str) -> list[Machine]:
        """Return the nodes of a pool that take pods, the oldest first."""
        return [m for m in self.machines.values() if m.pool == pool and m.state is State.READY]

    # ------------------------------------------------------------ idle

    def look_for_use(self, node: str) -> None:
        """Note whether a node carries pods; one that does not is given back after a while."""
        machine = self.machines.get(node)
        if machine is None or self._tenants is None or node not in self.nodes:
            return
        now = self._agenda.now
        is_used = self._tenants.is_used(node)
        self.meter.use(node, now, is_idle=not is_used)
        if is_used:
            machine.idle_since = None
        elif machine.idle_since is None:
            machine.idle_since = now
            self._agenda.after(self._timing.idle_s, lambda: self._give_back(machine, now))

    def _give_back(self, machine: Machine, since: datetime) -> None:
        if machine.state is State.READY and machine.idle_since == since:
            self.meter.end(machine.name, self._agenda.now)
            self._delete(machine)

    # ------------------------------------------------------------ going

    def _offer(self, pool: str, change: Change) -> None:
        """Have so many nodes to give; take the newest ones away where more are held."""
        nodes = self._capacity[pool] = int(change.value)
        held = [m for m in self.machines.values() if m.pool == pool and m.is_held]
        for machine in held[::-1][: max(len(held) - nodes, 0)]:
            self._take(machine, warned=change.warned)
        self.fill(pool)

    def _reprice(self, pool: str, change: Change) -> None:
        price = Decimal(repr(change.value))
        self.pools[pool] = replace(self.pools[pool], usd_per_node_hour=price)
        self.meter.reprice(pool, price, self._agenda.now)
        if self._tenants is not None:
            self._tenants.tell()

    def _take(self, machine: Machine, *, warned: bool | None) -> None:
        if machine.state is State.COMING:
            machine.state = State.GONE
            del self.machines[machine.name]
            return
        self.num_taken += 1
        notice_s = self.pools[machine.pool].notice.total_seconds()
        is_warned = self._timing.draw_is_warned(self._chance) if warned is None else warned
        if notice_s <= 0 or not is_warned:
            self._power_off(machine)
            return
        machine.state = State.LEAVING
        self._change(machine, taints=(NOTICE,), unschedulable=True)
        self._agenda.after(notice_s, lambda: self._power_off(machine))

    def _power_off(self, machine: Machine) -> None:
        if self._tenants is None or machine.state in (State.DARK, State.GONE):
            return
        machine.state = State.DARK
        self.meter.end(machine.name, self._agenda.now)
        self._tenants.cut(machine.name)
        timing = self._timing
        if timing.silence_s < timing.deletion_s:
            self._agenda.after(timing.silence_s, lambda: self._go_dark(machine))
        self._agenda.after(timing.deletion_s, lambda: self._delete(machine))

    def _go_dark(self, machine: Machine) -> None:
        if machine.state is State.DARK:
            reason = "NodeStatusUnknown"
            now = self._agenda.now
            self._change(machine, ready=False, ready_reason=reason, ready_changed=now)

    def _change(self, machine: Machine, **changes: object) -> None:
        self.nodes[machine.name] = replace(self.nodes[machine.name], **changes)  # type: ignore[arg-type]  # the callers name fields of Node
        if self._tenants is not None:
            self._tenants.tell()

    def _delete(self, machine: Machine) -> None:
        machine.state = State.GONE
        self.machines.pop(machine.name, None)
        self.nodes.pop(machine.name, None)
        if self._tenants is not None:
            self._tenants.orphan(machine.name)
            self._tenants.tell()
