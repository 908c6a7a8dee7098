"""A world with plain on-demand machines beside the GPU pools, and an operator in a hurry."""

from __future__ import annotations

import contextlib
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from support.bed import FACTOR, Bed, on_demand_pool, spot_pool
from support.planned import PLANNING
from world.cloud.pool import Market, Pool
from world.installation import CONTENTS, FAST, Installation, Operator
from world.kubelet import Images
from world.kubelet.warm import Warm

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from world.session import Session
    from world.world import OpenWorld


@pytest.fixture(scope="module")
def operator(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """An operator that plans every two seconds."""
    operator = Operator(
        session.kubeconfig, tmp_path_factory.mktemp("operator"), settings={**FAST, **PLANNING}
    )
    yield operator
    operator.stop()


@pytest.fixture(scope="session")
def warm(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    """Starts workers at once; hot before there is a node that could fall silent meanwhile."""
    with Warm("ebbtide.runtime.worker", log=tmp_path_factory.mktemp("warm") / "log") as warm:
        warm.heat()
        yield warm


@pytest.fixture
async def bed(open_world: OpenWorld, operator: Operator, warm: Warm) -> AsyncIterator[Bed]:
    """A spot and an on-demand pool, and machines without GPUs for coordinators."""
    plain = Pool(
        name="plain",
        market=Market.ON_DEMAND,
        usd_per_node_hour=Decimal("0.04"),
        provision_seconds=(5.0, 10.0),
        min_nodes=1,
        max_nodes=2,
    )
    pools = (spot_pool("spot"), on_demand_pool("on-demand"), plain)
    async with contextlib.AsyncExitStack() as stack:
        world = await open_world(pools, factor=FACTOR, images=Images(contents=CONTENTS, warm=warm))
        installation = await stack.enter_async_context(Installation(world, operator=operator))
        bed = Bed(world, installation)
        await stack.enter_async_context(bed.stack)
        yield bed
