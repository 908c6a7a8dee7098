"""Whatever is stored, reading it gives a value, and what was written is what is read."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.api.convert import parse_job
from ebbtide.api.job_status import Status
from ebbtide.api.status import parse_status, render_status
from ebbtide.core.values.decision import CreatePod
from ebbtide.core.values.job import BrokenJob, Job
from ebbtide.core.values.observed import Role
from ebbtide.core.values.plan import Alternative, Measured, Plan, Predicted, Share
from ebbtide.core.values.status import (
    Attempts,
    Condition,
    Cost,
    Counters,
    Display,
    JobStatus,
    LastFailure,
    NodeCharge,
    Progress,
    RefusedImage,
    Replicas,
    RoleStatus,
)
from ebbtide.manifests import Options, build_worker
from ebbtide.wire.messages import WorkSpec
from support.builders import make_pool
from support.manifests import changed, job_manifest, stored

counts = st.integers(0, 10**12)
names = st.text("abcdefgh-0123456789", min_size=1, max_size=20)
texts = st.text(max_size=50)
# Statuses are large: from single numbers, moments and money are drawn five times faster.
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
CENTURY_S = 100 * 365 * 86_400
moments = st.integers(0, CENTURY_S * 10**6).map(lambda num: EPOCH + timedelta(microseconds=num))
seconds = st.integers(0, CENTURY_S).map(lambda num: EPOCH + timedelta(seconds=num))


def money(places: int) -> st.SearchStrategy[Decimal]:
    return st.integers(0, 10 ** (9 + places)).map(lambda num: Decimal(num).scaleb(-places))


shares = st.lists(
    st.builds(Share, pool=names, replicas=counts, batch_share=st.floats(0, 1)), max_size=2
).map(tuple)
predictions = st.builds(
    Predicted,
    finish=seconds,
    finish_late=seconds,
    cost_usd=money(2),
    cost_high_usd=money(2),
    deadline_probability=st.none() | st.floats(0, 1),
    steps_per_second=st.floats(0, 1e9),
)
plans = st.builds(
    Plan,
    shares=shares,
    servers=counts,
    spares=counts,
    on_demand_floor=counts,
    checkpoint_interval=st.integers(1, 10**6).map(lambda count: timedelta(seconds=count)),
    predicted=predictions,
    reason=texts,
    awaited=shares,
    alternatives=st.lists(
        st.builds(Alternative, shares=shares, servers=counts, predicted=predictions, why=texts),
        max_size=2,
    ).map(tuple),
    assumptions=st.lists(texts, max_size=3).map(tuple),
    made_at=moments,
)
conditions = st.builds(
    Condition,
    type=names,
    status=st.sampled_from(["True", "False", "Unknown"]),
    reason=st.sampled_from(["Training", "NoCapacity", "Finished"]),
    message=texts,
    observed_generation=counts,
    last_transition=seconds,
)
statuses = st.builds(
    JobStatus,
    observed_generation=st.integers(-1, 10**9),
    state=st.sampled_from(["", "Pending", "Running", "Failed"]),
    conditions=st.lists(conditions, max_size=2).map(tuple),
    first_start=st.none() | seconds,
    start=st.none() | seconds,
    completion=st.none() | seconds,
    generation=counts,
    members=counts,
    replicas=st.builds(Replicas, desired=counts, ready=counts, spot=counts, on_demand=counts),
    replica_statuses=st.dictionaries(
        st.sampled_from(["worker", "coordinator"]), st.builds(RoleStatus, active=counts)
    ),
    selector=texts,
    attempts=st.dictionaries(
        names,
        st.builds(
            Attempts, last=counts, judged=counts, tried=st.lists(names, max_size=3).map(tuple)
        ),
        max_size=3,
    ),
    progress=st.builds(
        Progress,
        step=counts,
        steps=counts,
        steps_per_second=st.floats(0, 1e9),
        predicted_steps_per_second=st.none() | st.floats(0, 1e9),
        percentage=st.integers(0, 100),
        estimated_remaining_seconds=st.none() | counts,
        last_checkpoint_step=st.none() | counts,
        last_checkpoint_time=st.none() | seconds,
        updated=st.none() | moments,
    ),
    cost=st.builds(
        Cost,
        spent_usd=money(2),
        settled_usd=money(6),
        nodes=st.lists(
            st.builds(
                NodeCharge,
                node=names,
                uid=names,
                pool=names,
                usd_per_hour=money(6),
                since=moments,
            ),
            max_size=3,
        ).map(tuple),
    ),
    counters=st.builds(Counters, revocations=counts, failures=counts, steps_lost=counts),
    last_failure=st.none() | st.builds(LastFailure, generation=counts, time=moments, message=texts),
    refused_image=st.none() | st.builds(RefusedImage, image=names, since=moments, message=texts),
    display=st.builds(Display, ready=texts, gpu=texts, spot=texts, progress=texts),
    plan=st.none() | plans,
    plan_changes=st.lists(moments, max_size=4).map(sorted).map(tuple),
    plan_basis=st.text("0123456789abcdef", max_size=64),
    plan_measured=st.none()
    | st.builds(
        Measured,
        workers=st.dictionaries(names, counts, max_size=3),
        servers=counts,
        steps_per_second=st.floats(0, 1e9),
    ),
)

leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
anything = st.recursive(
    leaves, lambda part: st.lists(part, max_size=3) | st.dictionaries(texts, part, max_size=3)
)
PLACES = (
    "metadata.name",
    "spec",
    "spec.work",
    "spec.elasticPolicy",
    "spec.elasticPolicy.replicas",
    "spec.elasticPolicy.replicaDiscreteValues",
    "spec.elasticPolicy.replicaIncrementStep",
    "spec.objective",
    "spec.objective.budget",
    "spec.objective.deadline",
    "spec.objective.deadlineSeconds",
    "spec.planMode",
    "spec.profile",
    "spec.capacity",
    "spec.capacity.pools",
    "spec.capacity.poolSelector",
    "spec.checkpoint",
    "spec.checkpoint.path",
    "spec.checkpoint.interval",
    "spec.processesPerWorker",
    "spec.managedBy",
    "spec.template",
    "spec.template.metadata",
    "spec.template.metadata.labels",
    "spec.template.spec",
    "spec.template.spec.affinity",
    "spec.template.spec.containers",
    "spec.template.spec.containers.0",
    "spec.template.spec.containers.0.env",
    "spec.template.spec.containers.0.resources",
    "spec.template.spec.containers.0.volumeMounts",
    "spec.template.spec.initContainers",
    "spec.template.spec.nodeSelector",
    "spec.template.spec.terminationGracePeriodSeconds",
    "spec.template.spec.tolerations",
    "spec.template.spec.volumes",
    "spec.template.spec.volumes.0",
)


@given(statuses)
def test_a_status_is_read_as_it_was_written(status: JobStatus) -> None:
    text = json.dumps(render_status(status))

    assert parse_status(json.loads(text)) == status


@given(statuses)
def test_a_written_status_is_one_that_the_definition_allows(status: JobStatus) -> None:
    Status.model_validate(render_status(status))  # raises where it is not


@given(st.sampled_from(PLACES), anything)
def test_nothing_that_is_stored_makes_reading_or_building_fail(place: str, value: Any) -> None:
    manifest = stored(changed(job_manifest(), {place: value}))

    job = parse_job(manifest)

    match job:
        case BrokenJob():
            assert all(error.startswith(("spec", "metadata.name")) for error in job.errors)
            assert job.errors
        case Job():
            pod = build_worker(job, make_action(job), options=Options(coordinator_image="x"))
            assert json.dumps(pod)


@given(anything)
def test_an_object_of_any_shape_is_a_job_or_a_broken_one(value: Any) -> None:
    assert isinstance(parse_job({"metadata": value, "spec": value}), BrokenJob)


def make_action(job: Job) -> CreatePod:
    work = WorkSpec(
        job=str(job.key),
        steps=job.steps,
        global_batch_size=job.global_batch_size,
        min_replicas=job.min_replicas,
        desired=job.max_replicas,
    )
    pool = make_pool(node_selector={"pool": "spot"}, tolerations=({"key": "x"},))
    return CreatePod(role=Role.WORKER, index=0, attempt=1, work=work, pool=pool)
