"""One pod on a node: from the moment it is seen there to the moment its object is let go."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import aiohttp

from world.api import STRATEGIC, ApiError
from world.kubelet import clock, hosts, status, volumes
from world.kubelet.container import Container, Surroundings
from world.kubelet.context import PodContext
from world.kubelet.errors import StoppedError, UnsupportedError
from world.kubelet.sources import Sources
from world.kubelet.status import ContainerRecord, Outcome
from world.kubelet.writer import GONE, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from world.kubelet.addresses import Addresses, Ring
    from world.kubelet.clock import Clock
    from world.kubelet.hosts import HostsFile
    from world.kubelet.images import ImageStore
    from world.kubelet.link import Link

Json: TypeAlias = dict[str, Any]

CRITICAL_PRIORITY: Final = 2_000_000_000
DEFAULT_GRACE: Final = 30
RETRY_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSide:
    """What a pod needs of its node."""

    ip: str
    root: Path
    capacity: Mapping[str, str]
    link: Link
    ring: Ring
    addresses: Addresses
    hosts: HostsFile | None
    store: ImageStore
    clock: Clock
    rejects: Callable[[], bool]
    """Whether the node is shutting down and takes no pod any more."""
    fault: Callable[[BaseException], None]


class PodWorker:
    """Runs one pod and keeps its status."""

    def __init__(self, pod: Json, node: NodeSide) -> None:
        """Take the pod over; nothing happens before `start`."""
        self.pod = pod
        self._node = node
        spec, meta, before = pod["spec"], pod["metadata"], pod.get("status", {})
        self.key = (meta["namespace"], meta["name"])
        self.is_critical = (spec.get("priority") or 0) >= CRITICAL_PRIORITY
        self.finished = asyncio.Event()
        """Set when no container runs any more and the last status is written."""
        self._shares_address = bool(spec.get("hostNetwork"))
        ip = node.ip if self._shares_address else node.ring.claim(before.get("podIP"))
        self._context = PodContext(
            pod=pod,
            ip=ip,
            host_ip=node.ip,
            capacity=node.capacity,
            folder=node.root / "pods" / meta["uid"],
            link=node.link,
        )
        self._started_at = before.get("startTime") or clock.to_seconds(node.clock())
        self._deleted = asyncio.Event()
        self._gone = False
        self._killed = False
        self._ended = False
        self._has_sandbox = bool(before.get("podIP"))
        self._outcome: Outcome | None = None
        self._kill_timer: asyncio.TimerHandle | None = None
        self._deadline_timer: asyncio.TimerHandle | None = None
        self._writer = Writer(self._write, node.fault)
        self._around = Surroundings(
            sources=Sources(self._context),
            store=node.store,
            hosts=self._context.folder / "hosts",
            clock=node.clock,
            changed=self._writer.mark,
            stopping=asyncio.Event(),
        )
        self._init = self._restore("initContainers", "initContainerStatuses")
        self._main = self._restore("containers", "containerStatuses")
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to live; errors that nobody expected go to the node's faults."""
        self._task = asyncio.create_task(self._live(), name=f"pod {'/'.join(self.key)}")
        self.update(self.pod)

    def update(self, pod: Json) -> None:
        """Take notice of a change of the object."""
        self.pod = pod
        if self.finished.is_set() and "deletionTimestamp" not in pod["metadata"]:
            return
        self._arm_deadline()
        if "deletionTimestamp" in pod["metadata"]:
            self._deleted.set()
            self._stop(self._grace())

    def refresh(self) -> None:
        """Write the status again: the API server may hold something else by now."""
        self._writer.mark()

    def forget(self) -> None:
        """End everything and tell nobody, for the object is gone."""
        self._gone = True
        self._writer.close()
        self._deleted.set()
        self._stop(0)

    def kill(self) -> None:
        """Lose every process at once, as when the power goes."""
        if self._killed:
            return  # a second cancellation would cut the clean-up short
        self._killed = True
        self._around.stopping.set()
        for container in self._containers:
            container.kill()
        if self._task is not None:
            self._task.cancel()

    def crash(self) -> None:
        """Lose every process, as when the kernel is short of memory; the node goes on."""
        for container in self._containers:
            container.kill()

    async def closed(self) -> None:
        """Wait until nothing of the pod is left on this machine."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def shut_down(self, limit: float) -> None:
        """End the pod because its node goes; return when it has ended."""
        if self.finished.is_set():
            return
        if not self._deleted.is_set() and self._outcome is None:
            self._outcome = status.SHUT_DOWN
        self._stop(min(limit, self._grace()))
        await self.finished.wait()

    def container(self, name: str) -> Container | None:
        """Return one of the pod's containers."""
        return next((found for found in self._containers if found.record.name == name), None)

    @property
    def _containers(self) -> list[Container]:
        return [*self._init, *self._main]

    def _restore(self, kind: str, statuses: str) -> list[Container]:
        """Make the containers, with what an earlier boot of the node wrote about them."""
        spec = self.pod["spec"]
        before = self.pod.get("status", {}).get(statuses) or []
        known = {found["name"]: found for found in before}
        has_init = bool(spec.get("initContainers"))
        final = spec.get("restartPolicy") == "Never" or "deletionTimestamp" in self.pod["metadata"]
        waiting = status.WAITING_FOR_INIT if has_init else status.WAITING_FOR_MAIN
        containers = []
        for found in spec.get(kind) or []:
            record = status.restored(found, known.get(found["name"]), waiting=waiting, final=final)
            grace = float(spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE))
            containers.append(Container(found, record, self._around, grace=grace))
        return containers

    # -------------------------------------------------------------------- life

    async def _live(self) -> None:
        writing = asyncio.create_task(self._writer.run())
        try:
            await self._work()
            self._end()
            await self._writer.flush()
            self.finished.set()
            await self._deleted.wait()
            await self._release()
        except Exception as error:  # noqa: BLE001 - the outermost loop: a test reads the faults
            self._node.fault(error)
        finally:
            self.finished.set()
            writing.cancel()
            for container in self._containers:
                container.kill()
            for container in self._containers:
                await container.reaped()
            for timer in (self._kill_timer, self._deadline_timer):
                if timer is not None:
                    timer.cancel()
            self._give_back()
            await asyncio.gather(writing, return_exceptions=True)

    async def _work(self) -> None:
        """Run the containers; return when none runs and none will."""
        if self._node.rejects():
            self._outcome = status.REJECTED
            self._writer.mark()
            return
        self._context.folder.mkdir(parents=True, exist_ok=True)
        self._writer.mark()
        try:
            _refuse_unsupported(self.pod["spec"])
            self._around.volumes = await self._around.until_found(
                lambda: volumes.lay_out(self._around.sources), lambda _: None
            )
        except UnsupportedError as error:
            self._outcome = Outcome(
                reason="FailedMount", message=str(error), even_if_succeeded=True
            )
            return
        except StoppedError:
            return
        self._take_address()
        policy = self.pod["spec"].get("restartPolicy", "Always")
        for container in self._init:
            await container.keep(restarts=lambda code: code != 0 and policy != "Never")
            if container.record.exit_code != 0:
                return
        for container in self._main:
            if container.record.state == status.WAITING_FOR_INIT:
                container.record.state = status.WAITING_FOR_MAIN
        self._writer.mark()
        async with asyncio.TaskGroup() as group:
            for container in self._main:
                group.create_task(
                    container.keep(
                        restarts=lambda code: (
                            policy == "Always" or (policy == "OnFailure" and code != 0)
                        )
                    )
                )

    def _take_address(self) -> None:
        context = self._context
        if not self._shares_address:
            self._node.addresses.add(context.ip)
        names = context.own_names
        if self._node.hosts is None:
            text = hosts.render((), namespace=context.namespace, ip=context.ip, names=names)
            self._around.hosts.write_text(text, encoding="utf-8")
        else:
            self._around.hosts = self._node.hosts.attach(
                context.uid, namespace=context.namespace, ip=context.ip, names=names
            )
        self._has_sandbox = True

    def _give_back(self) -> None:
        if self._node.hosts is not None:
            self._node.hosts.detach(self._context.uid)
        if not self._shares_address:
            self._node.addresses.remove(self._context.ip)
            self._node.ring.release(self._context.ip)

    # --------------------------------------------------------------------- end

    def _grace(self) -> float:
        own = self.pod["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE)
        return float(self.pod["metadata"].get("deletionGracePeriodSeconds", own))

    def _stop(self, grace: float) -> None:
        """Ask every container to end, and kill them after the grace; a shorter one may follow."""
        loop = asyncio.get_running_loop()
        when = loop.time() + grace
        if self._kill_timer is not None:
            if self._kill_timer.when() <= when:
                return
            self._kill_timer.cancel()
        self._kill_timer = loop.call_at(when, self._kill_containers)
        if not self._around.stopping.is_set():
            self._around.stopping.set()
            for container in self._containers:
                container.terminate()

    def _kill_containers(self) -> None:
        for container in self._containers:
            container.kill()

    def _arm_deadline(self) -> None:
        """Count activeDeadlineSeconds, which may be set or lowered while the pod runs."""
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
            self._deadline_timer = None
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        if seconds is None or self.finished.is_set():
            return
        passed = (self._node.clock() - clock.parse(self._started_at)).total_seconds()
        loop = asyncio.get_running_loop()
        self._deadline_timer = loop.call_later(max(0.0, seconds - passed), self._miss_deadline)

    def _miss_deadline(self) -> None:
        if self._ended or self._around.stopping.is_set():
            return
        self._outcome = status.DEADLINE
        self._stop(float(self.pod["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE)))

    def _end(self) -> None:
        self._ended = True
        if self._outcome is not None or self._around.stopping.is_set():
            for container in self._containers:
                status.close(container.record)
        self._writer.mark()

    async def _release(self) -> None:
        """Let go of the object: only the kubelet ends the life of a pod that was bound."""
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": self._context.uid},
        }
        await asyncio.to_thread(shutil.rmtree, self._context.folder, ignore_errors=True)
        while not self._gone:
            try:
                await self._node.link.request("DELETE", self._context.path, options)
            except ApiError as error:
                if error.status in GONE:
                    break
                await asyncio.sleep(RETRY_SECONDS)
            except (aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(RETRY_SECONDS)
            else:
                break

    # ------------------------------------------------------------------ status

    async def _write(self) -> None:
        now = clock.to_seconds(self._node.clock())
        if self._outcome is status.REJECTED:
            body: Json = {
                "phase": status.FAILED,
                "reason": status.REJECTED.reason,
                "message": status.REJECTED.message,
                "startTime": self._started_at,
                "observedGeneration": self.pod["metadata"].get("generation"),
            }
        else:
            body = status.pod_status(self._report(), now=now)
        patch = {"metadata": {"uid": self._context.uid}, "status": body}
        path = f"{self._context.path}/status"
        found = await self._node.link.request("PATCH", path, patch, content_type=STRATEGIC)
        self.pod = {**self.pod, "status": found["status"]}

    def _report(self) -> status.PodReport:
        return status.PodReport(
            pod=self.pod,
            started_at=self._started_at,
            host_ip=self._node.ip,
            pod_ip=self._context.ip,
            has_sandbox=self._has_sandbox,
            init=_records(self._init),
            main=_records(self._main),
            ended=self._ended,
            outcome=self._outcome,
        )


def _records(containers: list[Container]) -> list[ContainerRecord]:
    return [container.record for container in containers]


def _refuse_unsupported(spec: Json) -> None:
    for container in spec.get("initContainers") or []:
        if container.get("restartPolicy") == "Always":
            message = f"init container {container['name']} is a sidecar, which is not supported"
            raise UnsupportedError(message)
