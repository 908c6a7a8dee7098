"""Scripts that know nothing of Ebbtide train through revocations, with torchrun and without."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from support.bed import make_script_job
from support.outcome import check_history

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.bed import Bed
    from world.training import Training

STEPS = 60
TRAIN = ("torchrun", "--max-restarts", "3", "train.py", "--steps", str(STEPS), "--pause", "0.05")
LOOP = """
touch /checkpoints/begun-$EBBTIDE_INDEX-$EBBTIDE_ATTEMPT
trap 'exit 143' TERM
while [ ! -e /checkpoints/go ]; do sleep 0.1; done
"""
CLAIM = "scripts-checkpoints"
PATIENCE = 90.0  # seconds; a loaded machine, not an expectation


async def test_an_unmodified_torchrun_script_trains_through_a_revocation(bed: Bed) -> None:
    manifest = make_script_job(command=TRAIN, workers=(2, 2))
    job = await bed.follow(manifest, claim=CLAIM)
    await _until((job.volume / "state.pt").exists, "a checkpoint of the script's own")

    [machine] = await job.machines()
    bed.world.revoke("gke-spot", node=machine.name)
    await job.until(lambda job: job.counter("revocations") == 1, what="counted")
    await job.until_over(timeout=150)

    assert (job.result["steps"], job.result["world"]) == (STEPS, 2)
    assert job.result["accuracy"] > 0.9
    assert job.counter("failures") == 0
    assert _attempts(job) == [1, 2]  # the survivor's container was not restarted
    assert job.condition("Planned")["reason"] == "ManualSize"
    assert "each of 2 workers exited 0" in job.condition("Complete")["message"]
    assert job.status["progress"].get("step", 0) == 0  # nobody counts steps here
    survivor = await job.log("scripts-worker-0-1")
    assert "rank 0 of 2 begins at step 0" in survivor
    assert survivor.count("begins at step") == 2
    check_history(job)


async def test_of_a_plain_command_lost_pods_alone_are_replaced(bed: Bed) -> None:
    manifest = make_script_job(command=("sh", "-c", LOOP), workers=(2, 3), launcher="Command")
    job = await bed.follow(manifest, claim=CLAIM)
    await _until(lambda: len(_begun(job)) == 3, "three begun")
    await job.until_true("Running")

    [machine, *_] = await job.machines()
    bed.world.revoke("gke-spot", node=machine.name)
    await _until(lambda: len(_begun(job)) == 4, "the lost one begun again")
    (job.volume / "go").write_text("")
    await job.until_over(timeout=60)

    assert sorted(_attempts(job)) == [1, 1, 2]
    assert await job.pods("coordinator") == []
    assert job.counter("revocations") == 1
    assert job.counter("failures") == 0
    check_history(job)


# -------------------------------------------------------------------- parts


def _attempts(job: Training) -> list[int]:
    """Return the last attempt of each worker, by index."""
    found = job.status["attempts"]
    return [found[key]["last"] for key in sorted(found) if key.startswith("worker-")]


def _begun(job: Training) -> list[str]:
    return sorted(path.name for path in job.volume.glob("begun-*"))


async def _until(holds: Callable[[], bool], what: str) -> None:
    """Wait for a file that a script writes: no event tells of it."""
    try:
        async with asyncio.timeout(PATIENCE):
            while not holds():  # noqa: ASYNC110 -- see above: there is no event
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise TimeoutError(f"no {what} within {PATIENCE} s") from None
