"""A world with a spot and an on-demand pool, and Ebbtide installed in it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from support.bed import FACTOR, Bed, OpenBed, on_demand_pool, spot_pool
from world.cloud.pool import Pool, Provider
from world.installation import CONTENTS, Installation, Operator
from world.kubelet import Images
from world.kubelet.warm import Warm

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from support.outcome import Undisturbed
    from world.api import Json
    from world.session import Session
    from world.world import OpenWorld


@pytest.fixture(scope="module")
def operator(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """One operator for the tests of a file. It sees all namespaces, so it must not outlive them."""
    operator = Operator(session.kubeconfig, tmp_path_factory.mktemp("operator"))
    yield operator
    operator.stop()


@pytest.fixture(scope="session")
def warm(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    """Starts workers at once, in all tests but those that ask for cold ones."""
    with Warm("ebbtide.runtime.worker", log=tmp_path_factory.mktemp("warm") / "log") as warm:
        yield warm


@pytest.fixture
async def open_bed(open_world: OpenWorld, operator: Operator, warm: Warm) -> AsyncIterator[OpenBed]:
    """Start a world with Ebbtide in it."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(
            *pools: Pool, provider: Provider = Provider.GKE, cold: bool = False, **options: Any
        ) -> Bed:
            spot, on_demand = (
                spot_pool("spot", provider=provider),
                on_demand_pool("on-demand", provider=provider),
            )
            chosen = pools or (spot, on_demand)
            images = Images(contents=CONTENTS, warm=None if cold else warm)
            usual = {"factor": FACTOR, "images": images}
            world = await open_world(chosen, **{**usual, **options})
            installation = await stack.enter_async_context(Installation(world, operator=operator))
            bed = Bed(world, installation)
            await stack.enter_async_context(bed.stack)
            return bed

        yield start


@pytest.fixture
async def bed(open_bed: OpenBed) -> Bed:
    """The usual bed: GKE's manners, a spot and an on-demand pool."""
    return await open_bed()


@pytest.fixture(scope="session")
def known_results() -> dict[tuple[int, int], Json]:
    """Results of undisturbed runs, by number of workers and of steps."""
    return {}


@pytest.fixture
def undisturbed(known_results: dict[tuple[int, int], Json]) -> Undisturbed:
    """The result of the same job without any disturbance, trained once per test run."""

    async def train(bed: Bed, *, workers: int, steps: int = 120) -> Json:
        key = (workers, steps)
        if key not in known_results:
            size = (workers, workers)
            job = await bed.train(name="undisturbed", steps=steps, pause=0.0, workers=size)
            await job.until_over()
            known_results[key] = job.result
        return known_results[key]

    return train
