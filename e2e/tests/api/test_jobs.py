"""What the real API server makes of jobs, right ones and wrong ones."""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from ebbtide.api.convert import parse_job
from ebbtide.api.status import parse_status, render_status
from ebbtide.core.values.job import BrokenJob, Job
from ebbtide.core.values.plan import Measured
from ebbtide.core.values.status import (
    Attempts,
    Condition,
    Cost,
    Counters,
    JobStatus,
    LastFailure,
    NodeCharge,
    Progress,
)
from support.manifests import (
    changed,
    job_manifest,
    pool_manifest,
    stored,
)
from support.plans import PLAN
from support.wrong_jobs import WRONG_JOBS, WRONG_NAMES
from world.api import MERGE, ApiError

if TYPE_CHECKING:
    from support.mistakes import Wrong
    from world.api import Api

APPLY = "application/apply-patch+yaml"
POOLS = "/apis/ebbtide.dev/v1alpha1/capacitypools"
DEFAULT = "/apis/ebbtide.dev/v1alpha1/namespaces/default/trainingjobs"
EXAMPLES = Path(__file__).parents[3] / "examples"
STARTED = {"status": {"firstStartTime": "2026-01-01T12:00:00Z"}}


def here(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest that goes into whatever namespace its path names."""
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "namespace"}
    return {**manifest, "metadata": metadata}


async def try_out(server: Api, path: str, manifest: dict[str, Any]) -> dict[str, Any]:
    """Have the server do everything but store it."""
    return await server.request("POST", path, here(manifest), dryRun="All")


async def refusal(server: Api, path: str, manifest: dict[str, Any]) -> str:
    with pytest.raises(ApiError) as caught:
        await try_out(server, path, manifest)
    assert caught.value.status == 422
    return caught.value.message


@pytest.mark.parametrize("wrong", [w for w in WRONG_JOBS if w.refused], ids=lambda w: w.id)
async def test_a_wrong_job_is_refused_in_words_that_help(server: Api, wrong: Wrong) -> None:
    message = await refusal(server, DEFAULT, wrong.manifest())

    assert f"{wrong.path}: " in message
    assert (wrong.server_says or wrong.says) in message


@pytest.mark.parametrize("wrong", [w for w in WRONG_JOBS if not w.refused], ids=lambda w: w.id)
async def test_a_job_that_is_wrong_inside_its_template_is_told_by_us(
    server: Api, wrong: Wrong
) -> None:
    job = parse_job(await try_out(server, DEFAULT, wrong.manifest()))

    assert isinstance(job, BrokenJob)
    assert any(error.startswith(f"{wrong.path}: ") for error in job.errors)
    assert any(wrong.says in error for error in job.errors)


@pytest.mark.parametrize("name", WRONG_NAMES)
async def test_b030_a_name_that_gives_no_host_names_is_refused(server: Api, name: str) -> None:
    message = await refusal(server, DEFAULT, job_manifest(name))

    assert "have at most 43 characters" in message


async def test_b030_long_names_that_differ_at_the_end_live_side_by_side(
    api: Api, jobs: str
) -> None:
    for name in ("a" * 42 + "b", "a" * 42 + "c"):
        assert isinstance(parse_job(await api.request("POST", jobs, here(job_manifest(name)))), Job)


async def test_the_server_fills_in_the_defaults_that_the_models_have(api: Api, jobs: str) -> None:
    manifest = here(job_manifest())

    created = await api.request("POST", jobs, manifest)

    job, unaided = parse_job(created), parse_job(stored(manifest))
    assert isinstance(job, Job)
    assert isinstance(unaided, Job)
    assert job == replace(
        unaided,
        key=job.key,
        uid=job.uid,
        generation=1,
        resource_version=job.resource_version,
        created=job.created,
    )
    assert created["spec"]["template"] == manifest["spec"]["template"]
    assert created["status"] == {"observedGeneration": -1}


async def test_fields_inside_the_template_are_kept_and_unknown_ones_outside_are_refused(
    api: Api, jobs: str
) -> None:
    inside = changed(
        job_manifest("inside"),
        {"spec.template.spec.containers.0.livenessProbe": {"periodSeconds": 3}},
    )
    outside = job_manifest("outside", topology={"spread": "Zone"})

    kept = await api.request("POST", jobs, here(inside), fieldValidation="Strict")

    assert kept["spec"]["template"] == inside["spec"]["template"]
    with pytest.raises(ApiError, match=r'unknown field "spec\.topology"'):
        await api.request("POST", jobs, here(outside), fieldValidation="Strict")


FIXED = [
    pytest.param({"work": {"steps": 601}}, "spec.work", id="work"),
    pytest.param({"processesPerWorker": 2}, "spec.processesPerWorker", id="processes"),
    pytest.param({"checkpoint": {"path": "/checkpoints/2"}}, "spec.checkpoint.path", id="path"),
    pytest.param({"backoffLimit": 7}, "spec.backoffLimit", id="backoffLimit"),
    pytest.param({"activeDeadlineSeconds": 60}, "spec.activeDeadlineSeconds", id="deadline"),
    pytest.param({"cleanPodPolicy": "All"}, "spec.cleanPodPolicy", id="cleanPodPolicy"),
]


@pytest.mark.parametrize(("change", "path"), FIXED)
async def test_what_the_work_is_can_change_until_the_job_starts(
    api: Api, jobs: str, change: dict[str, Any], path: str
) -> None:
    await api.request("POST", jobs, here(job_manifest()))
    job = f"{jobs}/digits"

    await api.request("PATCH", job, {"spec": change}, content_type=MERGE)

    await api.request("PATCH", f"{job}/status", STARTED, content_type=MERGE)
    back = {"spec": job_manifest()["spec"] | dict.fromkeys(set(change) - {"work"})}
    with pytest.raises(ApiError) as caught:
        await api.request("PATCH", job, back, content_type=MERGE)
    assert caught.value.status == 422
    assert f"{path}: " in caught.value.message
    assert f"{path} cannot change once the job has started: make a new job" in caught.value.message


@pytest.mark.parametrize(
    "change",
    [
        {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 8}},
        {"capacity": {"spot": "Never", "onDemandFloor": 0, "pools": ["a"]}},
        {"checkpoint": {"interval": 5, "retain": 9}},
        {"objective": {"minimize": "Time", "deadlineSeconds": 3600, "budget": "9.50"}},
        {"planMode": "DryRun"},
        {"profile": "resnet50"},
        {"suspend": True},
        {"ttlSecondsAfterFinished": 60},
        {"template": {"spec": {"priorityClassName": "high"}}},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_how_the_job_runs_can_change_while_it_runs(
    api: Api, jobs: str, change: dict[str, Any]
) -> None:
    await api.request("POST", jobs, here(job_manifest()))
    await api.request("PATCH", f"{jobs}/digits/status", STARTED, content_type=MERGE)

    updated = await api.request("PATCH", f"{jobs}/digits", {"spec": change}, content_type=MERGE)

    assert updated["metadata"]["generation"] == 2
    assert isinstance(parse_job(updated), Job)


async def test_of_servers_the_number_can_change_and_how_stale_gradients_are_cannot(
    api: Api, jobs: str
) -> None:
    asked = {"replicas": 2, "maxStaleness": 4, "resources": {"requests": {"cpu": "1"}}}
    manifest = here(job_manifest(strategy="ParameterServer", parameterServer=asked))
    await api.request("POST", jobs, manifest)
    await api.request("PATCH", f"{jobs}/digits/status", STARTED, content_type=MERGE)

    change = {"spec": {"parameterServer": {"replicas": "Auto", "resources": None}}}
    updated = await api.request("PATCH", f"{jobs}/digits", change, content_type=MERGE)

    job = parse_job(updated)
    assert isinstance(job, Job)
    assert (job.servers, job.max_staleness) == (None, 4)
    for staleness in (5, None):
        wrong = {"spec": {"parameterServer": {"maxStaleness": staleness}}}
        with pytest.raises(ApiError, match=r"parameterServer.maxStaleness cannot change once"):
            await api.request("PATCH", f"{jobs}/digits", wrong, content_type=MERGE)


async def test_the_controller_in_charge_cannot_change(api: Api, jobs: str) -> None:
    await api.request("POST", jobs, here(job_manifest()))
    change = {"spec": {"managedBy": "kueue.x-k8s.io/multikueue"}}

    with pytest.raises(ApiError, match="managedBy cannot change"):
        await api.request("PATCH", f"{jobs}/digits", change, content_type=MERGE)


async def write_status(api: Api, jobs: str, status: JobStatus) -> dict[str, Any]:
    """Write a status as the operator does."""
    body = {
        "apiVersion": "ebbtide.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "digits"},
        "status": render_status(status),
    }
    params = {"fieldManager": "ebbtide", "force": "true"}
    return await api.request("PATCH", f"{jobs}/digits/status", body, content_type=APPLY, **params)


async def test_a_status_is_stored_as_it_is_and_the_spec_stays(api: Api, jobs: str) -> None:
    created = await api.request("POST", jobs, here(job_manifest()))
    status = full_status()

    written = await write_status(api, jobs, status)

    assert written["status"] == render_status(status)
    assert parse_status(written["status"]) == status
    assert written["spec"] == created["spec"]
    assert written["metadata"]["generation"] == 1


async def test_a_status_leaves_no_trace_of_what_is_no_longer_said(api: Api, jobs: str) -> None:
    await api.request("POST", jobs, here(job_manifest()))
    await write_status(api, jobs, full_status())
    pending = JobStatus(observed_generation=1, state="Pending")

    written = await write_status(api, jobs, pending)

    assert parse_status(written["status"]) == pending


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.yaml")), ids=lambda path: path.name)
async def test_every_example_is_accepted(server: Api, path: Path) -> None:
    places = {
        "TrainingJob": DEFAULT,
        "CapacityPool": POOLS,
        "WorkloadProfile": DEFAULT.replace("trainingjobs", "workloadprofiles"),
        "PersistentVolumeClaim": "/api/v1/namespaces/default/persistentvolumeclaims",
    }
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        await server.request(
            "POST", places[document["kind"]], document, dryRun="All", fieldValidation="Strict"
        )


@pytest.mark.parametrize(
    ("spec", "path", "says"),
    [
        ({"nodeSelector": {}}, "spec.nodeSelector", "should have at least 1 properties"),
        ({"market": "Cheap"}, "spec.market", 'supported values: "Spot", "OnDemand"'),
        ({"price": {"usdPerNodeHour": "free"}}, "spec.price.usdPerNodeHour", "should match"),
        ({"price": {"usdPerNodeHour": 0.92}}, "spec.price.usdPerNodeHour", "type string"),
        ({"price": {}}, "spec.price", "either usdPerNodeHour or catalogue"),
        ({"price": {"usdPerNodeHour": "0.00"}}, "spec.price.usdPerNodeHour", "must be above 0"),
        (
            {"price": {"catalogue": {"provider": "aws"}}},
            "spec.price.catalogue.instanceType",
            "Required value",
        ),
        ({"maxNodes": -1}, "spec.maxNodes", "greater than or equal to 0"),
        ({"noticeSeconds": "30s"}, "spec.noticeSeconds", "must be of type integer"),
        ({"gpu": {"type": "V100", "count": 0}}, "spec.gpu.count", "greater than or equal to 1"),
        ({"tolerations": [{"effect": "Never"}]}, "spec.tolerations[0].effect", "supported values"),
    ],
    ids=lambda part: str(part) if isinstance(part, dict) else "",
)
async def test_a_wrong_pool_is_refused_in_words_that_help(
    server: Api, spec: dict[str, Any], path: str, says: str
) -> None:
    message = await refusal(server, POOLS, pool_manifest(**spec))

    assert f"{path}: " in message
    assert says in message


async def test_a_pool_whose_name_is_no_label_is_refused(server: Api) -> None:
    message = await refusal(server, POOLS, pool_manifest("p" * 64, nodeSelector={"pool": "p"}))

    assert "metadata.name must have at most 63 characters" in message


def full_status() -> JobStatus:
    """Return a status in which no field has its default."""
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    exact = noon + timedelta(milliseconds=250)
    running = Condition(
        type="Running",
        status="True",
        reason="Training",
        message="4 of 4 workers train.",
        observed_generation=1,
        last_transition=noon,
    )
    charge = NodeCharge(
        node="node-1", uid="uid-1", pool="spot", usd_per_hour=Decimal("0.920000"), since=exact
    )
    return JobStatus(
        observed_generation=1,
        state="Running",
        conditions=(running, replace(copy.copy(running), type="Planned", reason="ManualSize")),
        first_start=noon,
        start=noon,
        completion=noon,
        generation=1_000_002,
        members=4,
        selector="ebbtide.dev/job-name=digits",
        attempts={"worker-0": Attempts(last=3, judged=2, tried=("spot",))},
        progress=Progress(
            step=10,
            steps=600,
            steps_per_second=2.5,
            predicted_steps_per_second=2.75,
            percentage=1,
            estimated_remaining_seconds=236,
            last_checkpoint_step=0,
            last_checkpoint_time=noon,
            updated=exact,
        ),
        cost=Cost(spent_usd=Decimal("1.01"), settled_usd=Decimal("0.123457"), nodes=(charge,)),
        counters=Counters(revocations=1, failures=2, restarts=3, steps_lost=4),
        last_failure=LastFailure(generation=1_000_001, time=exact, message="exit 1"),
        plan=PLAN,
        plan_changes=(exact,),
        plan_basis="4f1c",
        plan_measured=Measured(workers={"V100": 3}, steps_per_second=2.5),
    )
