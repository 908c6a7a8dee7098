"""The scale sub-resource: in planMode Manual it works, elsewhere it is refused in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ebbtide.api.convert import parse_job
from ebbtide.api.status import render_status
from ebbtide.core.values.job import Job
from ebbtide.core.values.status import JobStatus, Replicas
from support.kubectl import KubectlError
from support.manifests import job_manifest
from world.api import MERGE, ApiError

if TYPE_CHECKING:
    from support.kubectl import Kubectl
    from world.api import Api

POLICY = {"minReplicas": 2, "maxReplicas": 8, "replicas": 4}
MANUAL: dict[str, Any] = {"planMode": "Manual", "elasticPolicy": POLICY}


async def create(api: Api, jobs: str, **spec: Any) -> None:
    manifest = job_manifest(**spec)
    del manifest["metadata"]["namespace"]
    await api.request("POST", jobs, manifest)


async def test_kubectl_scale_sets_the_number_of_workers(
    api: Api, jobs: str, kubectl: Kubectl
) -> None:
    await create(api, jobs, **MANUAL)

    await kubectl("scale", "tj", "digits", "--replicas=3")

    job = parse_job(await api.request("GET", f"{jobs}/digits"))
    assert isinstance(job, Job)
    assert job.replicas == 3


async def test_the_scale_shows_what_is_wanted_and_what_trains(api: Api, jobs: str) -> None:
    await create(api, jobs, **MANUAL)
    selector = "ebbtide.dev/job-name=digits"
    status = JobStatus(observed_generation=1, selector=selector, replicas=Replicas(ready=2))
    body = {"status": render_status(status)}
    await api.request("PATCH", f"{jobs}/digits/status", body, content_type=MERGE)

    scale = await api.request("GET", f"{jobs}/digits/scale")

    assert scale["spec"] == {"replicas": 4}
    assert scale["status"] == {"replicas": 2, "selector": selector}


@pytest.mark.parametrize(
    ("number", "says"),
    [
        ("1", "replicas must be from minReplicas to maxReplicas"),
        ("9", "replicas must be from minReplicas to maxReplicas"),
        ("5", "replicas must be a legal size"),
    ],
)
async def test_a_size_that_is_not_legal_is_refused(
    api: Api, jobs: str, kubectl: Kubectl, number: str, says: str
) -> None:
    policy = {**POLICY, "replicaIncrementStep": 2}
    await create(api, jobs, planMode="Manual", elasticPolicy=policy)

    with pytest.raises(KubectlError, match=says):
        await kubectl("scale", "tj", "digits", f"--replicas={number}")


@pytest.mark.parametrize("mode", ["Auto", "DryRun"])
async def test_where_the_planner_rules_there_is_nothing_to_scale(
    api: Api, jobs: str, kubectl: Kubectl, mode: str
) -> None:
    await create(api, jobs, planMode=mode)

    with pytest.raises(KubectlError, match=r"elasticPolicy\.replicas is for planMode Manual"):
        await kubectl("scale", "tj", "digits", "--replicas=3")

    change = {"spec": {"elasticPolicy": {"replicas": 3}}}
    with pytest.raises(ApiError, match=r"elasticPolicy\.replicas is for planMode Manual"):
        await api.request("PATCH", f"{jobs}/digits", change, content_type=MERGE)


async def test_a_running_job_goes_from_one_mode_to_the_other(api: Api, jobs: str) -> None:
    await create(api, jobs)
    started = {"status": {"firstStartTime": "2026-01-01T12:00:00Z"}}
    await api.request("PATCH", f"{jobs}/digits/status", started, content_type=MERGE)

    for mode, replicas in (("Manual", 3), ("Auto", None)):
        change = {"spec": {"planMode": mode, "elasticPolicy": {"replicas": replicas}}}
        updated = await api.request("PATCH", f"{jobs}/digits", change, content_type=MERGE)
        job = parse_job(updated)
        assert isinstance(job, Job)
        assert (job.plan_mode, job.replicas) == (mode, replicas)
