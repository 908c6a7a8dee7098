"""What one look at the cluster found: everything `step` may know."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from ebbtide.core.values.job import BrokenJob, Job
from ebbtide.core.values.past import Past
from ebbtide.core.values.pool import Pool
from ebbtide.core.values.status import JobStatus
from ebbtide.core.values.workload import Profile
from ebbtide.wire.messages import Report


class Role(enum.StrEnum):
    """What a pod of ours does."""

    WORKER = "worker"
    SERVER = "server"
    COORDINATOR = "coordinator"


class PodPhase(enum.StrEnum):
    """The API's phases."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod of the job: the facts of its object that decisions rest on."""

    name: str
    uid: str
    role: Role
    index: int
    attempt: int
    created: datetime
    pool: str = ""  # of its label
    node: str = ""  # "" = not bound
    phase: PodPhase = PodPhase.PENDING
    reason: str = ""
    message: str = ""
    deletion_requested: datetime | None = None  # metadata.deletionTimestamp less its grace period
    bound_since: datetime | None = None  # status.startTime: when its kubelet took it up
    unschedulable_since: datetime | None = None  # PodScheduled=False/Unschedulable
    unschedulable_message: str = ""
    ready: bool = False
    started: bool = False  # the trainer's container has run
    waiting_reason: str = ""  # of the first container that waits: ErrImagePull ...
    waiting_message: str = ""
    waiting_image: str = ""  # of that container
    exit_container: str = ""  # the first container that ended badly, init containers included
    exit_code: int | None = None  # of it, else of the trainer
    exit_reason: str = ""  # OOMKilled, ContainerStatusUnknown, Error ...
    exit_message: str = ""
    finished_at: datetime | None = None
    disruption: str = ""  # reason of DisruptionTarget=True
    disruption_message: str = ""
    boot_id: str = ""  # annotation: of the node when the pod was first seen bound there
    template_hash: str = ""
    ip: str = ""
    gpus: int = 0
    active_deadline: int | None = None  # spec.activeDeadlineSeconds

    @property
    def ended(self) -> bool:
        """Every container is done for good."""
        return self.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)

    @property
    def index_key(self) -> str:
        """The key of its index in `status.attempts`, as in worker-0."""
        return f"{self.role}-{self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A taint of a node."""

    key: str
    effect: str
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node that carries a pod of the job, or could."""

    name: str
    uid: str
    ready: bool
    ready_reason: str = ""
    ready_changed: datetime  # last transition of the Ready condition
    boot_id: str = ""
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    gpus: int = 0  # allocatable


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorView:
    """The coordinator's last word, and whether it can be reached now."""

    report: Report | None = None  # of the coordinator attempt that runs now
    heard: datetime | None = None
    error: str = ""  # why the last call failed; "" = it did not


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One consistent look. Pods are ours by owner UID; others of our names are `foreign`."""

    job: Job | BrokenJob
    status: JobStatus
    pods: tuple[Pod, ...] = ()
    departed: tuple[Pod, ...] = ()
    """The last that was seen of pods whose objects are gone and whose ends are not counted."""
    nodes: Mapping[str, Node] = field(default_factory=dict)
    pools: tuple[Pool, ...] = ()
    pasts: Mapping[str, Past] = field(default_factory=dict)  # by pool, where there is one
    pool_load: Mapping[str, int] = field(
        default_factory=dict
    )  # GPUs asked for by pods of other jobs
    node_gpus: Mapping[str, int] = field(
        default_factory=dict
    )  # GPUs of live pods on each node, all jobs
    coordinator: CoordinatorView = CoordinatorView()
    former_attempts: Mapping[str, int] = field(default_factory=dict)
    """Largest attempt by index on pods of a former job of this name, still terminating."""
    has_secret: bool = False
    service_attempt: int | None = (
        None  # the coordinator attempt that the Service selects; None = no Service
    )
    foreign: frozenset[str] = (
        frozenset()
    )  # names among ours that somebody else owns: `Pod x`, `Service y`
    profile: Profile | None = None  # of the WorkloadProfile that the job names
    profile_error: str = ""  # why there is none, though the job names one
    rejected: str = ""  # why the API server refused our pod, from the last attempt to create it
