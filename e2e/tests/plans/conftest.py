"""A world with plain on-demand machines beside the GPU pools, and an operator in a hurry."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from support.bed import on_demand_pool, spot_pool
from support.planned import PLANNING
from world.cloud.pool import Market, Pool
from world.installation import FAST, Operator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.bed import Bed, OpenBed
    from world.session import Session


@pytest.fixture(scope="module")
def operator(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """An operator that plans every two seconds."""
    operator = Operator(
        session.kubeconfig, tmp_path_factory.mktemp("operator"), settings={**FAST, **PLANNING}
    )
    yield operator
    operator.stop()


@pytest.fixture
async def bed(open_bed: OpenBed) -> Bed:
    """A spot and an on-demand pool, and machines without GPUs for coordinators."""
    plain = Pool(
        name="plain",
        market=Market.ON_DEMAND,
        usd_per_node_hour=Decimal("0.04"),
        provision_seconds=(5.0, 10.0),
        min_nodes=1,
        max_nodes=2,
    )
    return await open_bed(spot_pool("spot"), on_demand_pool("on-demand"), plain)
