"""What the operator remembers of pools, on a real control plane and across its restart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from support.planned import train_planned
from world.installation import POOLS

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.bed import Bed
    from world.training import Training

SPOT: Final = f"{POOLS}/spot"


async def _until_pool(
    bed: Bed, holds: Callable[[dict[str, Any]], object], *, what: str
) -> dict[str, Any]:
    found = await bed.world.until(
        SPOT, lambda pool: holds((pool or {}).get("status", {})), what=what, timeout=60.0
    )
    status: dict[str, Any] = (found or {})["status"]
    return status


def _remembered(status: dict[str, Any], what: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = status.get("history", {}).get(what, [])
    return found


def _lives(status: dict[str, Any]) -> list[dict[str, Any]]:
    return _remembered(status, "lives")


def _is_available(status: dict[str, Any]) -> bool:
    return bool(status.get("availability", {}).get("available"))


async def _lose_one(bed: Bed, job: Training) -> None:
    [machine, *_] = await job.machines()
    await bed.world.revoke("power-loss", node=machine.name)


async def test_losses_and_droughts_are_remembered_across_a_restart_of_the_operator(
    bed: Bed,
) -> None:
    job = await train_planned(bed, steps=400, objective={"deadlineSeconds": 900}, workers=(2, 2))
    await job.until(lambda job: job.step >= 5, what="training")
    before = await _until_pool(
        bed, lambda status: len(_remembered(status, "followed")) == 2, what="followed"
    )
    assert _is_available(before)
    assert "lastRevocationTime" not in before

    await _lose_one(bed, job)
    once = await _until_pool(bed, _lives, what="a loss remembered")
    assert [life["revoked"] for life in _lives(once)] == [True]
    assert once["lastRevocationTime"]
    assert once["lifetime"]["samples"] == 1
    assert once["lifetime"]["parameters"]["meanHours"] < 20

    bed.operator.kill()
    bed.world.cloud.set_available("spot", 0)
    bed.operator.start()
    await job.until(lambda job: job.status["replicas"]["ready"] == 2, what="whole again")
    await _lose_one(bed, job)
    dry = await _until_pool(
        bed, lambda status: not _is_available(status), what="a drought remembered"
    )
    assert _lives(dry)[0] == _lives(once)[0]
    assert [life["revoked"] for life in _lives(dry)] == [True, True]
    assert _remembered(dry, "spells")[0] == _remembered(before, "spells")[0]

    bed.world.cloud.set_available("spot", None)
    wet = await _until_pool(bed, _is_available, what="the end of the drought")
    assert [spell["available"] for spell in _remembered(wet, "spells")] == [True, False, True]
    assert "failedTries" not in wet["history"]
