"""
The ways in which nodes are taken away, by name. All times are simulated seconds.

Each is `async (Stage, options) -> None`: it does to one machine what the provider does and marks
the moments in the stage's record. What is drawn comes from a generator that is seeded by the
cloud's seed, the scenario and the machine, so that a run can be repeated. Parts of a
timeline that several share are functions of their own.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from world.cloud.actions import add_taint, cordon, drain, remove_taint
from world.cloud.machine import Machine, State
from world.cloud.pool import Provider
from world.cloud.provider import Boot, Cloud
from world.cloud.record import Record
from world.kubelet.clock import utc_now

if TYPE_CHECKING:
    import random

    from world.kubelet import Kubelet

CRITICAL_SECONDS: Final = 15.0
"""How much of GKE's notice is kept for critical pods."""
EVICTION_RETRY_SECONDS: Final = 5.0
REBALANCE_PASSES: Final = 0.3
"""The share of rebalance recommendations that no interruption follows."""
AKS_DRAINS: Final = 0.5
"""The share of AKS preemptions that are preceded by a drain."""
WAVE_SECONDS: Final = 60.0
REBALANCE_KEY: Final = "aws-node-termination-handler/rebalance-recommendation"

Range = tuple[float, float]


class ScenarioError(ValueError):
    """No such scenario, or a machine that it cannot be played on."""


@dataclass(slots=True, kw_only=True)
class Stage:
    """Where a scenario plays: one machine of one cloud."""

    cloud: Cloud
    machine: Machine
    record: Record
    random: random.Random

    @property
    def kubelet(self) -> Kubelet:
        """The agent of the machine as it runs now."""
        if self.machine.kubelet is None:
            message = f"machine {self.machine.name} does not run"
            raise ScenarioError(message)
        return self.machine.kubelet

    def mark(self, what: str) -> None:
        """Note a moment in the record and in the cloud's journal."""
        self.record.mark(what)
        machine, detail = self.machine, self.record.scenario
        self.cloud.journal.add(what, node=machine.name, pool=machine.pool.name, detail=detail)

    def draw(self, bounds: Range) -> float:
        """Draw a number of simulated seconds."""
        return self.random.uniform(*bounds)

    async def sleep(self, seconds: float) -> None:
        """Let simulated seconds pass."""
        await self.cloud.pace.sleep(seconds)

    async def power_off(self) -> None:
        """Cut the machine's power."""
        self.machine.leaving = True
        await self.cloud.power_off(self.machine)
        self.record.mark("power-off")

    async def delete_node(self, bounds: Range) -> None:
        """Let the cloud controller find, after a while, that the machine is gone."""
        await self.sleep(self.draw(bounds))
        await self.cloud.forget(self.machine)
        self.record.mark("node-deleted")


Scenario = Callable[..., Awaitable[None]]


# -------------------------------------------------------------------- parts


async def _shut_down(stage: Stage) -> None:
    """Graceful node shutdown after the ACPI signal, then power-off when the notice is used up."""
    notice = stage.machine.pool.notice
    critical = min(CRITICAL_SECONDS, notice / 2)
    pace = stage.cloud.pace
    stage.machine.leaving = True
    stage.mark("notice")
    graces = {"grace": pace.real(notice - critical), "critical_grace": pace.real(critical)}
    shutdown = asyncio.create_task(stage.kubelet.shutdown(**graces))
    try:
        await stage.sleep(notice)
    finally:
        if not shutdown.done():
            shutdown.cancel()
        await asyncio.wait({shutdown})
    if not shutdown.cancelled():
        shutdown.result()  # an error of the kubelet must not pass unseen
    await stage.power_off()


async def _warn(stage: Stage, taint: Mapping[str, str], *, with_cordon: bool) -> None:
    stage.machine.leaving = True
    stage.mark("notice")
    await add_taint(stage.cloud.api, stage.machine.name, taint)
    if with_cordon:
        await cordon(stage.cloud.api, stage.machine.name)


async def _take_warning_back(stage: Stage, taint: Mapping[str, str]) -> None:
    await remove_taint(stage.cloud.api, stage.machine.name, taint)
    await cordon(stage.cloud.api, stage.machine.name, on=False)
    stage.machine.leaving = False
    stage.mark("passed")


async def _drain_until(stage: Stage, seconds: float) -> None:
    """Evict the pods, at most until the machine ends; a budget may hold them to the end."""
    pace = stage.cloud.pace
    retry = pace.real(EVICTION_RETRY_SECONDS)
    started = asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout(pace.real(seconds)):
            await drain(stage.cloud.api, stage.machine.name, retry_seconds=retry)
            stage.mark("evicted")
    except TimeoutError:
        stage.mark("drain-unfinished")
    left = started + pace.real(seconds) - asyncio.get_running_loop().time()
    await asyncio.sleep(max(0.0, left))


def _event_id(stage: Stage) -> str:
    """Make an id as the notice of the provider carries one."""
    return str(uuid.UUID(int=stage.random.getrandbits(128), version=4))


# -------------------------------------------------------------------- scenarios


async def gke_spot(stage: Stage, *, node_deleted: Range = (30.0, 150.0)) -> None:
    """Notice, graceful node shutdown, power-off after 30 s, Node deleted 60 to 180 s after."""
    await _shut_down(stage)
    await stage.delete_node(node_deleted)


async def gke_same_name(stage: Stage, *, returns: Range = (10.0, 25.0)) -> None:
    """As `gke-spot`, but the machine is back under its name before its Node is deleted."""
    await _shut_down(stage)
    await stage.sleep(stage.draw(returns))
    await stage.cloud.boot(stage.machine)
    stage.mark("returned")


async def aws_itn(
    stage: Stage, *, node_deleted: Range = (10.0, 60.0), provider: Provider | None = None
) -> None:
    """
    Interruption notice: taint, drain by eviction, power-off after 120 s.

    Karpenter taints and starts the replacement at once; elsewhere the Node Termination Handler
    taints and cordons. `provider` has it done in another provider's manner.
    """
    pool = stage.machine.pool
    pool = replace(pool, provider=provider or pool.provider)
    by_karpenter = pool.provider is Provider.KARPENTER
    await _warn(stage, pool.warning_taint(_event_id(stage)), with_cordon=not by_karpenter)
    if by_karpenter and stage.cloud.headroom(pool):
        replacement = stage.cloud.request(pool)
        stage.record.facts["replacement"] = replacement.name
    await _drain_until(stage, pool.notice)
    await stage.power_off()
    await stage.delete_node(node_deleted)


async def aws_rebalance(
    stage: Stage,
    *,
    interruption: Range = (600.0, 1200.0),
    passes: bool | None = None,
) -> None:
    """A rebalance recommendation; in 30 % of runs no interruption follows, and it passes."""
    if passes is None:
        passes = stage.random.random() < REBALANCE_PASSES
    stage.record.facts["passes"] = str(passes)
    taint = {"key": REBALANCE_KEY, "value": _event_id(stage), "effect": "NoSchedule"}
    await _warn(stage, taint, with_cordon=True)
    await stage.sleep(stage.draw(interruption))
    if passes:
        await _take_warning_back(stage, taint)
    else:
        await aws_itn(stage)


async def aks_preempt(
    stage: Stage, *, drained: bool | None = None, node_deleted: Range = (30.0, 120.0)
) -> None:
    """Preempt event: half of the nodes are drained, half just vanish after 30 s."""
    pool = stage.machine.pool
    if drained is None:
        drained = stage.random.random() < AKS_DRAINS
    stage.record.facts["drained"] = str(drained)
    if drained:
        await _warn(stage, pool.warning_taint(""), with_cordon=True)
        await _drain_until(stage, pool.notice)
    else:
        stage.machine.leaving = True
        stage.mark("notice")
        await stage.sleep(pool.notice)
    await stage.power_off()
    await stage.delete_node(node_deleted)


async def power_loss(stage: Stage, *, node_deleted: Range | None = (60.0, 180.0)) -> None:
    """No notice: the Lease stops, every process is gone. None: the Node stays for good."""
    await stage.power_off()
    if node_deleted is not None:
        await stage.delete_node(node_deleted)


async def partition_api(stage: Stage, *, seconds: float = 120.0) -> None:
    """The node cannot reach the API server; its processes live on and reach their peers."""
    stage.mark("partition")
    stage.kubelet.partition()
    await stage.sleep(seconds)
    await stage.kubelet.heal()
    stage.mark("healed")


async def partition_data(stage: Stage, *, seconds: float = 120.0, with_api: bool = False) -> None:
    """Packets between the node and all others are dropped; with_api: the kubelet's too."""
    network, subnet = stage.cloud.deployment.network, stage.machine.subnet
    stage.mark("partition")
    network.partition(subnet)
    if with_api:
        stage.kubelet.partition()
    try:
        await stage.sleep(seconds)
    finally:
        network.heal(subnet)
    if with_api:
        await stage.kubelet.heal()
    stage.mark("healed")


async def zone_wave(stage: Stage, *, within: float = WAVE_SECONDS, each: str | None = None) -> None:
    """Every spot node of the machine's zone goes within a minute, each as its provider does it."""
    zone = stage.machine.pool.zone
    victims = [
        machine
        for machine in stage.cloud.machines.values()
        if machine.state is State.RUNNING and machine.pool.is_spot and machine.pool.zone == zone
    ]
    stage.mark("notice")

    async def take(machine: Machine, delay: float) -> None:
        await stage.sleep(delay)
        name = each or REVOCATION[machine.pool.provider]
        await play(stage.cloud, name, machine, record=_add_part(stage.record, name, machine))

    async with asyncio.TaskGroup() as tasks:
        for machine in victims:
            tasks.create_task(take(machine, stage.draw((0.0, within))))


async def flap(stage: Stage, *, seconds: float | None = None) -> None:
    """A notice, but the node stays: the warning is taken back when the notice is used up."""
    pool = stage.machine.pool
    taint = pool.warning_taint(_event_id(stage))
    await _warn(stage, taint, with_cordon=pool.provider is not Provider.KARPENTER)
    await stage.sleep(pool.notice if seconds is None else seconds)
    await _take_warning_back(stage, taint)


async def comeback(
    stage: Stage,
    *,
    after: Range = (180.0, 240.0),
    gpus: Range = (30.0, 90.0),
    pull: Range = (20.0, 60.0),
) -> None:
    """The machine is lost; a new one comes after a while, first with 0 GPUs and no image."""
    pool, cloud = stage.machine.pool, stage.cloud
    await stage.power_off()
    pull_seconds = cloud.pace.real(stage.draw(pull))
    boot = Boot(
        provision_seconds=stage.draw(after),
        gpu_seconds=stage.draw(gpus),
        images=cloud.deployment.slow_images(pull_seconds),
    )
    replacement = cloud.request(pool, boot)
    stage.record.facts["replacement"] = replacement.name
    await cloud.forget(stage.machine)
    stage.record.mark("node-deleted")
    if replacement.delivery is not None:
        await asyncio.wait({replacement.delivery})
    stage.mark("returned" if replacement.state is State.RUNNING else "stockout")


async def no_capacity(stage: Stage, *, seconds: Range = (900.0, 1200.0)) -> None:
    """The machine is taken as its provider does it, and the pool sells none for over 15 min."""
    pool, cloud = stage.machine.pool, stage.cloud
    cloud.set_available(pool.name, 0)
    stage.mark("stockout")
    name = REVOCATION[pool.provider]
    record = _add_part(stage.record, name, stage.machine)
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(play(cloud, name, stage.machine, record=record))
            tasks.create_task(stage.sleep(stage.draw(seconds)))
    finally:
        cloud.set_available(pool.name, None)
    stage.mark("capacity")


SCENARIOS: Final[Mapping[str, Scenario]] = {
    "gke-spot": gke_spot,
    "gke-same-name": gke_same_name,
    "aws-itn": aws_itn,
    "aws-rebalance": aws_rebalance,
    "aks-preempt": aks_preempt,
    "power-loss": power_loss,
    "partition-api": partition_api,
    "partition-data": partition_data,
    "zone-wave": zone_wave,
    "flap": flap,
    "return": comeback,
    "no-capacity": no_capacity,
}

REVOCATION: Final[Mapping[Provider, str]] = {
    Provider.GKE: "gke-spot",
    Provider.EKS: "aws-itn",
    Provider.KARPENTER: "aws-itn",
    Provider.AKS: "aks-preempt",
}
"""How each provider usually takes a spot node."""


def make_record(scenario: str, machine: Machine) -> Record:
    """Make the empty record of a scenario, or say which scenarios there are."""
    if scenario not in SCENARIOS:
        message = f"there is no scenario {scenario!r}; there are: {', '.join(SCENARIOS)}"
        raise ScenarioError(message)
    if machine.state is not State.RUNNING:
        message = f"{scenario}: machine {machine.name} is {machine.state}, not running"
        raise ScenarioError(message)
    return Record(scenario=scenario, node=machine.name, pool=machine.pool.name, now=utc_now)


async def play(
    cloud: Cloud, scenario: str, machine: Machine, *, record: Record | None = None, **options: Any
) -> Record:
    """Play a scenario on a machine to its end; return its record."""
    record = make_record(scenario, machine) if record is None else record
    generator = cloud.random(f"{scenario}/{machine.name}/{machine.boots}")
    stage = Stage(cloud=cloud, machine=machine, record=record, random=generator)
    await SCENARIOS[scenario](stage, **options)
    return record


def _add_part(record: Record, scenario: str, machine: Machine) -> Record:
    part = make_record(scenario, machine)
    record.parts.append(part)
    return part
