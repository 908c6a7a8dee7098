"""A TrainingJob's wishes, checked and with every default filled in."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from typing_extensions import override

from ebbtide.core.values.objective import Objective, PlanMode

MAX_SERVERS: Final = 64
"""Parameter servers that a job may ask for, and the most that a plan chooses."""


class SpotUse(enum.StrEnum):
    """How far a job goes along with spot capacity."""

    ALLOW = "Allow"
    NEVER = "Never"
    ONLY = "Only"


class Launcher(enum.StrEnum):
    """How the training command is run, and so who says how far it is and when it is done."""

    LIBRARY = "Library"  # under our runtime, which counts steps
    TORCHRUN = "Torchrun"  # an unmodified torchrun script under our rendezvous
    COMMAND = "Command"  # as it is: it keeps its own membership


class CleanPodPolicy(enum.StrEnum):
    """What happens to the pods when the job ends."""

    RUNNING = "Running"  # delete the pods that still run
    ALL = "All"
    NONE = "None"  # keep the objects, stop what still runs


@dataclass(frozen=True, slots=True, order=True)
class JobKey:
    """Where a job lives."""

    namespace: str
    name: str

    @override
    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One TrainingJob; `replicas` always counts workers."""

    key: JobKey
    uid: str
    generation: int
    resource_version: str
    created: datetime
    deleting: bool = False

    launcher: Launcher = Launcher.LIBRARY
    steps: int  # 0 = nobody counts them
    global_batch_size: int  # 0 = nobody knows
    min_replicas: int
    max_replicas: int
    replica_increment_step: int = 1
    replica_discrete_values: tuple[int, ...] = ()  # () = every step from min_replicas on
    replicas: int | None = None  # what plan_mode Manual runs
    objective: Objective = field(default_factory=Objective)
    plan_mode: PlanMode = PlanMode.AUTO
    profile: str | None = None  # name of a WorkloadProfile in the job's namespace
    workload: str = ""  # where no profile is named: one of this workload will do
    pools: tuple[str, ...] | None = None  # names; None = see pool_selector
    pool_selector: Mapping[str, str] | None = None  # labels; None and no names = all that fit
    on_demand_floor: int = 1
    spot: SpotUse = SpotUse.ALLOW
    gpus_per_worker: int = 1
    processes_per_worker: int = 1
    warm_image: str = ""  # of workers and spares, while it can be pulled; "" = the template's
    spares: int | None = 0  # warm workers beyond those that train; None = Auto: the plan says
    servers: int | None = 0  # None = Auto: the plan says; 0 = gradients meet by all-reduce
    max_staleness: int | None = None  # pushes that a gradient may be behind; None = any
    server_resources: Mapping[str, Any] | None = None  # None = the template's, without GPUs
    checkpoint_path: str = "/checkpoints"
    checkpoint_interval: timedelta | None = None  # None = Auto: the plan says
    checkpoint_retain: int = 3
    suspend: bool = False
    managed_by: str = ""
    backoff_limit: int = 6
    active_deadline: timedelta | None = None
    ttl_after_finished: timedelta | None = None
    clean_pod_policy: CleanPodPolicy = CleanPodPolicy.RUNNING
    template: Mapping[str, Any] = field(default_factory=dict)  # PodTemplateSpec as applied
    template_hash: str = ""

    @property
    def counts_steps(self) -> bool:
        """Whether the trainer tells how far it is; else all that is known is how pods end."""
        return self.launcher is Launcher.LIBRARY

    @property
    def has_coordinator(self) -> bool:
        """Whether members meet through a coordinator; a plain command has its own ways."""
        return self.launcher is not Launcher.COMMAND

    @property
    def template_image(self) -> str:
        """The image of the trainer as the template names it."""
        image: str = self.template["spec"]["containers"][0]["image"]
        return image

    @property
    def uses_servers(self) -> bool:
        """Whether the parameters live on servers, and not with every worker."""
        return self.servers != 0

    def sizes(self) -> tuple[int, ...]:
        """Return the legal numbers of workers, ascending."""
        return legal_sizes(
            self.min_replicas,
            self.max_replicas,
            step=self.replica_increment_step,
            values=self.replica_discrete_values,
        )


def legal_sizes(
    least: int, most: int, *, step: int = 1, values: Sequence[int] = ()
) -> tuple[int, ...]:
    """Return the numbers of workers from `least` to `most` that a job may have, ascending."""
    if values:
        return tuple(sorted({size for size in values if least <= size <= most}))
    return tuple(range(least, most + 1, step))


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenJob:
    """A job object that cannot be read as a `Job`, and why."""

    key: JobKey
    uid: str
    generation: int
    resource_version: str
    managed_by: str
    errors: tuple[str, ...]  # `path: what is wrong and what would be right`
