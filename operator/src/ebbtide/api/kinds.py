"""How each kind is called and shown: names, scope, printer columns."""

from dataclasses import dataclass
from typing import Final

from ebbtide.api.capacity_pool import CapacityPool
from ebbtide.api.fields import Schema
from ebbtide.api.training_job import TrainingJob
from ebbtide.api.workload_profile import WorkloadProfile
from ebbtide.wire.names import (
    CAPACITY_POOL,
    CAPACITY_POOLS,
    TRAINING_JOB,
    TRAINING_JOBS,
    WORKLOAD_PROFILE,
    WORKLOAD_PROFILES,
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`; a wide one is shown with `-o wide` only."""

    name: str
    type: str
    path: str
    wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Where the scale sub-resource finds what it shows and writes: paths of the object."""

    wanted: str
    there: str
    selector: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind."""

    name: str
    plural: str
    short: str = ""  # none of its own
    namespaced: bool
    model: type[Schema]
    columns: tuple[Column, ...]
    scale: Scale | None = None


_AGE: Final = Column("Age", "date", ".metadata.creationTimestamp")

JOB: Final = Kind(
    name=TRAINING_JOB,
    plural=TRAINING_JOBS,
    short="tj",
    namespaced=True,
    model=TrainingJob,
    columns=(
        Column("State", "string", ".status.state"),
        Column("Ready", "string", ".status.display.ready"),
        Column("GPU", "string", ".status.display.gpu"),
        Column("Spot", "string", ".status.display.spot"),
        Column("Progress", "string", ".status.display.progress"),
        Column("ETA", "string", ".status.plan.predicted.finishTime"),  # a date would show its age
        Column("Cost", "string", ".status.cost.spentUsd"),
        Column("Restarts", "integer", ".status.counters.restarts"),
        Column("Preemptions", "integer", ".status.counters.revocations"),
        _AGE,
        Column("Failures", "integer", ".status.counters.failures", wide=True),
        Column("Steps lost", "integer", ".status.counters.stepsLost", wide=True),
        Column("Checkpoint", "date", ".status.progress.lastCheckpointTime", wide=True),
        Column("Plan", "string", ".status.display.plan", wide=True),
        Column("Plan age", "date", ".status.plan.madeAt", wide=True),
        Column("Planned cost", "string", ".status.plan.predicted.costUsd", wide=True),
    ),
    scale=Scale(
        wanted=".spec.elasticPolicy.replicas",
        there=".status.replicas.ready",
        selector=".status.selector",
    ),
)
POOL: Final = Kind(
    name=CAPACITY_POOL,
    plural=CAPACITY_POOLS,
    short="cpool",
    namespaced=False,
    model=CapacityPool,
    columns=(
        Column("Market", "string", ".spec.market"),
        Column("GPU", "string", ".spec.gpu.type"),
        Column("Per node", "integer", ".spec.gpu.count"),
        Column("USD/h", "string", ".spec.price.usdPerNodeHour"),
        Column("Ready", "integer", ".status.nodes.ready"),
        Column("Nodes", "integer", ".status.nodes.total"),
        Column("Max", "integer", ".spec.maxNodes"),
        Column("Available", "boolean", ".status.availability.available"),
        _AGE,
        Column("Zone", "string", ".spec.zone", wide=True),
        Column("Notice", "integer", ".spec.noticeSeconds", wide=True),
        Column("Left out until", "string", ".status.availability.leftOutUntil", wide=True),
        Column("Last loss", "date", ".status.lastRevocationTime", wide=True),
    ),
)
PROFILE: Final = Kind(
    name=WORKLOAD_PROFILE,
    plural=WORKLOAD_PROFILES,
    namespaced=True,
    model=WorkloadProfile,
    columns=(
        Column("Workload", "string", ".spec.workload"),
        Column("Parameters", "number", ".spec.parameters"),
        Column("Checkpoint", "number", ".spec.checkpointBytes"),
        Column("Samples", "integer", ".status.samples"),
        _AGE,
        Column("Fitted", "date", ".status.fittedAt", wide=True),
    ),
)
KINDS: Final = (POOL, JOB, PROFILE)
