"""Brings a node when a pod is pending for a pool with capacity, and takes idle ones away."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from world.cloud.actions import add_taint, remove_taint
from world.cloud.fit import Room, is_pending, occupies, place
from world.cloud.machine import Machine, State, plan_room

if TYPE_CHECKING:
    from world.api import Json
    from world.cloud.pool import Pool
    from world.cloud.provider import Cloud

SCAN_SECONDS: Final = 10.0
"""Between two looks, in simulated seconds, as the cluster autoscaler has it."""
LEAST_SCAN: Final = 0.05
LEAVING_TAINT: Final = {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}


class Autoscaler:
    """Looks at the cluster after each change, not more often than each scan."""

    def __init__(self, cloud: Cloud) -> None:
        """Belong to a cloud."""
        self._cloud = cloud
        self._refused: set[str] = set()
        self.enabled = True

    async def run(self) -> None:
        """Scan until cancelled."""
        view, pace = self._cloud.view, self._cloud.pace
        while True:
            view.changed.clear()
            if self.enabled:
                self.scale_up()
                await self._scale_down()
            await asyncio.sleep(max(LEAST_SCAN, pace.real(SCAN_SECONDS)))
            try:
                async with asyncio.timeout(self._next_idle()):
                    await view.changed.wait()
            except TimeoutError:
                continue

    # ---------------------------------------------------------------- up

    def scale_up(self) -> list[Machine]:
        """Request a machine for each pending pod that fits nothing that is there or comes."""
        cloud = self._cloud
        requested = [machine for pool in cloud.pools.values() for machine in cloud.fill(pool)]
        pending = sorted(
            (pod for pod in cloud.view.pods.values() if is_pending(pod)), key=_seniority
        )
        left, _ = place(pending, self._rooms())
        new: list[Room] = []
        for pod in left:
            still_left, new = place([pod], new)
            if still_left and (pool := self._choose(pod)):
                machine = cloud.request(pool)
                requested.append(machine)
                new.append(plan_room(pool, machine.name).take(pod))
        self._refused &= {pod["metadata"]["uid"] for pod in pending}
        return requested

    def _rooms(self) -> list[Room]:
        view = self._cloud.view
        nodes = {node["metadata"]["name"]: node for node in view.nodes.values()}
        rooms = []
        for machine in self._cloud.machines.values():
            node = nodes.get(machine.name)
            machine.observe(node)
            if room := machine.find_room(node, view.pods_of(machine.name)):
                rooms.append(room)
        return rooms

    def _choose(self, pod: Json) -> Pool | None:
        """Return the cheapest pool that the pod fits and that has room; tell once if none has."""
        fitting = [
            pool
            for pool in sorted(self._cloud.pools.values(), key=lambda pool: pool.usd_per_node_hour)
            if plan_room(pool, "").fits(pod)
        ]
        for pool in fitting:
            if self._cloud.headroom(pool):
                return pool
        metadata = pod["metadata"]
        if metadata["uid"] not in self._refused:
            self._refused.add(metadata["uid"])
            names = ", ".join(pool.name for pool in fitting) or "no pool"
            detail = f"pod {metadata['namespace']}/{metadata['name']} fits: {names}"
            self._cloud.journal.add("no-capacity" if fitting else "no-fit", detail=detail)
        return None

    # ---------------------------------------------------------------- down

    def _next_idle(self) -> float | None:
        """Return real seconds until a machine has been idle for long enough; None if none is."""
        now = asyncio.get_running_loop().time()
        waits = [
            machine.idle_since + self._patience(machine) - now
            for machine in self._cloud.machines.values()
            if machine.idle_since is not None
        ]
        return max(LEAST_SCAN, min(waits)) if waits else None

    def _patience(self, machine: Machine) -> float:
        return self._cloud.pace.real(machine.pool.idle_seconds)

    async def _scale_down(self) -> None:
        now = asyncio.get_running_loop().time()
        for machine in list(self._cloud.machines.values()):
            if not self._is_idle(machine):
                machine.idle_since = None
            elif machine.idle_since is None:
                machine.idle_since = now
            elif now - machine.idle_since >= self._patience(machine):
                await self._take_away(machine)

    def _is_idle(self, machine: Machine) -> bool:
        if machine.state is not State.RUNNING or machine.leaving or not machine.has_gpus:
            return False
        if len(self._cloud.machines_of(machine.pool)) <= machine.pool.min_nodes:
            return False
        return not any(occupies(pod) for pod in self._cloud.view.pods_of(machine.name))

    async def _take_away(self, machine: Machine) -> None:
        """Close the node to new pods, look once more, then end the machine."""
        cloud = self._cloud
        machine.leaving = True
        await add_taint(cloud.api, machine.name, LEAVING_TAINT)
        selector = f"spec.nodeName={machine.name}"
        pods = await cloud.api.request("GET", "/api/v1/pods", fieldSelector=selector)
        if any(occupies(pod) for pod in pods.get("items") or []):
            await remove_taint(cloud.api, machine.name, LEAVING_TAINT)
            machine.leaving, machine.idle_since = False, None
            return
        cloud.journal.add("idle", node=machine.name, pool=machine.pool.name)
        await cloud.power_off(machine)
        await cloud.forget(machine)


def _seniority(pod: Json) -> tuple[str, str]:
    metadata = pod["metadata"]
    return metadata["creationTimestamp"], metadata["name"]
