"""API server, scheduler and kubelets in virtual time, as far as pods of one job show of them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ebbtide.core.simulator.virtual.agenda import Agenda, seconds
from ebbtide.core.simulator.virtual.cloud import Cloud
from ebbtide.core.simulator.virtual.coordinator import Coordinator
from ebbtide.core.simulator.virtual.hands import Hand
from ebbtide.core.simulator.virtual.progress import Tally
from ebbtide.core.simulator.virtual.timing import Timing
from ebbtide.core.values.decision import CreatePod
from ebbtide.core.values.job import Job
from ebbtide.core.values.observed import Pod, PodPhase, Role
from ebbtide.wire.names import EXIT_DONE, EXIT_LEFT, pod_name

SYSTEM: Final = "system"
"""The node that carries coordinators and servers: on-demand, never taken, not on the job's bill."""
END_AT_ONCE: Final = 1
"""activeDeadlineSeconds of a pod that is ended while its object is kept."""

Rate = Callable[[tuple[Pod, ...]], float]


class WorldError(RuntimeError):
    """Something was asked of the world that cannot be: a fault of ours."""


class Pods:
    """All pods of one job, and what runs in them."""

    def __init__(
        self, job: Job, *, agenda: Agenda, timing: Timing, cloud: Cloud, rate: Rate
    ) -> None:
        self.job = job
        self.agenda = agenda
        self.timing = timing
        self.tally = Tally()
        self.objects: dict[str, Pod] = {}
        self.departed: dict[str, Pod] = {}
        self.coordinator: Coordinator | None = None
        self.has_news = False
        self._cloud = cloud
        self._rate = rate
        self._creation: dict[str, CreatePod] = {}  # of coordinators
        self._joined: set[str] = set()  # workers whose imports are done
        self._dark: set[str] = set()  # pods on nodes without power
        self._num_made = 0

    def tell(self) -> None:
        """Say that there is something new to see."""
        self.has_news = True

    # ------------------------------------------------------------ what the operator does

    def create(self, action: CreatePod) -> None:
        """Take a pod; raises WorldError where there is one of this name."""
        job, is_worker = self.job, action.role is Role.WORKER
        name = pod_name(
            job=job.key.name, role=action.role, index=action.index, attempt=action.attempt
        )
        if name in self.objects:
            raise WorldError(f"pod {name} was made twice")
        self._num_made += 1
        self.objects[name] = Pod(
            name=name,
            uid=f"uid-{self._num_made}",
            role=action.role,
            index=action.index,
            attempt=action.attempt,
            created=self.agenda.now,
            pool=action.pool.name if action.pool is not None else "",
            gpus=job.gpus_per_worker if is_worker else 0,
            template_hash=job.template_hash if is_worker else "",
        )
        if action.pool is not None:
            self.schedule(action.pool.name)
            self._cloud.fill(action.pool.name)
        else:
            self._creation[name] = action
            self._bind(name, SYSTEM, starts_after_s=self.timing.coordinator_s)
        self.tell()

    def delete(self, name: str, *, force: bool) -> None:
        """Delete a pod as the API server does: at once, or when its kubelet has ended it."""
        pod = self.objects.get(name)
        if pod is None:
            return
        if force or pod.ended or not pod.node:
            self._remove(name)
        elif pod.deletion_requested is None:
            self._change(name, deletion_requested=self.agenda.now)
            self._end(name, grace_s=self._grace_s(pod))

    def end(self, name: str) -> None:
        """Have the kubelet end a pod whose object stays."""
        pod = self.objects.get(name)
        if pod is not None and not pod.ended and pod.active_deadline is None:
            self._change(name, active_deadline=END_AT_ONCE)
            self.agenda.after(END_AT_ONCE, lambda: self._end(name, grace_s=self._grace_s(pod)))

    def mark_boot(self, name: str, boot_id: str) -> None:
        """Write the annotation."""
        if name in self.objects:
            self._change(name, boot_id=boot_id)

    def stop(self, name: str, seconds_left: float) -> None:
        """Have the coordinator tell a worker to leave."""
        if self.coordinator is not None:
            self.coordinator.leave(name, self.agenda.now + seconds(seconds_left))

    # ------------------------------------------------------------ what the cloud asks and does

    def num_waiting(self, pool: str) -> int:
        """Return how many pods of a pool wait for a node."""
        return sum(p.pool == pool and _is_waiting(p) for p in self.objects.values())

    def is_used(self, node: str) -> bool:
        """Tell whether a pod that has not ended is on a node."""
        return any(pod.node == node and not pod.ended for pod in self.objects.values())

    def schedule(self, pool: str) -> None:
        """Bind what waits to nodes of the pool with room, the oldest pods first."""
        waiting = [p for p in self.objects.values() if p.pool == pool and _is_waiting(p)]
        if not waiting:
            return
        each = self._cloud.pools[pool].workers_per_node(self.job.gpus_per_worker)
        rooms = {
            machine.name: each - self._num_on(machine.name)
            for machine in self._cloud.with_room(pool)
        }
        for pod in sorted(waiting, key=lambda p: (p.created, p.index, p.attempt)):
            node = next((name for name, room in rooms.items() if room > 0), "")
            if node:
                rooms[node] -= 1
                self._bind(pod.name, node, starts_after_s=self.timing.container_s)
                self._cloud.look_for_use(node)
            elif pod.unschedulable_since is None:
                text = f"no node of pool {pool} has {pod.gpus} GPUs free"
                now = self.agenda.now
                self._change(pod.name, unschedulable_since=now, unschedulable_message=text)

    def cut(self, node: str) -> None:
        """Have every process on a node stop without a word."""
        for pod in list(self.objects.values()):
            if pod.node == node and not pod.ended:
                self._dark.add(pod.name)
                if self.coordinator is not None:
                    self.coordinator.cut(pod.name)

    def orphan(self, node: str) -> None:
        """Have pods of a Node that is gone be collected, in a while."""
        for pod in list(self.objects.values()):
            if pod.node == node:
                self._collect_later(pod.name)

    def _collect_later(self, name: str) -> None:
        self.agenda.after(self.timing.collection_s, lambda: self._collect(name))

    def _collect(self, name: str) -> None:
        pod = self.objects.get(name)
        if pod is None:
            return
        if not pod.ended:
            text = "PodGC: node no longer exists"
            self._change(
                name,
                phase=PodPhase.FAILED,
                ready=False,
                disruption="DeletionByPodGC",
                disruption_message=text,
            )
        self._remove(name)

    # ------------------------------------------------------------ what the coordinator does

    def rate(self, workers: tuple[str, ...]) -> float:
        """Return how many steps per second these pods make together."""
        return self._rate(tuple(self.objects[name] for name in workers))

    def leave(self, worker: str, code: int) -> None:
        """Let the process of a pod go, with this exit code."""
        self.agenda.after(self.timing.exit_s, lambda: self._exit(worker, code))

    # ------------------------------------------------------------ kubelets

    def _bind(self, name: str, node: str, *, starts_after_s: float) -> None:
        self._change(
            name,
            node=node,
            bound_since=self.agenda.now,
            unschedulable_since=None,
            unschedulable_message="",
        )
        self.agenda.after(starts_after_s, lambda: self._start(name))

    def _start(self, name: str) -> None:
        pod = self.objects.get(name)
        if pod is None or pod.ended or name in self._dark or pod.deletion_requested is not None:
            return
        ip = f"10.0.{pod.index // 256}.{pod.index % 256}"
        self._change(name, phase=PodPhase.RUNNING, ready=True, started=True, ip=ip)
        if pod.role is Role.COORDINATOR:
            self._open(pod)
        if pod.role is not Role.WORKER:
            return  # servers are there or not; what they do to training is not simulated
        join_s = self.timing.join_after_s(first=not self._joined)
        self.agenda.after(join_s, lambda: self._join(name))

    def _join(self, name: str) -> None:
        """Have a worker connect: its imports come first, and the coordinator knows of none."""
        pod = self.objects.get(name)
        if pod is None or pod.ended or name in self._dark:
            return
        self._joined.add(name)
        if self.coordinator is not None:
            self.coordinator.join(_hand(pod))
            self.coordinator.ready(name)

    def _open(self, pod: Pod) -> None:
        """Have a coordinator come up; the workers that are there register."""
        work = self._creation[pod.name].work
        self.coordinator = Coordinator(self, attempt=pod.attempt, work=work)
        there = [
            p for p in self.objects.values()
            if p.name in self._joined and p.phase is PodPhase.RUNNING and p.name not in self._dark
        ]  # fmt: skip
        for worker in there:
            self.coordinator.join(_hand(worker))
        for worker in there:
            self.coordinator.ready(worker.name)

    def _end(self, name: str, *, grace_s: float) -> None:
        """Send SIGTERM, and SIGKILL when the grace is over."""
        pod = self.objects.get(name)
        if pod is None or pod.ended or name in self._dark:
            return
        if name in self._joined and self.coordinator is not None:
            self.coordinator.leave(name, self.agenda.now + seconds(grace_s))
            self.agenda.after(grace_s, lambda: self._exit(name, EXIT_LEFT))
        else:
            self.leave(name, EXIT_DONE if pod.role is Role.COORDINATOR else EXIT_LEFT)

    def _exit(self, name: str, code: int) -> None:
        pod = self.objects.get(name)
        if pod is None or pod.ended or name in self._dark:
            return
        overdue = pod.active_deadline is not None
        self._change(
            name,
            phase=PodPhase.FAILED if code or overdue else PodPhase.SUCCEEDED,
            reason="DeadlineExceeded" if overdue else "",
            ready=False,
            exit_code=code,
            exit_container="trainer" if code else "",
            finished_at=self.agenda.now,
        )
        if pod.role is Role.COORDINATOR:
            self.coordinator = None
        elif self.coordinator is not None:
            self.coordinator.gone(name, by_choice=True)
        if pod.deletion_requested is not None:
            self._remove(name)
        self._make_room(pod)

    def _remove(self, name: str) -> None:
        pod = self.objects.pop(name)
        self.departed[name] = pod
        self._joined.discard(name)
        self._dark.discard(name)
        if pod.role is Role.COORDINATOR:
            if not pod.ended:
                self.coordinator = None
        elif self.coordinator is not None:
            self.coordinator.forget(name)
        self.tell()
        self._make_room(pod)

    def _make_room(self, pod: Pod) -> None:
        if pod.node and pod.pool:
            self.schedule(pod.pool)
            self._cloud.look_for_use(pod.node)

    def _change(self, name: str, **changes: object) -> None:
        self.objects[name] = replace(self.objects[name], **changes)  # type: ignore[arg-type]  # the callers name fields of Pod
        self.tell()

    def _num_on(self, node: str) -> int:
        return sum(pod.node == node and not pod.ended for pod in self.objects.values())

    def _grace_s(self, pod: Pod) -> float:
        """As the operator sets it: what the template says, else the notice of the pool."""
        declared = self.job.template.get("spec", {}).get("terminationGracePeriodSeconds")
        if declared is not None:
            return float(declared)
        pool = self._cloud.pools.get(pod.pool)
        return pool.notice.total_seconds() if pool is not None else 0.0


def _is_waiting(pod: Pod) -> bool:
    return not pod.node and not pod.ended


def _hand(pod: Pod) -> Hand:
    return Hand(name=pod.name, index=pod.index, attempt=pod.attempt)
