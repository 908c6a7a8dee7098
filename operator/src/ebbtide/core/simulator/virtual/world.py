"""One job's world: everything that `step` may know of it, and everything that it may do to it."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

import numpy as np

from ebbtide.core.lifecycle.remembering import PoolView, remember
from ebbtide.core.planner.speed import Speed
from ebbtide.core.simulator.virtual.agenda import Agenda
from ebbtide.core.simulator.virtual.cloud import Cloud
from ebbtide.core.simulator.virtual.pods import SYSTEM, Pods
from ebbtide.core.simulator.virtual.timing import Timing, Trace
from ebbtide.core.values.decision import (
    Action,
    ApplyService,
    CreatePod,
    CreateSecret,
    DeleteJob,
    DeletePod,
    DeleteService,
    EndPod,
    MarkBoot,
    Tell,
)
from ebbtide.core.values.job import Job
from ebbtide.core.values.observed import CoordinatorView, Node, Observed, Pod, PodPhase, Role
from ebbtide.core.values.past import Past
from ebbtide.core.values.pool import Pool
from ebbtide.core.values.settings import Settings
from ebbtide.core.values.status import Attempts, JobStatus
from ebbtide.core.values.workload import Profile


class World:
    """Cloud, pods and coordinator, and the job object itself."""

    def __init__(
        self,
        job: Job,
        pools: tuple[Pool, ...],
        *,
        start: datetime,
        trace: Trace,
        speed: Speed,
        timing: Timing,
        profile: Profile | None = None,
        chance: np.random.Generator,
    ) -> None:
        self.agenda = Agenda(start)
        self.pasts: dict[str, Past] = {}
        self.settings = Settings()  # of the operator; whoever runs this world says otherwise
        self.status = JobStatus()
        self.is_deleted = False  # the job object is gone
        self._speed = speed
        self._profile = profile
        self._batch = job.global_batch_size
        self.cloud = Cloud(
            pools,
            trace,
            agenda=self.agenda,
            timing=timing,
            chance=chance,
            workers_per_node={p.name: p.workers_per_node(job.gpus_per_worker) for p in pools},
        )
        self.pods = Pods(
            job, agenda=self.agenda, timing=timing, cloud=self.cloud, rate=self._steps_per_second
        )
        self.cloud.admit(self.pods)
        self._service: int | None = None
        self._has_secret = False
        self._system = Node(
            name=SYSTEM, uid=SYSTEM, ready=True, ready_changed=start, boot_id=SYSTEM
        )

    @property
    def job(self) -> Job:
        """The job as it is applied now."""
        return self.pods.job

    def apply(self, job: Job) -> None:
        """Change the job, as a user does."""
        self.pods.job = replace(job, generation=self.job.generation + 1)
        self.pods.tell()

    def _steps_per_second(self, workers: tuple[Pod, ...]) -> float:
        paces = self._speed.paces
        summed = sum(paces[self.cloud.pools[pod.pool].gpu_type].value for pod in workers)
        return summed * self._speed.efficiency_of(len(workers)) / self._batch

    # ------------------------------------------------------------ what is seen

    def observe(self) -> Observed:
        """Return what the operator would see, and remember it of the pools."""
        pods = tuple(self.pods.objects.values())
        self._remember(pods)
        return Observed(
            job=self.job,
            status=self.status,
            pods=pods,
            departed=self._departed(),
            nodes={**self.cloud.nodes, SYSTEM: self._system},
            pools=tuple(self.cloud.pools.values()),
            pasts=dict(self.pasts),
            node_gpus=_count_gpus(pods),
            coordinator=self._view(),
            has_secret=self._has_secret,
            service_attempt=self._service,
            profile=self._profile,
        )

    def _remember(self, pods: tuple[Pod, ...]) -> None:
        for name in self.cloud.pools:
            own = tuple(pod for pod in pods if pod.pool == name)
            view = PoolView(pods=own, nodes=self.cloud.nodes)
            before, now = self.pasts.get(name, Past()), self.agenda.now
            self.pasts[name] = remember(before, view, now=now, settings=self.settings)

    def _departed(self) -> tuple[Pod, ...]:
        """Return pods that are gone and whose ends are not counted; forget the others."""
        departed = self.pods.departed
        for name, pod in list(departed.items()):
            if pod.attempt <= self.status.attempts.get(pod.index_key, Attempts()).judged:
                del departed[name]
        return tuple(departed.values())

    def _view(self) -> CoordinatorView:
        coordinator = self.pods.coordinator
        there = any(
            pod.role is Role.COORDINATOR and pod.phase is PodPhase.RUNNING
            for pod in self.pods.objects.values()
        )
        if coordinator is None or not there:
            return CoordinatorView()
        return CoordinatorView(report=coordinator.report(), heard=self.agenda.now)

    # ------------------------------------------------------------ what is done

    def act(self, actions: Iterable[Action]) -> None:
        """Carry out what was decided."""
        for action in actions:
            match action:
                case CreateSecret() | ApplyService() | DeleteService() | DeleteJob():
                    self._act_on_job(action)
                case CreatePod():
                    self.pods.create(action)
                case DeletePod(name=name, force=force):
                    self.pods.delete(name, force=force)
                case EndPod(name=name):
                    self.pods.end(name)
                case MarkBoot(name=name, boot_id=boot_id):
                    self.pods.mark_boot(name, boot_id)
                case Tell():
                    self._tell(action)

    def _act_on_job(self, action: CreateSecret | ApplyService | DeleteService | DeleteJob) -> None:
        match action:
            case CreateSecret():
                self._has_secret = True
            case ApplyService(attempt=attempt):
                self._service = attempt
            case DeleteService():
                self._service = None
            case DeleteJob():
                self.is_deleted = True
                self._collect_children()

    def _tell(self, told: Tell) -> None:
        coordinator = self.pods.coordinator
        if coordinator is None:
            return
        match told.call:
            case "configure" if told.work is not None:
                coordinator.configure(told.work)
            case "stop":
                self.pods.stop(told.worker, told.seconds)
            case "warn":
                coordinator.warn(told.worker, on=told.on)
            case "expel":
                coordinator.expel(told.worker)
            case "checkpoint":
                coordinator.save()
            case _:
                raise ValueError(f"a coordinator cannot be told to {told.call!r}")

    def _collect_children(self) -> None:
        """Delete what belonged to the job object, as the garbage collector does."""
        for name in list(self.pods.objects):
            self.pods.delete(name, force=False)


def _count_gpus(pods: Iterable[Pod]) -> dict[str, int]:
    found: dict[str, int] = {}
    for pod in pods:
        if pod.node and not pod.ended:
            found[pod.node] = found.get(pod.node, 0) + pod.gpus
    return found
