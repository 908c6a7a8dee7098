"""What tests of whole jobs share: worlds with Ebbtide in them, whose workers start at once."""

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

    from world.session import Session
    from world.world import OpenWorld


@pytest.fixture(scope="session")
def warm(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    """
    Starts workers at once, in all tests but those that ask for cold ones.

    Hot before there is a node that could fall silent meanwhile.
    """
    with Warm("ebbtide.runtime.worker", log=tmp_path_factory.mktemp("warm") / "log") as warm:
        warm.heat()
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
