"""A pool that gives a node at once and takes it back at once, on a real control plane."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pytest

from support.bed import on_demand_pool, spot_pool
from support.planned import PLANNING, planned_pools, train_planned
from world.cloud.pool import Market, Pool
from world.installation import FAST, POOLS, Operator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.bed import Bed, OpenBed
    from world.cloud.machine import Machine
    from world.session import Session
    from world.training import Training

FEW: Final = 3
"""Losses in a row after which a pool is left."""


@pytest.fixture(scope="module")
def operator(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """An operator for which a node that was lost within twenty seconds was not worth its start."""
    settings = {**FAST, **PLANNING, "startSeconds": 10}
    operator = Operator(session.kubeconfig, tmp_path_factory.mktemp("operator"), settings=settings)
    yield operator
    operator.stop()


@pytest.fixture
async def bed(open_bed: OpenBed) -> Bed:
    """Return a cheap pool, one that costs a little more, on-demand, and plain machines."""
    plain = Pool(
        name="plain",
        market=Market.ON_DEMAND,
        usd_per_node_hour=Decimal("0.04"),
        provision_seconds=(5.0, 10.0),
        min_nodes=1,
        max_nodes=2,
    )
    return await open_bed(
        spot_pool("cheap", usd_per_node_hour=Decimal("0.65")),
        spot_pool("steady", usd_per_node_hour=Decimal("0.92")),
        on_demand_pool("on-demand"),
        plain,
    )


def _history(pool: dict[str, Any] | None, what: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (pool or {}).get("status", {}).get("history", {}).get(what, [])
    return found


async def _until_followed(bed: Bed, job: Training, pool: str) -> Machine:
    """Wait for a node of a pool that carries a worker, and of which the operator knows."""
    found = await bed.world.until(
        f"{POOLS}/{pool}",
        lambda stored: _history(stored, "followed"),
        what=f"a node of {pool}, {await job.describe()}",
        timeout=60.0,
    )
    [followed] = _history(found, "followed")
    return bed.world.node(followed["node"])


async def _until_lost(bed: Bed, pool: str, number: int) -> list[dict[str, Any]]:
    """Wait until so many lives are remembered, and return them."""
    found = await bed.world.until(
        f"{POOLS}/{pool}",
        lambda stored: len(_history(stored, "lives")) >= number,
        what=f"loss {number} remembered",
        timeout=60.0,
    )
    return _history(found, "lives")


async def test_b083_a_pool_that_takes_back_at_once_is_left_after_few_losses(bed: Bed) -> None:
    job = await train_planned(bed, steps=2000, objective={"deadlineSeconds": 3600}, workers=(1, 1))

    for number in range(1, FEW + 1):
        machine = await _until_followed(bed, job, "cheap")
        await bed.world.revoke("power-loss", node=machine.name, node_deleted=(0.0, 0.0))
        lives = await _until_lost(bed, "cheap", number)
        assert [life["revoked"] for life in lives] == [True] * number

    await job.until(lambda job: planned_pools(job) == {"steady": 1}, what="away from cheap")
    await job.until_step(job.step + 5)
    asked = [e for e in bed.world.cloud.journal.find("requested") if e.pool == "cheap"]
    assert len(asked) <= FEW + 1, "a fourth may be on its way when the third loss is known"
    assert job.counter("revocations") == FEW
    assert job.counter("failures") == 0
    assert not [m for m in bed.world.cloud.machines.values() if m.pool.name == "on-demand"]
