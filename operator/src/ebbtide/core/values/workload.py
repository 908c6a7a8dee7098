"""What is known about a workload: the spec of a WorkloadProfile. Figures are per rank."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

CPU: Final = "CPU"
"""What a profile calls the device of a worker without a GPU; a pool without one says ""."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """One rank's own time for one step, communication aside."""

    gpu: str
    local_batch: int
    seconds: float
    samples: int = 1  # measurements that this is the mean or the median of


@dataclass(frozen=True, slots=True, kw_only=True)
class CommTime:
    """The time of one all-reduce."""

    gpus: int
    nodes: int
    bytes: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One WorkloadProfile; None = not known."""

    workload: str
    parameters: float | None = None
    tensors: int | None = None
    gradient_bytes: float | None = None
    checkpoint_bytes: float | None = None
    flops_per_sample: float | None = None  # forward and backward
    max_local_batch: Mapping[str, int] = field(default_factory=dict)  # by GPU type
    step_times: tuple[StepTime, ...] = ()
    comm_times: tuple[CommTime, ...] = ()
    bucket_ready: tuple[float, ...] = ()  # seconds from the start of a step, by bucket
    noise_scale: float | None = None  # samples
