"""A job that nothing happens to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.outcome import check_whole

if TYPE_CHECKING:
    from support.bed import OpenBed
    from support.outcome import Undisturbed


async def test_an_undisturbed_job_trains_to_the_end(
    open_bed: OpenBed, undisturbed: Undisturbed
) -> None:
    bed = await open_bed(cold=True)  # in a run of all tests, the other result is a warm one's
    result = await undisturbed(bed, workers=2)
    job = await bed.train(workers=(2, 2), pause=0.0)
    await job.until_over()

    check_whole(job, revocations=0)
    assert job.counter("restarts") == 0
    assert job.result == result  # bit for bit: the digest of the weights is in it
