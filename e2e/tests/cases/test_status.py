"""What a job says of itself, when it is over, and what it leaves behind."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import pytest

from support.bare_bed import count_verdicts, name_of
from support.bare_status import lost
from support.bed import spot_pool
from support.outcome import check_history

if TYPE_CHECKING:
    from support.bare_bed import BareBed, OpenBareBed
    from world.training import Training

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
LIFE = [
    *("Starting", "Running", "Recovering", "Running"),
    *("Suspending", "Suspended", "Starting", "Running", "Complete"),
]


@pytest.mark.parametrize("last_one", ["exits 0", "is lost with its node"])
async def test_b019_a_job_is_complete_only_when_every_member_is_done(
    bed: BareBed, last_one: str
) -> None:
    await bed.fleet.add("spot", 3)
    trainers = bed.train()
    trainers.hangs |= {name_of(1), name_of(2)}
    job = await bed.submit(3, steps=60)
    await bed.fleet.until(
        lambda pods: pods.get(name_of(0), {"status": {}})["status"].get("phase") == "Succeeded",
        what="the first member done",
        within=30.0,
    )
    await job.until(lambda job: job.condition("Running")["reason"] == "Finished", what="done")
    await bed.fleet.set_pod(name_of(1), {"phase": "Succeeded"})
    await job.until(
        lambda job: job.status["replicaStatuses"]["worker"]["succeeded"] == 2, what="two done"
    )
    assert job.condition("Complete")["status"] == "False"

    if last_one == "exits 0":
        await bed.fleet.set_pod(name_of(2), {"phase": "Succeeded"})
    else:
        await bed.fleet.delete(bed.fleet.node_of(name_of(2)).name)
    await job.until_over(timeout=15)  # less than what a member that hangs is given

    assert job.status["progress"]["step"] == job.status["progress"]["lastCheckpointStep"] == 60
    assert job.counter("failures") == 0
    assert len(bed.fleet.made) == 3
    check_history(job)


@pytest.mark.parametrize("policy", ["All", "None"])
async def test_b020_every_way_to_the_end_cleans_up_alike(
    open_bed: OpenBareBed, policy: str
) -> None:
    bed = await open_bed(spot_pool("spot", gpus_per_node=8), finishGraceSeconds=2)
    await bed.fleet.add("spot")
    trainers = bed.train()
    trainers.hangs.add(name_of(1, job="hung"))
    ways: dict[str, tuple[str, dict[str, Any]]] = {
        "hung": ("Complete", {"steps": 60}),
        "crashed": ("Failed", {"steps": 100_000, "backoffLimit": 0}),
        "late": ("Failed", {"steps": 100_000, "activeDeadlineSeconds": 2}),
    }
    jobs = {
        name: await bed.submit(2, name=name, cleanPodPolicy=policy, **options)
        for name, (_, options) in ways.items()
    }
    await jobs["crashed"].until_state("Running", timeout=60)
    await bed.fleet.set_pod(name_of(0, job="crashed"), lost(exited=1))
    await asyncio.gather(*(jobs[name].until_state(ways[name][0], timeout=60) for name in ways))
    assert jobs["late"].condition("Failed")["reason"] == "DeadlineExceeded"
    await asyncio.gather(*(job.until(_is_at_rest, what="at rest") for job in jobs.values()))

    for job in jobs.values():
        kept = [*await job.pods(), *await job.pods("coordinator")]
        assert len(kept) == (3 if policy == "None" else 0)
        assert all(pod["status"]["phase"] in {"Succeeded", "Failed"} for pod in kept)
        assert bool(await _services(bed, job)) is (policy == "None")
        assert len({_spent(status) for status in _after_the_end(job)}) == 1
        check_history(job)


def _is_at_rest(job: Training) -> bool:
    return all(role["active"] == 0 for role in job.status["replicaStatuses"].values())


def _after_the_end(job: Training) -> list[dict[str, dict[str, str]]]:
    statuses = [version.get("status", {}) for version in job.history]
    return [status for status in statuses if "completionTime" in status]


def _spent(status: dict[str, dict[str, str]]) -> str:
    return status["cost"]["spentUsd"]


async def _services(bed: BareBed, job: Training) -> list[str]:
    found = await bed.world.api.request("GET", bed.world.path("services"))
    names = [service["metadata"]["name"] for service in found["items"]]
    return [name for name in names if name.startswith(f"{job.name}-")]


async def test_b021_conditions_never_contradict_each_other_with_pod_news_late(
    bed: BareBed,
) -> None:
    await bed.fleet.add("spot", 4)
    bed.train()
    bed.proxy.pod_delay = 0.5
    job = await bed.submit(3, steps=250)
    await job.until_state("Running", timeout=60)
    await bed.fleet.delete(bed.fleet.node_of(name_of(0)).name)
    await job.until_state("Recovering")
    await job.until_state("Running")
    await job.change(suspend=True)
    await job.until_state("Suspended")
    assert bed.fleet.pods == {}
    await job.change(suspend=False)
    await job.until_state("Running")
    assert await _read_column(bed, "State") == "Running"
    await job.until_over()

    check_history(job)
    states = [version.get("status", {}).get("state", "Pending") for version in job.history]
    told = [state for state, _ in itertools.groupby(states) if state != "Pending"]
    assert told == LIFE
    assert await _read_column(bed, "State") == "Complete"
    assert job.status["observedGeneration"] == job.history[-1]["metadata"]["generation"]
    assert count_verdicts(job) == (1, 0, 0)


async def _read_column(bed: BareBed, name: str) -> str:
    path = bed.world.path("trainingjobs", "apis/ebbtide.dev/v1alpha1")
    async with bed.world.api.session.get(path, headers={"Accept": TABLE}) as answer:
        table = await answer.json()
    column = [definition["name"] for definition in table["columnDefinitions"]].index(name)
    return str(table["rows"][0]["cells"][column])


async def test_b034_a_worker_that_comes_late_does_not_hold_the_end_up(
    open_bed: OpenBareBed,
) -> None:
    bed = await open_bed(capacityWaitSeconds=1)
    await bed.fleet.add("spot", 3)
    bed.train()
    job = await bed.submit(4, minimum=3, steps=400)
    await job.until_state("Running", timeout=60)
    assert job.status["generation"]["members"] == 3
    await job.until(lambda job: job.condition("Degraded")["reason"] == "NoCapacity", what="told")
    await job.until_over(timeout=60)
    await bed.fleet.until(
        lambda pods: all(pod["status"]["phase"] == "Succeeded" for pod in pods.values()),
        what="free of the late one",
    )

    assert len(bed.fleet.pods) == 3
    assert count_verdicts(job) == (0, 0, 0)
