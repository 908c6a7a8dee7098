"""
Size and place by plan, on a real control plane with a provider that runs dry.

The job's compute is a pause for each sample, so that more workers are faster, as on GPUs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.planned import give_profile, planned_pools, train_planned

if TYPE_CHECKING:
    from support.bed import Bed
    from world.training import Training


def _on_demand(job: Training) -> int:
    return int((job.status.get("replicas") or {}).get("onDemand", 0))


def _is_whole(job: Training) -> bool:
    replicas = job.status.get("replicas") or {}
    return bool(replicas.get("ready")) and replicas.get("ready") == replicas.get("desired")


def _events(lines: list[str], reason: str) -> list[str]:
    return [line for line in lines if line.split()[1] == f"{reason}:"]


async def test_a_loose_deadline_trains_on_spot_alone(bed: Bed) -> None:
    job = await train_planned(bed, steps=100, objective={"deadlineSeconds": 600})
    await job.until_over()

    assert set(planned_pools(job)) == {"spot"}
    assert job.condition("GoalAtRisk")["status"] == "False"
    plan = job.status["plan"]
    assert plan["reason"]
    assert plan["predicted"]["deadlineProbability"] > 0.9
    assert plan["alternatives"]
    assert not [m for m in bed.world.cloud.machines.values() if m.pool.name == "on-demand"]


async def test_on_demand_stands_in_for_what_spot_lacks_and_goes_when_it_is_back(bed: Bed) -> None:
    # The size is given, so that noise cannot move it: what is tried is the place.
    job = await train_planned(bed, steps=120, objective={"deadlineSeconds": 300}, workers=(2, 2))
    await job.until(lambda job: job.step >= 10 and _is_whole(job), what="at full size")
    assert set(planned_pools(job)) == {"spot"}
    workers = job.status["replicas"]["spot"]
    assert workers >= 2

    bed.world.cloud.set_available("spot", 0)
    [machine, *_] = await job.machines()
    await bed.world.revoke("power-loss", node=machine.name)
    await job.until(lambda job: _on_demand(job) == 1, what="standing in")
    assert job.status["replicas"]["spot"] >= workers - 1
    assert _events(await job.events(), "FellBackToOnDemand")

    bed.world.cloud.set_available("spot", None)
    await job.until(
        lambda job: _is_whole(job) and _on_demand(job) == 0, what="back on spot", timeout=90.0
    )
    assert _events(await job.events(), "ReturnedToSpot")
    await job.until_over(timeout=150.0)

    assert job.counter("stepsLost") == 0
    assert job.counter("failures") == 0


async def test_an_impossible_goal_runs_nothing_and_starts_when_it_is_loosened(bed: Bed) -> None:
    job = await train_planned(bed, steps=400, objective={"deadlineSeconds": 8})
    await job.until(
        lambda job: job.condition("Planned").get("reason") == "GoalInfeasible", what="refused"
    )
    assert "nearest" in job.condition("Planned")["message"]
    assert job.condition("Stalled")["reason"] == "GoalInfeasible"
    assert not await job.pods()
    assert not await job.pods("coordinator")
    assert "firstStartTime" not in job.status

    await job.change(objective={"deadlineSeconds": 600})
    await job.until_step(5)
    assert job.condition("Stalled") == {}


async def test_a_dry_run_tells_the_plan_and_runs_nothing(bed: Bed) -> None:
    job = await train_planned(bed, planMode="DryRun", objective={"deadlineSeconds": 600})
    await job.until(planned_pools, what="planned")

    assert job.condition("Running")["reason"] == "DryRun"
    assert not await job.pods()

    await job.change(planMode="Auto")
    await job.until_step(5)


@pytest.mark.parametrize("slowdown", [1.0, 4.0], ids=["fast", "slow"])
async def test_the_size_comes_from_the_models(bed: Bed, slowdown: float) -> None:
    """A profile of slower steps needs more workers for the same deadline."""
    await give_profile(bed, name="told", slowdown=slowdown)
    job = await train_planned(
        bed, planMode="DryRun", profile="told", steps=150, objective={"deadlineSeconds": 150}
    )
    await job.until(planned_pools, what="planned")

    assert sum(planned_pools(job).values()) == (1 if slowdown == 1.0 else 3)
