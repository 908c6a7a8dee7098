"""What the real API server makes of the objects that we build, and kubectl of our kinds."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from ebbtide.api.convert import parse_job
from ebbtide.api.status import render_status
from ebbtide.core.values.decision import CreatePod
from ebbtide.core.values.job import Job
from ebbtide.core.values.observed import Role
from ebbtide.core.values.status import Condition, Counters, Display, JobStatus
from ebbtide.manifests import (
    Options,
    build_coordinator,
    build_secret,
    build_service,
    build_worker,
)
from ebbtide.wire.messages import WorkSpec
from support.builders import make_pool
from support.manifests import container, job_manifest, template
from support.plans import PLAN
from world.api import MERGE, ApiError

if TYPE_CHECKING:
    from support.kubectl import Kubectl
    from world.api import Api

OPTIONS = Options(coordinator_image="registry.example/ebbtide:1")
WORK = WorkSpec(job="team/digits", steps=600, global_batch_size=64, min_replicas=2, desired=4)
POOL = make_pool(
    "v100-spot",
    node_selector={"example.com/pool": "v100-spot"},
    tolerations=({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},),
)


@pytest.fixture
async def job(api: Api, jobs: str) -> Job:
    trainer = container(
        args=["--fast"],
        env=[{"name": "WHERE", "value": "$(EBBTIDE_NODE)"}],
        resources={"limits": {"nvidia.com/gpu": 1}},
    )
    asked = template(containers=[trainer], nodeSelector={"example.com/pool": "another"})
    manifest = job_manifest(template=asked)
    del manifest["metadata"]["namespace"]
    job = parse_job(await api.request("POST", jobs, manifest))
    assert isinstance(job, Job)
    return job


async def dry_run(api: Api, job: Job, kind: str, body: dict[str, Any]) -> dict[str, Any]:
    path = f"/api/v1/namespaces/{job.key.namespace}/{kind}"
    return await api.request("POST", path, body, dryRun="All", fieldValidation="Strict")


def pod(role: Role) -> CreatePod:
    return CreatePod(
        role=role,
        index=0,
        attempt=1,
        work=WORK,
        pool=POOL if role is Role.WORKER else None,
    )


async def test_a_worker_is_accepted_as_it_was_built(api: Api, job: Job) -> None:
    built = build_worker(job, pod(Role.WORKER), options=OPTIONS)

    accepted = await dry_run(api, job, "pods", built)

    trainer = accepted["spec"]["containers"][0]
    assert trainer["command"] == [
        *("python", "-m", "ebbtide.runtime.worker", "--"),
        *("python", "train.py", "--fast"),
    ]
    assert built["metadata"]["labels"].items() <= accepted["metadata"]["labels"].items()
    assert built["spec"]["affinity"] == accepted["spec"]["affinity"]


async def test_a_coordinator_is_accepted_where_pods_must_be_restricted(api: Api, job: Job) -> None:
    enforce = {"pod-security.kubernetes.io/enforce": "restricted"}
    await api.request(
        "PATCH",
        f"/api/v1/namespaces/{job.key.namespace}",
        {"metadata": {"labels": enforce}},
        content_type=MERGE,
    )

    await dry_run(api, job, "pods", build_coordinator(job, pod(Role.COORDINATOR), options=OPTIONS))

    with pytest.raises(ApiError, match="violates PodSecurity"):  # the rule is in force
        await dry_run(api, job, "pods", build_worker(job, pod(Role.WORKER), options=OPTIONS))


async def test_service_and_secret_are_accepted(api: Api, job: Job) -> None:
    service = await dry_run(api, job, "services", build_service(job, 1))
    secret = await dry_run(api, job, "secrets", build_secret(job, "token"))

    assert service["spec"]["clusterIP"] == "None"
    assert secret["type"] == "Opaque"


async def test_a_pod_that_no_server_takes_is_refused_in_words(api: Api, job: Job) -> None:
    bad = build_worker(job, pod(Role.WORKER), options=OPTIONS)
    bad["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "lots"}

    with pytest.raises(ApiError, match="quantities must match") as caught:
        await dry_run(api, job, "pods", bad)
    assert caught.value.status in (400, 422)


async def test_kubectl_get_shows_the_columns(
    api: Api, jobs: str, job: Job, kubectl: Kubectl
) -> None:
    status = JobStatus(
        observed_generation=1,
        state="Running",
        display=Display(ready="4/4", gpu="4x V100", spot="3/4", progress="42%"),
        counters=Counters(revocations=7, restarts=2),
        plan=PLAN,
    )
    body = {"status": render_status(status)}
    await api.request("PATCH", f"{jobs}/digits/status", body, content_type=MERGE)

    header, row = (await kubectl("get", "tj")).splitlines()

    assert header.split() == [
        *("NAME", "STATE", "READY", "GPU", "SPOT", "PROGRESS"),
        *("ETA", "COST", "RESTARTS", "PREEMPTIONS", "AGE"),
    ]
    assert row.split()[:11] == [
        *("digits", "Running", "4/4", "4x", "V100", "3/4"),
        *("42%", "2030-01-31T18:00:00Z", "0.00", "2", "7"),
    ]


async def test_kubectl_get_knows_the_category(job: Job, kubectl: Kubectl) -> None:
    assert "trainingjob.ebbtide.dev/digits" in await kubectl("get", "ebbtide", "-o", "name")


async def test_kubectl_wait_sees_the_end(api: Api, jobs: str, job: Job, kubectl: Kubectl) -> None:
    waiting = asyncio.create_task(
        kubectl("wait", "--for=condition=Complete", "tj/digits", "--timeout=60s")
    )
    complete = Condition(
        type="Complete",
        status="True",
        reason="WorkDone",
        message="600 of 600 steps",
        observed_generation=1,
        last_transition=datetime(2026, 1, 1, tzinfo=UTC),
    )
    body = {"status": render_status(JobStatus(observed_generation=1, conditions=(complete,)))}
    await api.request("PATCH", f"{jobs}/digits/status", body, content_type=MERGE)

    assert "digits condition met" in await waiting


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("spec.capacity.onDemandFloor", "always kept on on-demand nodes"),
        ("spec.checkpoint.path", "outlives the pod"),
        ("status.counters", "these only grow"),
        ("spec.objective.onBudget", "Not acted on yet"),
        ("status.plan", "what it was chosen over"),
        ("spec.template.spec.containers", "the first one is the trainer"),
    ],
)
async def test_kubectl_explain_has_something_to_say(
    job: Job, kubectl: Kubectl, field: str, says: str
) -> None:
    told = await kubectl("explain", f"trainingjobs.ebbtide.dev.{field}")

    assert says in " ".join(told.split())
