"""The status of a TrainingJob as it is stored."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from ebbtide.api.fields import Count, Moment, Money, Name, Rate, Schema, Short, Text
from ebbtide.api.plan_status import PlanStatus

Reason = Annotated[
    str,
    StringConstraints(max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
]


class ConditionStatus(Schema):
    """One condition."""

    type: Annotated[str, StringConstraints(max_length=316)] = Field(
        description="What the condition is about."
    )
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    reason: Reason = Field(description="Why, in one word for machines.")
    message: Text = Field(default="", description="Why, in a sentence for people.")
    observed_generation: Count = Field(
        default=0, description="The generation of the spec that this was found for."
    )
    last_transition_time: Moment = Field(description="When status changed last.")


class GenerationStatus(Schema):
    """The workers that train together now."""

    number: Count = Field(default=0, description="Grows with every change of the members.")
    members: Count = Field(default=0, description="How many workers train.")


class ReplicasStatus(Schema):
    """Workers by state."""

    desired: Count = Field(default=0, description="Workers wanted.")
    ready: Count = Field(default=0, description="Workers that train.")
    spot: Count = Field(default=0, description="Of these, on spot nodes.")
    on_demand: Count = Field(default=0, description="Of these, on on-demand nodes.")
    spares: Count = Field(default=0, description="Warm workers that do not train yet.")


class PodCounts(Schema):
    """Pods of one role by state."""

    active: Count = Field(default=0, description="Pods that are not at their end.")
    ready: Count = Field(default=0, description="Of these, ready.")
    succeeded: Count = Field(default=0, description="Pods that ended well.")
    failed: Count = Field(default=0, description="Pods that did not.")


class AttemptsStatus(Schema):
    """The ledger of one index."""

    last: Count = Field(default=0, description="The latest attempt.")
    judged: Count = Field(default=0, description="Ends up to this attempt are counted.")
    retired: list[Count] = Field(
        default_factory=list,
        max_length=64,
        description="Later attempts that are ours to end: what they say counts nothing.",
    )
    tried: list[Name] = Field(
        default_factory=list,
        max_length=64,
        description="Pools where it waited in vain since it last ran.",
    )
    lost: bool = Field(
        default=False, description="A member was lost here and none has taken its place."
    )
    stumbles: Count = Field(
        default=0, description="Ends in a row before the trainer had ever started."
    )
    ended: Moment | None = Field(default=None, description="When the last counted end was.")
    failed: bool = Field(default=False, description="Whether that end was a failure.")
    followed: bool = Field(
        default=False, description="Whether that end only followed from another worker's loss."
    )
    done: bool = Field(
        default=False, description="Torchrun and Command: its latest attempt exited 0."
    )


class ProgressStatus(Schema):
    """How far the training is."""

    step: Count = Field(default=0, description="Steps done.")
    steps: Count = Field(default=0, description="Steps wanted.")
    steps_per_second: Rate = Field(default=0.0, description="Speed now.")
    predicted_steps_per_second: Rate | None = Field(
        default=None, description="Speed that the models expect of what runs now."
    )
    percentage: Annotated[int, Field(strict=True, ge=0, le=100)] = Field(
        default=0, description="Share of the work done."
    )
    estimated_remaining_seconds: Count | None = Field(
        default=None, description="Time to the end at the speed of now."
    )
    last_checkpoint_step: Count | None = Field(
        default=None, description="Step of the newest checkpoint."
    )
    last_checkpoint_time: Moment | None = Field(
        default=None, description="When the newest checkpoint became durable."
    )
    last_updated_time: Moment | None = Field(
        default=None, description="When progress and cost were last written."
    )


class NodeChargeStatus(Schema):
    """A node that the job pays for now."""

    node: Name = Field(description="Name of the node.")
    uid: Short = Field(description="UID of the node.")
    pool: Name = Field(description="Its pool.")
    usd_per_hour: Money = Field(description="The job's share of its price.")
    since: Moment = Field(description="From when on.")


class CostStatus(Schema):
    """What was spent."""

    spent_usd: Money = Field(default="0.00", description="US dollars spent so far.")
    settled_usd: Money = Field(
        default="0.000000", description="Of these, for nodes that are paid off."
    )
    nodes: list[NodeChargeStatus] = Field(
        default_factory=list, max_length=4096, description="Nodes that the job pays for now."
    )


class CountersStatus(Schema):
    """What happened; these only grow."""

    revocations: Count = Field(default=0, description="Workers whose node was taken away.")
    failures: Count = Field(default=0, description="Ends that count against backoffLimit.")
    restarts: Count = Field(default=0, description="Pods made anew through nobody's fault.")
    steps_lost: Count = Field(default=0, description="Steps that had to be trained again.")


class LastFailureStatus(Schema):
    """The failure that was counted last."""

    generation: Count = Field(description="The generation it happened in.")
    time: Moment = Field(description="When.")
    message: Text = Field(default="", description="What was seen.")


class RefusedImageStatus(Schema):
    """An image of warmStart that is used no more."""

    image: Text = Field(description="The image.")
    since: Moment = Field(description="When a worker first waited for it in vain.")
    message: Text = Field(default="", description="What the kubelet said.")


class DisplayStatus(Schema):
    """Texts of printer columns."""

    ready: Short = Field(default="", description="Workers that train, of those wanted.")
    gpu: Short = Field(default="", description="GPUs in use.")
    spot: Short = Field(default="", description="Workers on spot nodes, of those that train.")
    progress: Short = Field(default="", description="Share of the work done.")
    plan: Short = Field(default="", description="Workers by pool that are wanted to run.")


class Status(Schema):
    """What is. Written by the operator alone."""

    observed_generation: Annotated[int, Field(strict=True, ge=-1)] = Field(
        default=-1, description="The generation of the spec that the operator has seen."
    )
    state: Short = Field(
        default="",
        description="A word for the column: Pending, Starting, Running, Recovering, Suspending,"
        " Suspended, Complete or Failed. The conditions are the truth.",
    )
    display: DisplayStatus = Field(
        default_factory=DisplayStatus, description="Texts of printer columns."
    )
    conditions: list[ConditionStatus] = Field(
        default_factory=list,
        max_length=32,
        description="Planned, Running, Degraded, Replacing, Suspended, CheckpointsHealthy,"
        " GoalAtRisk, Complete, Failed; Reconciling and Stalled only while True.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    )
    first_start_time: Moment | None = Field(
        default=None, description="When the job first could run. Never cleared."
    )
    start_time: Moment | None = Field(
        default=None, description="When it began to train, since its start or last resume."
    )
    completion_time: Moment | None = Field(default=None, description="When it ended.")
    generation: GenerationStatus = Field(
        default_factory=GenerationStatus, description="The workers that train together now."
    )
    replicas: ReplicasStatus = Field(
        default_factory=ReplicasStatus, description="Workers by state."
    )
    replica_statuses: Annotated[dict[str, PodCounts], Field(max_length=8)] = Field(
        default_factory=dict, description="Pods by role and state."
    )
    selector: Annotated[str, StringConstraints(max_length=1024)] = Field(
        default="", description="A label selector for the pods of the job."
    )
    attempts: Annotated[dict[str, AttemptsStatus], Field(max_length=8192)] = Field(
        default_factory=dict, description="The ledger of attempts by role and index."
    )
    progress: ProgressStatus = Field(
        default_factory=ProgressStatus, description="How far the training is."
    )
    cost: CostStatus = Field(default_factory=CostStatus, description="What was spent.")
    counters: CountersStatus = Field(
        default_factory=CountersStatus, description="What happened; these only grow."
    )
    last_failure: LastFailureStatus | None = Field(
        default=None, description="The failure that was counted last."
    )
    refused_image: RefusedImageStatus | None = Field(
        default=None,
        description="The image of warmStart that cannot be pulled: workers use the template's.",
    )
    plan: PlanStatus | None = Field(
        default=None,
        description="What is wanted to run, what is expected of it, and what it was chosen over.",
    )
