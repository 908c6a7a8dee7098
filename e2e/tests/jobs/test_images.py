"""The warm image of workers, and what happens when its tag is taken away in the middle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.outcome import check_whole
from world.installation import CONTENTS
from world.kubelet import Images

if TYPE_CHECKING:
    from support.bed import OpenBed
    from world.kubelet.warm import Warm
    from world.training import Training

WARM = "ghcr.io/ebbtide/warm:2"


async def test_b061_a_warm_image_that_vanishes_is_replaced_by_the_templates_and_costs_no_step(
    open_bed: OpenBed, warm: Warm
) -> None:
    images = Images(contents=CONTENTS, warm=warm)
    bed = await open_bed(images=images)
    asked = {"spares": 0, "image": WARM}
    job = await bed.train(workers=(2, 2), steps=60, pause=0.1, warmStart=asked)
    await job.until_step(20)
    before = await _images(job)
    images.unpullable.add(WARM)
    [machine, *_] = await job.machines()
    bed.world.revoke("gke-spot", node=machine.name)
    await job.until(
        lambda job: job.counter("revocations") == 1 and "refusedImage" in job.status, what="told"
    )
    await job.until(_is_whole, what="whole again")
    after, running = await _images(job), job.condition("Running")
    base = job.manifest["spec"]["template"]["spec"]["containers"][0]["image"]
    await job.until_over()

    check_whole(job, revocations=1)
    assert before == [WARM, WARM]
    assert sorted(after) == sorted([WARM, base])
    assert job.counter("restarts") == 0
    assert job.status["refusedImage"]["image"] == WARM
    assert "not found" in job.status["refusedImage"]["message"]
    assert WARM in running["message"]
    assert base in running["message"]
    told = [event for event in await job.events() if "WarmImageRefused" in event]
    assert len(told) == 1


async def _images(job: Training) -> list[str]:
    """Return the images of the workers that run."""
    return [
        pod["spec"]["containers"][0]["image"]
        for pod in await job.pods()
        if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
    ]


def _is_whole(job: Training) -> bool:
    replicas = job.status.get("replicas", {})
    return replicas.get("ready") == 2 and job.condition("Replacing").get("status") == "False"
