"""The kind WorkloadProfile: what is known about a workload. Figures are per rank."""

from typing import Annotated, Final

from pydantic import Field, StringConstraints

from ebbtide.api.fields import Amount, Count, Label, Moment, Positive, Rate, Schema, Short

MOST_TIMES: Final = 512
MOST_TYPES: Final = 64
MOST_MODELS: Final = 32

GpuType = Annotated[str, StringConstraints(min_length=1, max_length=63)]


class StepTimeSpec(Schema):
    """The time of one step on one rank, communication aside."""

    gpu: GpuType = Field(description="Kind of GPU, as in V100.")
    local_batch: Positive = Field(description="Samples of one rank in the step.")
    seconds: Amount = Field(description="Time of the step in seconds, a mean or a median.")
    samples: Positive = Field(default=1, description="Measurements that this is made of.")


class CommTimeSpec(Schema):
    """The time of one all-reduce."""

    gpus: Positive = Field(description="Ranks that take part.")
    nodes: Positive = Field(description="Nodes that they are on.")
    bytes: Amount = Field(description="Bytes that each of them holds.")
    seconds: Amount = Field(description="Time in seconds.")


class ProfileSpec(Schema):
    """What is known; what is left out is not."""

    workload: Label = Field(
        description="What is trained. Jobs with this text in the label ebbtide.dev/workload use"
        " the profile without naming it."
    )
    parameters: Amount | None = Field(default=None, description="Trainable parameters.")
    tensors: Positive | None = Field(default=None, description="Tensors that they are held in.")
    gradient_bytes: Amount | None = Field(
        default=None, description="Bytes of gradients that one rank sends in one step."
    )
    checkpoint_bytes: Amount | None = Field(default=None, description="Bytes of a checkpoint.")
    flops_per_sample: Amount | None = Field(
        default=None, description="Floating-point operations for one sample, forward and backward."
    )
    max_local_batch: Annotated[dict[GpuType, Positive], Field(max_length=MOST_TYPES)] = Field(
        default_factory=dict, description="Most samples that fit on one rank, by kind of GPU."
    )
    step_times: Annotated[list[StepTimeSpec], Field(max_length=MOST_TIMES)] = Field(
        default_factory=list, description="Times of steps on one rank, communication aside."
    )
    comm_times: Annotated[list[CommTimeSpec], Field(max_length=MOST_TIMES)] = Field(
        default_factory=list, description="Times of all-reduces."
    )
    bucket_ready: Annotated[list[Amount], Field(max_length=MOST_TIMES)] = Field(
        default_factory=list,
        description="Seconds from the start of a step to the moment when each bucket of gradients"
        " is ready to be sent, in that order. Kept, and not planned with yet.",
    )
    noise_scale: Amount | None = Field(
        default=None,
        description="Gradient noise scale in samples: batches far above it do not help.",
    )


class ProfileStatus(Schema):
    """What was made of it. Written by the operator alone."""

    models: Annotated[dict[Short, Short], Field(max_length=MOST_MODELS)] = Field(
        default_factory=dict, description="Which model answers, by what it predicts."
    )
    errors: Annotated[dict[Short, Rate], Field(max_length=MOST_MODELS)] = Field(
        default_factory=dict, description="Mean relative error of each, on what it did not see."
    )
    samples: Count = Field(default=0, description="Measurements that the models were fitted to.")
    fitted_at: Moment | None = Field(default=None, description="When they were fitted last.")


class WorkloadProfile(Schema):
    """A WorkloadProfile says how large and how fast a workload is, for the planner."""

    spec: ProfileSpec = Field(description="What is known.")
    status: ProfileStatus = Field(default_factory=ProfileStatus, description="What was made of it.")
