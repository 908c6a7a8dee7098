"""What was simulated is what runs: the same decisions in the same order, for the same money."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

import yaml

from ebbtide.controller.settings import read_configuration
from ebbtide.core.simulator.virtual.timing import Change, Timing
from support.parity import Seen, Witness, decisions, side_by_side, simulate
from support.planned import BATCH, PLANNING, train_planned
from world.beside import beside
from world.installation import FAST

if TYPE_CHECKING:
    from pathlib import Path

    from support.bed import Bed
    from world.cloud.journal import Journal
    from world.training import Training

WORKERS: Final = 2
SLOWDOWN: Final = 3.0
"""A step of two workers pauses for 0.77 s, which hides what a busy machine adds to it."""
STEPS: Final = 150
"""A pass that comes a second later leaves on-demand a second later: little of such a run's cost."""
LOSS_AT: Final = 14
BUDGET: Final = "1.00"
"""Many times what the job costs: no plan is near its edge. A deadline with so much time left would
have the job wait for spot."""
CONTAINER_S: Final = 0.3
PLENTY: Final = 6
TOLERANCE: Final = 0.02
BUSY: Final = "a node that nobody took was not Ready: this machine is too busy to play the trace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """When spot ran dry, with the loss of a node, and when it was back."""

    dry: datetime
    back: datetime
    lost: str


async def test_operator_and_simulator_decide_alike_and_pay_alike(bed: Bed, tmp_path: Path) -> None:
    """Spot runs dry, a node is lost, on-demand stands in, spot comes back."""
    job = await train_planned(
        bed,
        slowdown=SLOWDOWN,
        steps=STEPS,
        workers=(WORKERS, WORKERS),
        objective={"budget": BUDGET},
    )
    witness = Witness(job)
    async with beside(witness.follow()):
        story = await _play(bed, job)
        await witness.until_last_word()

    start = datetime.fromisoformat(job.status["firstStartTime"])
    spot = (
        Change(at_s=0.0, value=PLENTY),
        Change(at_s=(story.dry - start).total_seconds(), value=WORKERS - 1),
        Change(at_s=(story.back - start).total_seconds(), value=PLENTY),
    )
    file = tmp_path / "operator.yaml"
    file.write_text(yaml.safe_dump({**FAST, **PLANNING}))
    seen = Seen(
        timing=_timing(bed.world.cloud.journal, job, witness, story),
        samples_per_s=_rate(job, witness, story) * BATCH,
        workers=WORKERS,
    )
    settings = read_configuration(file).settings
    found = await simulate(bed, job, seen, settings=settings, spot=spot)

    assert job.counter("revocations") == 1, BUSY
    paid = float(job.status["cost"]["settledUsd"])
    foretold = float(found.status.cost.settled_usd)
    both = f"{side_by_side(witness.told, found)}\nreally {paid} USD, simulated {foretold}, {seen}"
    (tmp_path / "both.txt").write_text(both)
    real = decisions([(one.reason, one.message) for one in witness.told])
    assert real == decisions([(entry.reason, entry.message) for entry in found.log]), both
    assert {"FellBackToOnDemand", "ReturnedToSpot"} <= {reason for reason, _ in real}
    assert found.status.counters.revocations == 1
    assert abs(foretold / paid - 1) < TOLERANCE, both


async def _play(bed: Bed, job: Training) -> Story:
    """Bring about what the trace says, and see the job to its end."""
    cloud = bed.world.cloud
    await job.until_step(LOSS_AT)
    assert job.counter("revocations") == 0, BUSY
    machines = await job.machines()
    newest = max(machines, key=lambda m: cloud.journal.find("requested", node=m.name)[0].at)
    cloud.set_available("spot", 0)
    bed.world.revoke("power-loss", node=newest.name)
    await job.until(lambda job: job.status["replicas"]["onDemand"] == 1, what="standing in")
    stood_in = job.step
    await job.until_step(stood_in + 5)
    cloud.set_available("spot", None)
    await job.until_over(timeout=200.0)
    dry, back = cloud.journal.find("available", pool="spot")[-2:]
    return Story(dry=dry.at, back=back.at, lost=newest.name)


def _rate(job: Training, witness: Witness, story: Story) -> float:
    """Return steps per second while nobody came or went."""
    points = _progress(job)
    steady = (
        [(at, step) for at, step in points if step >= 2 and at < story.dry],
        [(at, step) for at, step in points if at > witness.first("ReturnedToSpot")],
    )
    steps = sum(part[-1][1] - part[0][1] for part in steady)
    return steps / sum((part[-1][0] - part[0][0]).total_seconds() for part in steady)


def _progress(job: Training) -> list[tuple[datetime, int]]:
    """Return when each step was seen for the first time."""
    found: dict[int, datetime] = {}
    for version in job.history:
        progress = version.get("status", {}).get("progress", {})
        if "lastUpdatedTime" in progress:
            at = datetime.fromisoformat(progress["lastUpdatedTime"])
            found.setdefault(int(progress.get("step", 0)), at)
    return sorted((at, step) for step, at in found.items())


def _timing(journal: Journal, job: Training, witness: Witness, story: Story) -> Timing:
    """Return how long things took, in the mean where they happened more than once."""
    gpu = {"spot", "on-demand"}
    ready = {e.node: e for e in journal.find("ready") if e.pool in gpu}
    asked = [e for e in journal.find("requested") if e.node in ready]
    node_s = _mean([(ready[e.node].at - e.at).total_seconds() for e in asked])
    came = sorted(e.at for e in ready.values() if e.at < story.dry)
    [last] = [e.at for e in ready.values() if e.at > story.back]
    first_join = witness.first("Running") - came[WORKERS - 1]
    join = witness.first("ReturnedToSpot") - last
    off = journal.find("power-off", node=story.lost)[0].at
    noticed_s = (witness.first("PodPreempted") - off).total_seconds()
    # What is lost is replaced in the pass that the coordinator's report starts.
    loss_s = (witness.first("ReplacementCreated") - off).total_seconds()
    end_s = (witness.first("Completed") - _progress(job)[-1][0]).total_seconds()
    return Timing(
        node_s=node_s,
        container_s=CONTAINER_S,
        join_s=join.total_seconds() - CONTAINER_S,
        first_join_s=first_join.total_seconds() - CONTAINER_S,
        coordinator_s=0.5,
        silence_s=noticed_s - float(FAST["nodeLostSeconds"]),
        reform_s=0.3,
        stall_s=0.0,  # part of the rate
        commit_s=end_s / 2,
        exit_s=end_s / 2,
        loss_s=loss_s,
        warned_share=0.0,
    )


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
