"""A world with a spot and an on-demand pool, and Ebbtide installed in it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from support.bed import FACTOR, Bed, OpenBed, on_demand_pool, spot_pool
from world.cloud.pool import Pool, Provider
from world.installation import CONTENTS, Installation
from world.kubelet import Images

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from support.outcome import Undisturbed
    from world.api import Json
    from world.world import OpenWorld


@pytest.fixture
async def open_bed(open_world: OpenWorld) -> AsyncIterator[OpenBed]:
    """Start a world with Ebbtide in it."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(*pools: Pool, provider: Provider = Provider.GKE, **options: Any) -> Bed:
            spot, on_demand = (
                spot_pool("spot", provider=provider),
                on_demand_pool("on-demand", provider=provider),
            )
            chosen = pools or (spot, on_demand)
            images = Images(contents=CONTENTS)
            usual = {"factor": FACTOR, "images": images}
            world = await open_world(chosen, **{**usual, **options})
            installation = await stack.enter_async_context(Installation(world))
            bed = Bed(world, installation)
            await stack.enter_async_context(bed.stack)
            return bed

        yield start


@pytest.fixture
async def bed(open_bed: OpenBed) -> Bed:
    """The usual bed: GKE's manners, a spot and an on-demand pool."""
    return await open_bed()


@pytest.fixture(scope="session")
def known_results() -> dict[int, Json]:
    """Results of undisturbed runs of three workers, by number of steps."""
    return {}


@pytest.fixture
def undisturbed(known_results: dict[int, Json]) -> Undisturbed:
    """The result of the same job without any disturbance, trained once per test run."""

    async def train(bed: Bed, *, steps: int = 120) -> Json:
        if steps not in known_results:
            job = await bed.train(name="undisturbed", steps=steps, pause=0.0, workers=(3, 3))
            await job.until_over()
            known_results[steps] = job.result
        return known_results[steps]

    return train
