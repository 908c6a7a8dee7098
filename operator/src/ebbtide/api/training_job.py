"""The kind TrainingJob: its spec, and the rules that hold between fields."""

import enum
import re
from typing import Annotated, ClassVar, Final

from pydantic import Field, StrictBool, StringConstraints

from ebbtide.api.elastic_policy import MAX_WORKERS, ElasticPolicy
from ebbtide.api.fields import (
    AUTO,
    Count,
    Label,
    Labels,
    ObjectName,
    Positive,
    Rule,
    Schema,
    auto_or_number,
    auto_rule,
    section,
)
from ebbtide.api.job_status import Status
from ebbtide.api.objective import ObjectiveSpec
from ebbtide.api.parameter_server import ParameterServer
from ebbtide.api.template import Template
from ebbtide.core.values.job import CleanPodPolicy, Launcher, SpotUse
from ebbtide.core.values.objective import PlanMode
from ebbtide.wire.names import CONTROLLER

NAME_LIMIT: Final = 63 - len("-coordinator-0-99999")
"""The longest name of a job: names of its pods are host names and label values, at most 63."""
MAX_PROCESSES: Final = 64
MAX_SPARES: Final = 64
LONGEST_INTERVAL: Final = 7 * 86400
"""Seconds between two checkpoints."""
Image = Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=r"^\S+$")]
_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_PATH: Final = re.compile(r"((s3|gs)://[a-z0-9][a-z0-9._-]+)?(/[^/]+)+/?")
_DOTS: Final = re.compile(r"(^|/)\.\.?(/|$)")
_OWNER: Final = (
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9._~-]+$"
)


class Strategy(enum.StrEnum):
    """How gradients meet."""

    ALL_REDUCE = "AllReduce"
    PARAMETER_SERVER = "ParameterServer"


class Work(Schema):
    """The amount of work."""

    steps: Positive = Field(description="How many steps of the global batch the job trains.")
    global_batch_size: Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)] = Field(
        description="Samples in one step, over all workers together, whatever their number."
    )


class PoolSelector(Schema):
    """Pools by their labels."""

    match_labels: Labels = Field(description="Labels that a CapacityPool must have, all of them.")


class Capacity(Schema):
    """Where workers may run."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!(has(self.pools) && has(self.poolSelector))",
            message="name the pools or select them by label: pools and poolSelector exclude each"
            " other",
            field=".poolSelector",
            holds=lambda capacity: capacity.pools is None or capacity.pool_selector is None,
        ),
        Rule(
            cel="self.spot != 'Only' || self.onDemandFloor == 0",
            message="spot: Only leaves no worker on on-demand nodes: set onDemandFloor to 0",
            field=".onDemandFloor",
            holds=lambda capacity: capacity.spot != SpotUse.ONLY or capacity.on_demand_floor == 0,
        ),
    )
    pools: Annotated[list[Label], Field(min_length=1, max_length=64)] | None = Field(
        default=None,
        description="Names of the CapacityPools to use. Neither pools nor poolSelector: all that"
        " fit.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    pool_selector: PoolSelector | None = Field(
        default=None, description="Selects the CapacityPools to use by label."
    )
    on_demand_floor: Annotated[int, Field(strict=True, ge=0, le=MAX_WORKERS)] = Field(
        default=1, description="How many workers are always kept on on-demand nodes."
    )
    spot: SpotUse = Field(
        default=SpotUse.ALLOW,
        description="Allow spot nodes beside on-demand ones, Never use them, or use Only them.",
    )


class Checkpoint(Schema):
    """Where and how often the state of the training is saved."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=r"self.path.matches('^((s3|gs)://[a-z0-9][a-z0-9._-]+)?(/[^/]+)+/?$') &&"
            r" !self.path.matches('(^|/)\\.\\.?(/|$)')",
            message="checkpoint.path must be an absolute path in the container, as in /checkpoints,"
            " or a folder of a bucket, as in s3://bucket/job or gs://bucket/job, without . or .."
            " in it",
            field=".path",
            holds=lambda checkpoint: is_plain_path(checkpoint.path),
        ),
        auto_rule("interval", LONGEST_INTERVAL),
    )
    path: Annotated[str, StringConstraints(min_length=1, max_length=512)] = Field(
        default="/checkpoints",
        description="Folder for checkpoints: under a volumeMount of the first container whose"
        " volume outlives the pod (persistentVolumeClaim, hostPath, nfs or csi), or of a bucket"
        " (s3://, gs://), for which the template gives the pods credentials.",
    )
    interval: Annotated[int | str, auto_or_number(LONGEST_INTERVAL)] = Field(
        default=AUTO,
        json_schema_extra={"x-kubernetes-int-or-string": True},
        description="Seconds between two checkpoints. Auto: as often as pays, from the time that a"
        " checkpoint takes and how often workers are lost.",
    )
    retain: Annotated[int, Field(strict=True, ge=1, le=1000)] = Field(
        default=3, description="How many checkpoints are kept."
    )


class WarmStart(Schema):
    """What stands by, so that a lost worker is replaced at once."""

    rules: ClassVar[tuple[Rule, ...]] = (auto_rule("spares", MAX_SPARES, least=0),)
    spares: Annotated[int | str, auto_or_number(MAX_SPARES, least=0)] = Field(
        default=AUTO,
        json_schema_extra={"x-kubernetes-int-or-string": True},
        description="Workers beyond those that train: started, connected, and ready to take over"
        " from a lost one within a second. Auto: one node's worth where it pays, in planMode Auto.",
    )
    image: Image | None = Field(
        default=None,
        description="Image for the first container of workers and spares, say one that holds what"
        " training imports. Where it cannot be pulled the template's is used, until another one is"
        " named here; status.refusedImage and an event say so.",
    )


class Spec(Schema):
    """What the user wants. Ebbtide never writes here."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="self.managedBy == oldSelf.managedBy",
            message="managedBy cannot change: delete the job and make a new one",
            field=".managedBy",
            reason="FieldValueForbidden",
        ),
        Rule(
            cel="self.capacity.onDemandFloor <= self.elasticPolicy.maxReplicas",
            message="capacity.onDemandFloor must not be above elasticPolicy.maxReplicas",
            field=".capacity.onDemandFloor",
            holds=lambda spec: spec.capacity.on_demand_floor <= spec.elastic_policy.max_replicas,
        ),
        Rule(
            cel="!has(self.elasticPolicy.replicas) || self.planMode == 'Manual'",
            message="elasticPolicy.replicas is for planMode Manual: in Auto and DryRun the planner"
            " chooses between minReplicas and maxReplicas",
            field=".elasticPolicy.replicas",
            holds=lambda spec: (
                spec.elastic_policy.replicas is None or spec.plan_mode is PlanMode.MANUAL
            ),
        ),
        Rule(
            cel="self.planMode != 'Manual' || has(self.elasticPolicy.replicas)",
            message="planMode Manual needs elasticPolicy.replicas, the number of workers to run",
            field=".elasticPolicy.replicas",
            holds=lambda spec: (
                spec.plan_mode is not PlanMode.MANUAL or spec.elastic_policy.replicas is not None
            ),
        ),
        auto_rule("processesPerWorker", MAX_PROCESSES),
        Rule(
            cel="has(self.work) || self.launcher != 'Library'",
            message="is missing and must be given for launcher Library: steps and globalBatchSize",
            field=".work",
            reason="FieldValueRequired",
            holds=lambda spec: spec.work is not None or spec.launcher is not Launcher.LIBRARY,
        ),
        Rule(
            cel="self.launcher == 'Library' || type(self.warmStart.spares) != int ||"
            " int(self.warmStart.spares) == 0",
            message="spares need launcher Library: an unmodified script cannot stand by",
            field=".warmStart.spares",
            holds=lambda spec: (
                spec.launcher is Launcher.LIBRARY or spec.warm_start.spares in (0, AUTO)
            ),
        ),
        Rule(
            cel="self.launcher == 'Library' || self.strategy == 'AllReduce'",
            message="strategy ParameterServer needs launcher Library: an unmodified script knows"
            " no servers",
            field=".strategy",
            holds=lambda spec: (
                spec.launcher is Launcher.LIBRARY or spec.strategy is Strategy.ALL_REDUCE
            ),
        ),
        Rule(
            cel="self.strategy == 'ParameterServer' || !has(self.parameterServer)",
            message="parameterServer is for strategy ParameterServer: set that, or remove this",
            field=".parameterServer",
            reason="FieldValueForbidden",
            holds=lambda spec: (
                spec.strategy is Strategy.PARAMETER_SERVER or spec.parameter_server is None
            ),
        ),
        Rule(
            cel="!has(self.work) || self.launcher != 'Library' || self.work.globalBatchSize >="
            " self.elasticPolicy.maxReplicas *"
            " (type(self.processesPerWorker) == int ? int(self.processesPerWorker) : 1)",
            message="work.globalBatchSize must be at least elasticPolicy.maxReplicas times"
            " processesPerWorker: every process needs a sample in every step",
            field=".work.globalBatchSize",
            holds=lambda spec: (
                spec.work is None
                or spec.launcher is not Launcher.LIBRARY
                or gives_all_a_sample(spec.work, spec.elastic_policy, spec.processes_per_worker)
            ),
        ),
        Rule(
            cel="self.launcher != 'Library' || !self.checkpoint.path.startsWith('/') ||"
            " has(self.template.spec.containers[0].volumeMounts) &&"
            " self.template.spec.containers[0].volumeMounts.exists(m, (self.checkpoint.path +"
            " '/').startsWith(m.mountPath.endsWith('/') ? m.mountPath : m.mountPath + '/'))",
            message="checkpoint.path must lie under a volumeMount of the first container: mount a"
            " volume there that outlives the pod",
            field=".checkpoint.path",
            holds=lambda spec: (
                spec.launcher is not Launcher.LIBRARY
                or not spec.checkpoint.path.startswith("/")
                or any(
                    lies_under(spec.checkpoint.path, mount.mount_path)
                    for mount in spec.template.spec.containers[0].volume_mounts
                )
            ),
        ),
    )
    strategy: Strategy = Field(
        default=Strategy.ALL_REDUCE,
        description="How gradients of the workers meet. AllReduce: every step is one of all workers"
        " together. ParameterServer: the parameters live on servers, and each worker computes whole"
        " steps on its own.",
    )
    parameter_server: ParameterServer | None = Field(
        default=None,
        description="The servers of strategy ParameterServer, and only of that.",
    )
    launcher: Launcher = Field(
        default=Launcher.LIBRARY,
        description="How the command of the template is run. Library: under the ebbtide runtime."
        " Torchrun: an unmodified torchrun script. Command: as it is, without ranks.",
    )
    work: Work | None = Field(
        default=None,
        description="The amount of work. Must be given for Library; for Torchrun and Command, whose"
        " scripts say by their exit when they are done, it may be absent and counts for nothing.",
    )
    profile: ObjectName | None = Field(
        default=None,
        description="Name of a WorkloadProfile in the namespace of the job. Absent: one whose"
        " workload is the job's label ebbtide.dev/workload, else what was measured, else what is"
        " known of models in general.",
    )
    objective: ObjectiveSpec = section(
        ObjectiveSpec, "What the plan is to achieve. Absent: least cost, without limits."
    )
    plan_mode: PlanMode = Field(
        default=PlanMode.AUTO,
        description="Auto: the planner chooses size and place. DryRun: the plan is put into the"
        " status and nothing runs. Manual: elasticPolicy.replicas workers run.",
    )
    elastic_policy: ElasticPolicy = Field(description="How many workers train.")
    capacity: Capacity = section(Capacity, "Where workers may run.")
    processes_per_worker: Annotated[int | str, auto_or_number(MAX_PROCESSES)] = Field(
        default=AUTO,
        json_schema_extra={"x-kubernetes-int-or-string": True},
        description="Processes in one worker, each one rank. Auto: the nvidia.com/gpu limit of the"
        " first container, at least 1.",
    )
    checkpoint: Checkpoint = section(Checkpoint, "Where and how often the state is saved.")
    warm_start: WarmStart = section(WarmStart, "What stands by for workers that are lost.")
    suspend: StrictBool = Field(
        default=False, description="True: save, delete every pod and wait. False: run."
    )
    managed_by: Annotated[str, StringConstraints(max_length=63, pattern=_OWNER)] = Field(
        default=CONTROLLER,
        description="The controller in charge, as domain/path. Another value than the default:"
        " Ebbtide leaves the job alone. Cannot be changed.",
    )
    backoff_limit: Annotated[int, Field(strict=True, ge=0, le=1_000_000)] = Field(
        default=6,
        description="The job fails after more failures than this. Revocations never count.",
    )
    active_deadline_seconds: Positive | None = Field(
        default=None,
        description="The job is ended as Failed so many seconds after it started to train; the"
        " clock starts anew on resume.",
    )
    ttl_seconds_after_finished: Count | None = Field(
        default=None, description="The job is deleted so many seconds after its end."
    )
    clean_pod_policy: CleanPodPolicy = Field(
        default=CleanPodPolicy.RUNNING,
        description="At the end: Running deletes pods that still run, All every pod, None keeps"
        " the pods and stops what still runs.",
    )
    template: Template = Field(
        description="The pod of one worker, a PodTemplateSpec. A change while the job runs counts"
        " from the next resume on."
    )


def is_job_name(name: str) -> bool:
    """Tell whether names of pods, hosts and services can be built from a job's name."""
    return len(name) <= NAME_LIMIT and _NAME.fullmatch(name) is not None


def is_plain_path(path: str) -> bool:
    """Tell whether a text is an absolute path, or a folder of a bucket, without detours."""
    return _PATH.fullmatch(path) is not None and _DOTS.search(path) is None


def lies_under(path: str, folder: str) -> bool:
    """Tell whether a path is a folder or in it."""
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")


def gives_all_a_sample(work: Work, policy: ElasticPolicy, processes: int | str) -> bool:
    """Tell whether each process is sure of a sample in each step, as far as the spec tells."""
    declared = processes if isinstance(processes, int) else 1
    return work.global_batch_size >= policy.max_replicas * declared


_FIXED: Final = (
    "strategy", "launcher", "work", "processesPerWorker", "checkpoint.path", "backoffLimit",
    "activeDeadlineSeconds", "cleanPodPolicy", "parameterServer.maxStaleness",
)  # fmt: skip
_OPTIONAL: Final = ("activeDeadlineSeconds", "work", "parameterServer.maxStaleness")


def _is_given(root: str, field: str) -> str:
    """Return the condition that a field is there, and what it is part of."""
    steps = field.split(".")
    paths = [".".join((root, "spec", *steps[: n + 1])) for n in range(len(steps))]
    return (
        f"has({paths[0]})" if len(paths) == 1 else f"({' && '.join(map('has({})'.format, paths))})"
    )


def _fixed(field: str) -> Rule:
    """Return the rule that a field of the spec stays as it is once the job has started."""
    old, new = f"oldSelf.spec.{field}", f"self.spec.{field}"
    same = f"{new} == {old}"
    if field in _OPTIONAL:
        had, has = _is_given("oldSelf", field), _is_given("self", field)
        same = f"{has} == {had} && (!{has} || {same})"
    started = "has(oldSelf.status) && has(oldSelf.status.firstStartTime)"
    return Rule(
        cel=f"!({started}) || ({same})",
        message=f"spec.{field} cannot change once the job has started: make a new job",
        field=f".spec.{field}",
        reason="FieldValueForbidden",
    )


class TrainingJob(Schema):
    """A TrainingJob trains one model on capacity that comes and goes."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="self.metadata.name.size() <= "
            f"{NAME_LIMIT} && self.metadata.name.matches('^{_NAME.pattern}$')",
            message="metadata.name must start with a letter, go on with lower-case letters, digits"
            f" and hyphens, end with a letter or digit, and have at most {NAME_LIMIT} characters:"
            " names of pods, hosts and services are built from it",
        ),
        *(_fixed(field) for field in _FIXED),
    )
    spec: Spec = Field(description="What is wanted.")
    status: Status = Field(
        default_factory=Status,
        description="What is; written by the operator alone.",
        json_schema_extra={"default": {"observedGeneration": -1}},
    )
