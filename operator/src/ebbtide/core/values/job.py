"""A TrainingJob's wishes, checked and with every default filled in."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from typing_extensions import override


class SpotUse(enum.StrEnum):
    """How far a job goes along with spot capacity."""

    ALLOW = "Allow"
    NEVER = "Never"
    ONLY = "Only"


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

    steps: int
    global_batch_size: int
    min_replicas: int
    max_replicas: int
    pools: tuple[str, ...] | None = None  # names; None = see pool_selector
    pool_selector: Mapping[str, str] | None = None  # labels; None and no names = all that fit
    on_demand_floor: int = 1
    spot: SpotUse = SpotUse.ALLOW
    gpus_per_worker: int = 1
    processes_per_worker: int = 1
    checkpoint_path: str = "/checkpoints"
    checkpoint_interval: timedelta = timedelta(seconds=60)
    checkpoint_retain: int = 3
    suspend: bool = False
    managed_by: str = ""
    backoff_limit: int = 6
    active_deadline: timedelta | None = None
    ttl_after_finished: timedelta | None = None
    clean_pod_policy: CleanPodPolicy = CleanPodPolicy.RUNNING
    template: Mapping[str, Any] = field(default_factory=dict)  # PodTemplateSpec as applied
    template_hash: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenJob:
    """A job object that cannot be read as a `Job`, and why."""

    key: JobKey
    uid: str
    generation: int
    resource_version: str
    managed_by: str
    errors: tuple[str, ...]  # `path: what is wrong and what would be right`
