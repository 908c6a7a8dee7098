"""What `step` decides: actions in order, the status to write, events to tell."""

from dataclasses import dataclass, field
from datetime import timedelta

from ebbtide.core.values.observed import Role
from ebbtide.core.values.pool import Pool
from ebbtide.core.values.status import JobStatus
from ebbtide.wire.messages import WorkSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSecret:
    """Make the Secret that holds the job's token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyService:
    """Make or turn the headless Service so that it selects one coordinator attempt."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePod:
    """Make the pod of one attempt."""

    role: Role
    index: int
    attempt: int
    work: WorkSpec  # goes into the coordinator's environment
    image: str = ""  # of the trainer; "" = the template's
    pool: Pool | None = None  # None: wherever it fits, never on spot (coordinator)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePod:
    """Delete a pod object; `force` only where no kubelet will ever answer for it."""

    name: str
    uid: str
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EndPod:
    """Have the kubelet end a pod whose object is kept (activeDeadlineSeconds: 1)."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkBoot:
    """Remember on the pod which boot of its node it was bound to."""

    name: str
    uid: str
    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """Call the coordinator."""

    call: str  # configure, stop, warn, expel, checkpoint, finish
    worker: str = ""
    on: bool = True
    seconds: float = 0.0
    work: WorkSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteService:
    """The job is over and asked for nothing to stay (cleanPodPolicy All)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteJob:
    """Its time to live after the end is over."""


Action = (
    CreateSecret
    | ApplyService
    | CreatePod
    | DeletePod
    | EndPod
    | MarkBoot
    | Tell
    | DeleteService
    | DeleteJob
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One Kubernetes event on the job."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer of one `step`. `status` None: leave the object alone, it is not ours."""

    actions: tuple[Action, ...] = ()
    status: JobStatus | None = None
    events: tuple[Event, ...] = ()
    requeue_after: timedelta | None = field(default=None)
    """When to look again, if only to show how far things are; None: when something changes."""
    decide_after: timedelta | None = field(default=None)
    """When something may have to be decided although nothing changes; None: never."""
