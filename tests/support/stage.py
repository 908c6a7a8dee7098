"""A stage for `step`: the smallest world in which its decisions have effect.

It applies decisions the way an API server, a scheduler and a coordinator would, in no time: pods
are made and deleted, bound to nodes of their own, and the newest running attempt of each index is
a member. A test plays the provider: it takes nodes away and lets pods fail.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from ebbtide.core.lifecycle.remembering import PoolView, remember
from ebbtide.core.planner.knowledge import Knowledge
from ebbtide.core.step import step
from ebbtide.core.values.decision import (
    Action,
    ApplyService,
    CreatePod,
    CreateSecret,
    Decision,
    DeleteJob,
    DeletePod,
    DeleteService,
    EndPod,
    Event,
    MarkBoot,
    Tell,
)
from ebbtide.core.values.job import Job
from ebbtide.core.values.observed import Node, Observed, Pod, PodPhase, Role, Taint
from ebbtide.core.values.past import Past
from ebbtide.core.values.pool import Pool
from ebbtide.core.values.settings import Settings
from ebbtide.core.values.status import JobStatus
from ebbtide.wire.messages import Report, ServerReport, WorkerReport, WorkSpec
from support.builders import ON_DEMAND, SPOT, START, make_job, make_view


class Stage:
    """One job on an obliging cluster."""

    def __init__(
        self,
        job: Job,
        *pools: Pool,
        settings: Settings | None = None,
        knowledge: Knowledge | None = None,
    ) -> None:
        self.job = job
        self.pools = pools
        self.settings = settings or Settings()
        self.knowledge = knowledge
        self.now: datetime = START
        self.status = JobStatus()
        self.pods: dict[str, Pod] = {}
        self.pasts: dict[str, Past] = {}
        self.nodes: dict[str, Node] = {}
        self.full: set[str] = set()  # pools that give no node now
        self.broken_image = False  # no image of a worker can be pulled
        self.unpullable: set[str] = set()
        self.images: dict[str, str] = {}  # of workers, by pod; "" = the template's
        self.service: int | None = None
        self.secret = False
        self.work: WorkSpec | None = None
        self.at_step = 0
        self.finished = False
        self.departed: tuple[Pod, ...] = ()  # seen before they vanished
        self.silent = False  # nobody reaches the coordinator
        self.unregistered = False  # no worker has come to the coordinator yet
        self.reforming = False  # the members hold still between two generations
        self.warned: set[str] = set()
        self.expelled: set[str] = set()
        self.half_open: set[str] = set()  # servers whose end the coordinator has not seen
        self.gone = False  # the job object was deleted
        self.actions: list[Action] = []
        self.events: list[Event] = []
        self.num_passes = 0
        self._seats: set[int] = set()  # indexes that train

    # ------------------------------------------------------------ the world goes on

    def settle(self, limit: int = 50) -> Decision:
        """Pass until nothing changes any more; return the last decision."""
        for _ in range(limit):
            before = (self.status, dict(self.pods), self.service, self.secret, self.work)
            decision = self.pass_once()
            self._live()
            if before == (self.status, dict(self.pods), self.service, self.secret, self.work):
                return decision
        message = f"no rest after {limit} passes: {self.status.state}, pods {sorted(self.pods)}"
        raise AssertionError(message)

    def pass_once(self) -> Decision:
        """Look, decide, act, write."""
        decision = step(
            self.observe(), now=self.now, settings=self.settings, knowledge=self.knowledge
        )
        self.num_passes += 1
        for action in decision.actions:
            self.actions.append(action)
            self._act(action)
        if decision.status is not None:
            self.status = decision.status
        self.events += decision.events
        return decision

    def wait(self, seconds: float) -> None:
        """Let time pass and the job settle, looking whenever it asked to."""
        end = self.now + timedelta(seconds=seconds)
        decision = self.settle()
        while True:
            left = decision.requeue_after if decision.requeue_after is not None else end - self.now
            self.now = min(end, self.now + max(left, timedelta(seconds=0.1)))
            decision = self.settle()
            if self.now >= end:
                return

    # ------------------------------------------------------------ what a test does to it

    def lose_node(self, name: str) -> None:
        """Take a node away without a word."""
        del self.nodes[name]

    def warn_node(self, name: str, key: str = "karpenter.sh/disrupted") -> None:
        """Put a going-away taint on a node."""
        taint = Taint(key=key, effect="NoSchedule")
        self.nodes[name] = replace(self.nodes[name], taints=(taint,), unschedulable=True)

    def reprieve_node(self, name: str) -> None:
        """Take the warning back."""
        self.nodes[name] = replace(self.nodes[name], taints=(), unschedulable=False)

    def end_pod(self, name: str, code: int, **changes: object) -> None:
        """Let a pod's container exit."""
        phase = PodPhase.SUCCEEDED if code == 0 else PodPhase.FAILED
        pod = replace(
            self.pods[name],
            phase=phase,
            ready=False,
            exit_container="trainer",
            exit_code=code,
            finished_at=self.now,
        )
        self.pods[name] = replace(pod, **changes)  # type: ignore[arg-type]  # fields of Pod

    def vanish_pod(self, name: str) -> None:
        """Remove a pod object as a user with kubectl does."""
        del self.pods[name]

    def finish(self) -> None:
        """Let the training reach its last step and every member exit 0."""
        self.at_step, self.finished = self.job.steps, True
        members = self.members()
        self.settle()
        for name in members:
            if name in self.pods:
                self.end_pod(name, 0)

    def members(self) -> tuple[str, ...]:
        """Return the names of the pods that train now."""
        report = self._report()
        return report.members if report is not None and report.training else ()

    # ------------------------------------------------------------ inside

    def observe(self) -> Observed:
        """Return what `step` gets to see."""
        return Observed(
            job=self.job,
            status=self.status,
            pods=tuple(self.pods.values()),
            departed=self.departed,
            nodes=dict(self.nodes),
            pools=self.pools,
            pasts=self._remember(),
            node_gpus={p.node: p.gpus for p in self.pods.values() if p.node and not p.ended},
            coordinator=make_view(self._report(), heard=self.now),
            has_secret=self.secret,
            service_attempt=self.service,
        )

    def _remember(self) -> dict[str, Past]:
        """Keep what this look shows of each pool, as the operator does."""
        for pool in self.pools:
            own = tuple(pod for pod in self.pods.values() if pod.pool == pool.name)
            before = self.pasts.get(pool.name, Past())
            view = PoolView(pods=own, nodes=self.nodes)
            self.pasts[pool.name] = remember(before, view, now=self.now, settings=self.settings)
        return dict(self.pasts)

    def _act(self, action: Action) -> None:  # noqa: C901 -- one case for each action
        match action:
            case CreateSecret():
                self.secret = True
            case ApplyService(attempt=attempt):
                self.service = attempt
            case CreatePod():
                self._create(action)
            case DeletePod(name=name, uid=uid):
                pod = self.pods.get(name)
                if pod is not None and pod.uid == uid:
                    del self.pods[name]
            case EndPod(name=name):
                self.end_pod(name, 143, reason="DeadlineExceeded")
            case MarkBoot(name=name, boot_id=boot_id):
                self.pods[name] = replace(self.pods[name], boot_id=boot_id)
            case Tell(call="configure", work=work):
                self.work = work
            case Tell(call=call, worker=worker, on=on):
                self._hear(call, worker, on=on)
            case DeleteService():
                self.service = None
            case DeleteJob():
                self.gone = True

    def _hear(self, call: str, worker: str, *, on: bool) -> None:
        if call == "warn":
            (self.warned.add if on else self.warned.discard)(worker)
        if call == "expel":
            self.expelled.add(worker)
            self.half_open.discard(worker)

    def _create(self, action: CreatePod) -> None:
        name = f"{self.job.key.name}-{action.role}-{action.index}-{action.attempt}"
        if name in self.pods:
            message = f"{name} was made twice"
            raise AssertionError(message)
        worker = action.role is Role.WORKER
        if action.role is Role.COORDINATOR:
            self.work = action.work
        self.images[name] = action.image
        self.pods[name] = Pod(
            name=name,
            uid=f"uid-{name}-{self.num_passes}",
            role=action.role,
            index=action.index,
            attempt=action.attempt,
            created=self.now,
            pool=action.pool.name if action.pool else "",
            gpus=self.job.gpus_per_worker if worker else 0,
            template_hash=self.job.template_hash if worker else "",
        )

    def _live(self) -> None:
        """Bind, start and let run what can."""
        for name, pod in list(self.pods.items()):
            if pod.phase is not PodPhase.PENDING:
                continue
            if pod.pool in self.full:
                since = pod.unschedulable_since or self.now
                self.pods[name] = replace(pod, unschedulable_since=since)
                continue
            node = f"node-of-{name}"
            if node not in self.nodes and not pod.node:
                self.nodes[node] = Node(
                    name=node, uid=node, ready=True, ready_changed=self.now, boot_id=f"boot-{node}"
                )
            bound = replace(pod, node=node, unschedulable_since=None)
            bound = replace(bound, bound_since=pod.bound_since or self.now)
            image = self.images[name] or (self.job.template_image if self.job.template else "")
            is_refused = self.broken_image or image in self.unpullable
            if is_refused and pod.role is Role.WORKER:
                self.pods[name] = replace(
                    bound,
                    waiting_reason="ImagePullBackOff",
                    waiting_message="manifest unknown",
                    waiting_image=image,
                )
                continue
            self.pods[name] = replace(bound, phase=PodPhase.RUNNING, ready=True, started=True)

    def _report(self) -> Report | None:
        if self.silent:
            return None
        seats = [p for p in self.pods.values() if p.role is Role.COORDINATOR and self._runs(p)]
        if not seats:
            return None
        running = [p for p in self.pods.values() if p.role is Role.WORKER and self._runs(p)]
        running = [] if self.unregistered else running
        members = self._choose_members(running)
        enough = len(members) >= self.job.min_replicas
        training = (enough and not self.reforming) or self.finished
        return Report(
            attempt=max(p.attempt for p in seats),
            version=self.num_passes,
            generation=max(p.attempt for p in seats) * 1_000_000 + 1 if training else 0,
            members=members if training else (),
            training=training,
            step=self.at_step,
            steps_per_second=1.0,
            finished=self.finished,
            work=self.work,
            workers=tuple(
                WorkerReport(
                    worker=pod.name,
                    index=pod.index,
                    attempt=pod.attempt,
                    state="member" if pod.name in members and enough else "spare",
                    warned=pod.name in self.warned,
                )
                for pod in running
            ),
            servers=tuple(
                ServerReport(server=p.name, index=p.index, attempt=p.attempt, in_map=True)
                for p in self.pods.values()
                if p.role is Role.SERVER and (p.name in self.half_open or self._runs(p))
            ),
        )

    def _choose_members(self, running: list[Pod]) -> tuple[str, ...]:
        """As many as are wanted: who trains stays, then the lower index comes first."""
        by_index: dict[int, Pod] = {}
        for pod in sorted(running, key=self._preference):
            by_index[pod.index] = pod
        desired = self.work.desired if self.work else self.job.max_replicas
        chosen = sorted(
            by_index.values(), key=lambda pod: (pod.index not in self._seats, pod.index)
        )
        self._seats = {pod.index for pod in chosen[:desired]}
        return tuple(by_index[index].name for index in sorted(self._seats))

    def _preference(self, pod: Pod) -> tuple[bool, int]:
        """Sort so that the last of an index is its member: warned ones stay until they go."""
        return (pod.attempt == min(self._attempts(pod.index)), -pod.attempt)

    def _attempts(self, index: int) -> list[int]:
        mine = (p for p in self.pods.values() if p.role is Role.WORKER and p.index == index)
        return [pod.attempt for pod in mine if self._runs(pod)]

    def _runs(self, pod: Pod) -> bool:
        return pod.phase is PodPhase.RUNNING and pod.node in self.nodes


def until(stage: Stage, holds: Callable[[Stage], bool], *, limit: float, pace: float = 1.0) -> None:
    """Let time pass until something holds, or fail after `limit` seconds of the stage's time."""
    end = stage.now + timedelta(seconds=limit)
    while not holds(stage):
        if stage.now >= end:
            message = f"not within {limit} s: state {stage.status.state}, pods {sorted(stage.pods)}"
            raise AssertionError(message)
        stage.wait(pace)


NAMES = ["digits-worker-0-1", "digits-worker-1-1", "digits-worker-2-1"]


def on_stage(**job: Any) -> Stage:
    stage = Stage(make_job(**job), SPOT, ON_DEMAND)
    stage.settle()
    return stage


def workers(stage: Stage) -> list[str]:
    return sorted(p.name for p in stage.pods.values() if p.role is Role.WORKER)


def reason(stage: Stage, kind: str) -> str:
    condition = stage.status.condition(kind)
    return condition.reason if condition else ""
