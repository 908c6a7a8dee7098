"""A job that nothing happens to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support.bed import Bed


async def test_an_undisturbed_job_trains_to_the_end(bed: Bed) -> None:
    job = await bed.train(steps=120)
    await job.until_over(timeout=120)

    assert job.result["steps"] == 120
    assert job.status["progress"]["percentage"] == 100
    assert [job.counter(n) for n in ("revocations", "failures", "restarts", "stepsLost")] == [0] * 4
