"""
Every way in which a provider takes nodes, while a job trains.

With minReplicas = maxReplicas training waits for the replacement, so the final model must be the
undisturbed one; with less, it goes on smaller and must come out as good. Ways that one provider
has are tried on one job, one after the other: what the first spoils, the last shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.outcome import check_as_good, check_equal, check_whole
from world.cloud.pool import Provider
from world.recoveries import ask_coordinator

if TYPE_CHECKING:
    from support.bed import Bed, OpenBed
    from support.outcome import Undisturbed
    from world.training import Training

Series = list[tuple[str, dict[str, Any]]]

SERIES = [
    pytest.param(
        Provider.GKE,
        [
            ("gke-spot", {}),
            ("gke-same-name", {}),
            ("power-loss", {}),
            ("return", {"after": (20.0, 30.0)}),
        ],
        id="gke",
    ),
    pytest.param(Provider.EKS, [("aws-itn", {})], id="eks-node-termination-handler"),
    pytest.param(Provider.KARPENTER, [("aws-itn", {})], id="eks-karpenter"),
    pytest.param(
        Provider.AKS,
        [("aks-preempt", {"drained": True}), ("aks-preempt", {"drained": False})],
        id="aks",
    ),
    pytest.param(
        Provider.GKE,
        [
            ("partition-api", {"seconds": 150.0}),
            ("partition-data", {"seconds": 400.0, "with_api": True}),
        ],
        id="partitions",
    ),
]


@pytest.mark.parametrize(("provider", "series"), SERIES)
async def test_lost_nodes_cost_no_step_and_change_no_result(
    open_bed: OpenBed, undisturbed: Undisturbed, provider: Provider, series: Series
) -> None:
    bed = await open_bed(provider=provider, cold=provider is Provider.KARPENTER)
    # Losses are made good in milliseconds, and counted later; a node that is cut off trains on
    # until it is noticed: leave steps for what comes after.
    slow = any(scenario.startswith("partition") for scenario, _ in series)
    job = await bed.train(workers=(2, 2), pause=0.2 if slow else 0.1)
    for number, (scenario, options) in enumerate(series):
        await _revoke(bed, job, scenario, after_step=20 + 15 * number, **options)
    await job.until_over()

    check_whole(job, revocations=len(series))
    check_equal(job, await undisturbed(bed, workers=2))


async def test_training_goes_on_smaller_and_comes_out_as_good(
    bed: Bed, undisturbed: Undisturbed
) -> None:
    job = await bed.train(workers=(1, 2), steps=240)
    await job.until(_is_whole, what="at full size")
    await _revoke(bed, job, "gke-spot", after_step=20)
    await job.until(_is_whole, what="at full size again")
    await _revoke(bed, job, "power-loss", after_step=40)
    await job.until_over()

    check_whole(job, revocations=2)
    check_as_good(job, await undisturbed(bed, workers=2, steps=240))


async def test_a_spare_takes_over_at_once_and_another_one_is_made(
    bed: Bed, undisturbed: Undisturbed
) -> None:
    job = await bed.train(workers=(2, 2), pause=0.1, warmStart={"spares": 1})
    await job.until(_has_spare, what="whole with a spare")
    await job.until_step(20)
    before = await ask_coordinator(job)
    assert before is not None
    # Who of the first two came later than the third is the spare.
    [machine] = await job.machines(only=before.members)
    bed.world.revoke("power-loss", node=machine.name)
    await job.until(
        lambda job: job.counter("revocations") == 1 and _has_spare(job), what="whole again"
    )
    report = await ask_coordinator(job)
    await job.until_over()

    check_whole(job, revocations=1)
    check_equal(job, await undisturbed(bed, workers=2))
    assert report is not None
    lost = next(r for r in report.recoveries if r.cause == "lost")
    # What is noticed by silence takes a second; the node that came anew took as long again.
    assert 0 <= lost.stepping_after < 4.0
    [spare] = {worker.worker for worker in before.workers} - set(before.members)
    assert spare in report.members
    assert len(set(report.members) & set(before.members)) == 1


async def test_b007_a_warning_that_passes_costs_nothing_and_counts_nothing(
    open_bed: OpenBed, undisturbed: Undisturbed
) -> None:
    bed = await open_bed(provider=Provider.EKS)
    job = await bed.train(workers=(2, 2), pause=0.1)
    await job.until_step(20)
    [machine, *_] = await job.machines()
    await bed.world.revoke("flap", node=machine.name, seconds=20.0)
    assert job.status["state"] == "Running"
    await job.until_over()

    check_whole(job, revocations=0)
    assert job.counter("restarts") == 0
    check_equal(job, await undisturbed(bed, workers=2))


async def test_a_wave_through_the_zone_takes_every_spot_node(
    bed: Bed, undisturbed: Undisturbed
) -> None:
    job = await bed.train(workers=(1, 3), steps=240)
    await job.until(lambda job: job.step >= 20 and _is_whole(job), what="at full size")
    [machine, *_] = await job.machines()
    bed.world.revoke("zone-wave", node=machine.name, within=20.0)
    await job.until_over()

    check_whole(job, revocations=2)
    check_as_good(job, await undisturbed(bed, workers=2, steps=240))


async def test_two_nodes_lost_at_once_in_different_ways(bed: Bed, undisturbed: Undisturbed) -> None:
    job = await bed.train(workers=(3, 3))
    await job.until_step(30)
    first, second = await job.machines()
    bed.world.revoke("gke-spot", node=first.name)
    bed.world.revoke("power-loss", node=second.name)
    await job.until_over()

    check_whole(job, revocations=2)
    check_equal(job, await undisturbed(bed, workers=3))


async def test_all_spot_nodes_at_once_lose_no_step_with_one_worker_on_demand(
    bed: Bed, undisturbed: Undisturbed
) -> None:
    job = await bed.train(workers=(3, 3))
    await job.until_step(30)
    for machine in await job.machines():
        bed.world.revoke("power-loss", node=machine.name)
    await job.until_over()

    check_whole(job, revocations=2)
    check_equal(job, await undisturbed(bed, workers=3))


async def test_all_nodes_at_once_lose_at_most_the_steps_since_the_last_checkpoint(
    bed: Bed, undisturbed: Undisturbed
) -> None:
    job = await bed.train(workers=(2, 2), pause=0.1, capacity={"onDemandFloor": 0})
    await job.until(
        lambda job: job.status.get("progress", {}).get("lastCheckpointStep", 0) > 0,
        what="saved",
    )
    saved = job.status["progress"]["lastCheckpointStep"]
    for machine in await job.machines():
        bed.world.revoke("power-loss", node=machine.name)
    await job.until_over()

    check_whole(job, revocations=2, steps_lost=None)
    reached = max(_steps_before_the_fall(job))
    assert 0 <= job.counter("stepsLost") <= reached - saved + 10  # what the status had not told yet
    check_equal(job, await undisturbed(bed, workers=2))


async def test_a_drought_sends_the_worker_to_on_demand(bed: Bed, undisturbed: Undisturbed) -> None:
    job = await bed.train(workers=(2, 2))
    await job.until_step(20)
    [machine, *_] = await job.machines()
    bed.world.revoke("no-capacity", node=machine.name, seconds=(900.0, 900.0))
    await job.until_over()

    check_whole(job, revocations=1)
    assert any("FellBackToOnDemand" in event for event in await job.events())
    check_equal(job, await undisturbed(bed, workers=2))


# -------------------------------------------------------------------- parts


async def _revoke(
    bed: Bed, job: Training, scenario: str, *, after_step: int, **options: Any
) -> None:
    """Take the spot worker's node once so many steps are done, and wait until that is counted."""
    await job.until(
        lambda job: job.step >= after_step and _is_whole(job), what=f"whole at step {after_step}"
    )
    counted = job.counter("revocations")
    [machine, *_] = await job.machines()
    bed.world.revoke(scenario, node=machine.name, **options)
    before = job.status["generation"]["number"]
    await job.until(
        lambda job: (
            job.counter("revocations") > counted and job.status["generation"]["number"] > before
        ),
        what=f"{scenario} counted and made good",
    )


def _has_spare(job: Training) -> bool:
    return _is_whole(job) and job.status["replicas"].get("spares") == 1


def _is_whole(job: Training) -> bool:
    replicas = job.status.get("replicas", {})
    return bool(replicas.get("ready")) and replicas.get("ready") == replicas.get("desired")


def _steps_before_the_fall(job: Training) -> list[int]:
    """Return the steps that the status told before it first told of a loss."""
    told = []
    for version in job.history:
        status = version.get("status", {})
        if status.get("counters", {}).get("revocations", 0):
            break
        told.append(status.get("progress", {}).get("step", 0))
    return told
