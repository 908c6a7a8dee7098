"""What a job's coordinator tells those who scrape it."""

from __future__ import annotations

import asyncio
import urllib.request
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from support.outcome import check_whole

if TYPE_CHECKING:
    from prometheus_client.samples import Sample

    from support.bed import Bed


async def test_a_coordinator_is_scraped_at_the_port_that_its_pod_names(bed: Bed) -> None:
    job = await bed.train(workers=(2, 2))
    await job.until_step(20)
    [pod] = await job.pods("coordinator")
    [container] = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}

    address = f"{pod['status']['podIP']}:{ports['metrics']}"
    series = {sample.name: sample for sample in await asyncio.to_thread(_scrape, address)}

    step = series["ebbtide_trainer_step"]
    assert step.labels == {"namespace": job.world.namespace, "trainingjob": "digits"}
    assert step.value >= 20
    assert series["ebbtide_trainer_gradient_tensors"].value == 10
    assert series["ebbtide_trainer_training"].value == 1
    await job.until_over()
    check_whole(job, revocations=0)


def _scrape(address: str) -> list[Sample]:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    return [sample for family in families for sample in family.samples]
