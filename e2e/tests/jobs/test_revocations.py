"""
Every way in which a provider takes nodes, while a job trains.

With minReplicas = maxReplicas training waits for the replacement, so the final model must be the
undisturbed one; with less, it goes on smaller and must come out as good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.outcome import check_as_good, check_equal, check_whole
from world.cloud.pool import Provider

if TYPE_CHECKING:
    from support.bed import Bed, OpenBed
    from support.outcome import Undisturbed

# scenario, options, how the spot pool's provider does things
LOSSES = [
    pytest.param("gke-spot", {}, Provider.GKE, id="gke-spot"),
    pytest.param("gke-same-name", {}, Provider.GKE, id="gke-same-name"),
    pytest.param("aws-itn", {}, Provider.EKS, id="aws-itn-nth"),
    pytest.param("aws-itn", {}, Provider.KARPENTER, id="aws-itn-karpenter"),
    pytest.param("aks-preempt", {"drained": True}, Provider.AKS, id="aks-preempt-drained"),
    pytest.param("aks-preempt", {"drained": False}, Provider.AKS, id="aks-preempt-vanished"),
    pytest.param("power-loss", {}, Provider.GKE, id="power-loss"),
    pytest.param("return", {"after": (20.0, 30.0)}, Provider.GKE, id="return"),
]


@pytest.mark.parametrize(("scenario", "options", "provider"), LOSSES)
async def test_a_lost_node_costs_no_step_and_changes_no_result(
    open_bed: OpenBed,
    undisturbed: Undisturbed,
    scenario: str,
    options: dict[str, Any],
    provider: Provider,
) -> None:
    bed = await open_bed(provider=provider)
    job = await bed.train(workers=(3, 3))
    await job.until_step(30)
    [machine, *_] = await job.machines()
    bed.world.revoke(scenario, node=machine.name, **options)
    await job.until_over()

    check_whole(job, revocations=1)
    check_equal(job, await undisturbed(bed))


@pytest.mark.parametrize("scenario", ["gke-spot", "power-loss"])
async def test_training_goes_on_smaller_and_comes_out_as_good(
    bed: Bed, undisturbed: Undisturbed, scenario: str
) -> None:
    job = await bed.train(workers=(2, 3))
    await job.until(lambda job: job.step >= 30 and job.status["replicas"]["ready"] == 3, what="3")
    [machine, *_] = await job.machines()
    bed.world.revoke(scenario, node=machine.name)
    await job.until_over()

    check_whole(job, revocations=1)
    check_as_good(job, await undisturbed(bed))


async def test_a_node_that_cannot_reach_the_api_server_is_expelled_and_replaced(
    bed: Bed, undisturbed: Undisturbed
) -> None:
    job = await bed.train(workers=(3, 3))
    await job.until_step(30)
    [machine, *_] = await job.machines()
    revocation = bed.world.revoke("partition-api", node=machine.name, seconds=150.0)
    await job.until(lambda job: job.counter("revocations") == 1, what="counted")
    await job.until_over()
    await revocation  # the healed node finds its pod gone and must end what still runs

    check_whole(job, revocations=1)
    check_equal(job, await undisturbed(bed))


async def test_a_node_cut_off_from_its_peers_is_replaced(
    bed: Bed, undisturbed: Undisturbed
) -> None:
    job = await bed.train(workers=(3, 3))
    await job.until_step(30)
    [machine, *_] = await job.machines()
    bed.world.revoke("partition-data", node=machine.name, seconds=400.0, with_api=True)
    await job.until_over()

    check_whole(job, revocations=1)
    check_equal(job, await undisturbed(bed))


async def test_b007_a_warning_that_passes_costs_nothing_and_counts_nothing(
    open_bed: OpenBed, undisturbed: Undisturbed
) -> None:
    bed = await open_bed(provider=Provider.EKS)
    job = await bed.train(workers=(3, 3), steps=300)
    await job.until_step(30)
    [machine, *_] = await job.machines()
    await bed.world.revoke("flap", node=machine.name, seconds=20.0)
    assert job.status["state"] == "Running"
    await job.until_over()

    check_whole(job, revocations=0)
    assert job.counter("restarts") == 0
    check_equal(job, await undisturbed(bed, steps=300))


async def test_a_wave_through_the_zone_takes_every_spot_node(
    bed: Bed, undisturbed: Undisturbed
) -> None:
    job = await bed.train(workers=(1, 3))
    await job.until_step(30)
    [machine, *_] = await job.machines()
    bed.world.revoke("zone-wave", node=machine.name, within=20.0)
    await job.until_over()

    check_whole(job, revocations=2)
    check_as_good(job, await undisturbed(bed))


async def test_two_nodes_lost_at_once_in_different_ways(bed: Bed, undisturbed: Undisturbed) -> None:
    job = await bed.train(workers=(3, 3))
    await job.until_step(30)
    first, second = await job.machines()
    bed.world.revoke("gke-spot", node=first.name)
    bed.world.revoke("power-loss", node=second.name)
    await job.until_over()

    check_whole(job, revocations=2)
    check_equal(job, await undisturbed(bed))


async def test_all_spot_nodes_at_once_lose_no_step_with_one_worker_on_demand(
    bed: Bed, undisturbed: Undisturbed
) -> None:
    job = await bed.train(workers=(3, 3))
    await job.until_step(30)
    for machine in await job.machines():
        bed.world.revoke("power-loss", node=machine.name)
    await job.until_over()

    check_whole(job, revocations=2)
    check_equal(job, await undisturbed(bed))


async def test_all_nodes_at_once_lose_at_most_the_steps_since_the_last_checkpoint(
    bed: Bed, undisturbed: Undisturbed
) -> None:
    job = await bed.train(workers=(3, 3), steps=200, capacity={"onDemandFloor": 0})
    await job.until(
        lambda job: (
            job.status.get("progress", {}).get("lastCheckpointStep", 0) > 0 and job.step >= 60
        ),
        what="saved",
    )
    saved = job.status["progress"]["lastCheckpointStep"]
    for machine in await job.machines():
        bed.world.revoke("power-loss", node=machine.name)
    await job.until_over()

    check_whole(job, revocations=3, steps_lost=None)
    assert 0 <= job.counter("stepsLost") <= 200 - saved
    check_equal(job, await undisturbed(bed, steps=200))


async def test_a_drought_sends_the_worker_to_on_demand(bed: Bed, undisturbed: Undisturbed) -> None:
    job = await bed.train(workers=(3, 3))
    await job.until_step(30)
    [machine, *_] = await job.machines()
    bed.world.revoke("no-capacity", node=machine.name, seconds=(900.0, 900.0))
    await job.until_over()

    check_whole(job, revocations=1)
    assert any("FellBackToOnDemand" in event for event in await job.events())
    check_equal(job, await undisturbed(bed))
