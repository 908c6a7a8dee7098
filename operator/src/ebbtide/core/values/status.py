"""The status of a job as values; `api` turns it into the sub-resource and back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from ebbtide.core.values.plan import Measured, Plan, PlanRecord, Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition, as metav1.Condition."""

    type: str
    status: str  # True, False, Unknown
    reason: str
    message: str = ""
    observed_generation: int = 0
    last_transition: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """What is known of one index's pods beyond those that still exist."""

    last: int = 0  # largest attempt ever made
    judged: int = 0  # every end up to this attempt is counted
    retired: tuple[int, ...] = ()  # above `judged`: ours to end, whatever it says counts nothing
    tried: tuple[str, ...] = ()  # pools where it waited in vain since it last ran
    lost: bool = False  # a member was lost here and none has taken its place
    stumbles: int = 0  # ends in a row before the trainer ever started
    ended: datetime | None = None  # when the last counted end was
    failed: bool = False  # ... and whether it was a failure
    followed: bool = False  # ... or only the consequence of another worker's
    done: bool = False  # its newest attempt exited 0, where exits tell that the work is done


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far training is."""

    step: int = 0
    steps: int = 0
    steps_per_second: float = 0.0
    predicted_steps_per_second: float | None = None  # None: nothing was predicted
    percentage: int = 0
    estimated_remaining_seconds: int | None = None
    last_checkpoint_step: int | None = None
    last_checkpoint_time: datetime | None = None
    updated: datetime | None = None  # when progress and cost were last written


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCharge:
    """A node that the job pays for now."""

    node: str
    uid: str
    pool: str
    usd_per_hour: Decimal  # this job's share of the whole node's price
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What was spent. `settled` holds charges that ended, `nodes` those that still run."""

    spent_usd: Decimal = Decimal(0)
    settled_usd: Decimal = Decimal(0)
    nodes: tuple[NodeCharge, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Only ever growing."""

    revocations: int = 0
    failures: int = 0
    restarts: int = 0
    steps_lost: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LastFailure:
    """The failure that was counted last: those of one generation within a window count once."""

    generation: int
    time: datetime
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedImage:
    """An image of `warmStart` that could not be pulled, and so is used no more."""

    image: str
    since: datetime
    message: str = ""  # what the kubelet said


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleStatus:
    """Pods of one role by state."""

    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """Workers by state."""

    desired: int = 0
    ready: int = 0  # members of the current generation
    spot: int = 0  # of these
    on_demand: int = 0
    spares: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Display:
    """Ready-made texts of printer columns."""

    ready: str = ""
    gpu: str = ""
    spot: str = ""
    progress: str = ""
    plan: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """Everything we keep in `status`."""

    observed_generation: int = -1
    state: str = ""
    conditions: tuple[Condition, ...] = ()
    first_start: datetime | None = None
    start: datetime | None = None
    completion: datetime | None = None
    generation: int = 0
    members: int = 0
    replicas: Replicas = Replicas()
    replica_statuses: Mapping[str, RoleStatus] = field(default_factory=dict)
    selector: str = ""
    attempts: Mapping[str, Attempts] = field(default_factory=dict)
    progress: Progress = Progress()
    cost: Cost = Cost()
    counters: Counters = Counters()
    last_failure: LastFailure | None = None
    refused_image: RefusedImage | None = None
    display: Display = Display()
    plan: Plan | None = None
    plan_changes: tuple[datetime, ...] = ()  # of the plan, within the last hour, the oldest first
    plan_basis: str = ""  # changes with what a plan must answer, before a dash what it must at once
    plan_measured: Measured | None = None  # what the plan knew of the speed
    plan_refusal: Refusal | None = None  # why there is none

    def condition(self, kind: str) -> Condition | None:
        """Return one condition by type."""
        return next((c for c in self.conditions if c.type == kind), None)

    def is_true(self, kind: str) -> bool:
        """Tell whether one condition is True."""
        found = self.condition(kind)
        return found is not None and found.status == "True"

    @property
    def record(self) -> PlanRecord:
        """The plan with what it rests on."""
        return PlanRecord(
            plan=self.plan,
            basis=self.plan_basis,
            changes=self.plan_changes,
            measured=self.plan_measured,
            refusal=self.plan_refusal,
        )
