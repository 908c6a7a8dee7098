"""One job twice: as the operator ran it on a real control plane, and as the simulator runs it."""

from __future__ import annotations

import asyncio
import contextlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ebbtide.api.convert import parse_job, parse_pool, parse_profile
from ebbtide.core.planner.speed import Pace, Speed
from ebbtide.core.simulator.virtual.run import Conditions, Run, run
from ebbtide.core.simulator.virtual.timing import Timing, Trace
from ebbtide.core.values.job import Job
from ebbtide.data.knowledge import embedded_knowledge
from ebbtide.data.listed_prices import embedded_price

if TYPE_CHECKING:
    from ebbtide.core.simulator.virtual.timing import Change
    from ebbtide.core.values.settings import Settings
    from support.bed import Bed
    from world.training import Training

GROUP: Final = "apis/ebbtide.dev/v1alpha1"
DECISIONS: Final = (
    "PlanChosen",
    "FellBackToOnDemand",
    "ReplacementCreated",
    "ReturnedToSpot",
    "MovedToNextPool",
    "Completed",
)
"""What a job's course is made of. PodPreempted is not among them: it books a loss when the node is
known to be gone, while the replacement, made long before, may or may not train already. Neither is
Running: whether a pass falls into the tenths of a second of a re-forming is chance."""
LAST_WORD_SECONDS: Final = 15.0
LIMIT: Final = timedelta(minutes=30)
SHARES: Final = re.compile(r"\d+ workers? \(([^)]*)\)")
POOL: Final = re.compile(r"pool (\S+?)(?: stands in|:|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An event on a job."""

    at: datetime
    reason: str
    message: str


class Witness:
    """Follows the events on one job in the order in which the operator writes them."""

    def __init__(self, job: Training) -> None:
        self.told: list[Told] = []
        self._job = job
        self._news = asyncio.Event()

    def first(self, reason: str) -> datetime:
        """Return when something was told for the first time."""
        return next(one.at for one in self.told if one.reason == reason)

    async def until_last_word(self) -> None:
        """Wait for the event that a job which is over ends with: it comes after the status."""
        async with asyncio.timeout(LAST_WORD_SECONDS):
            while not any(one.reason == "Completed" for one in self.told):
                self._news.clear()
                await self._news.wait()

    async def follow(self) -> None:
        """Listen until cancelled."""
        api, path = self._job.world.api, self._job.world.path("events")
        selector = f"involvedObject.name={self._job.name}"
        async with contextlib.aclosing(api.watch(path, fieldSelector=selector)) as changes:
            async for kind, found in changes:
                events = sorted(found, key=_revision) if kind == "SYNC" else [found]
                now = datetime.now(UTC)  # the events' own times are whole seconds
                self.told += [
                    Told(at=now, reason=e["reason"], message=e["message"]) for e in events
                ]
                self._news.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the real run showed of how fast things are."""

    timing: Timing
    samples_per_s: float
    """Of a fleet of `workers`."""
    workers: int


def decisions(told: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return what was decided, in order: the reason, and the fleet or the pool."""
    found: list[tuple[str, str]] = []
    for reason, message in told:
        if reason not in DECISIONS:
            continue
        pattern = SHARES if reason == "PlanChosen" else POOL
        match = pattern.search(message)
        detail = ", ".join(sorted(match[1].split(", "))) if match else ""
        if not found or found[-1] != (reason, detail):  # a plan made anew may be the same
            found.append((reason, detail))
    return found


async def simulate(
    bed: Bed, job: Training, seen: Seen, *, settings: Settings, spot: tuple[Change, ...]
) -> Run:
    """Run the same job over the same trace in virtual time, with the delays that were seen."""
    first = next(version for version in job.history if version.get("spec"))
    parsed = parse_job({**first, "status": {}})
    assert isinstance(parsed, Job)
    api = bed.world.api
    pools = await api.request("GET", f"/{GROUP}/capacitypools")
    profiles = await api.request("GET", bed.world.path("workloadprofiles", GROUP))
    pace = seen.samples_per_s / seen.workers
    return run(
        parsed,
        tuple(parse_pool(item, embedded_price) for item in pools["items"]),
        Speed(paces={"V100": Pace(value=pace, low=pace, high=pace, source="as seen")}),
        Conditions(
            start=datetime.fromisoformat(job.status["firstStartTime"]),
            trace=Trace(nodes={"spot": spot}),
            timing=seen.timing,
            settings=settings,
            knowledge=embedded_knowledge(start=settings.start),
            profile=parse_profile(profiles["items"][0]),
            limit=LIMIT,
        ),
        chance=np.random.default_rng(0),
    )


def side_by_side(told: list[Told], found: Run) -> str:
    """Return both runs' events with the seconds since their starts, for whoever reads a failure."""
    lines = [f"simulated: {found.outcome}, {found.why}"]
    lines += [_line(e.at - found.started, e.reason, e.message) for e in found.log]
    lines += ["real:", *(_line(one.at - found.started, one.reason, one.message) for one in told)]
    return "\n".join(lines)


def _line(after: timedelta, reason: str, message: str) -> str:
    return f"{after.total_seconds():8.2f} {reason}: {message[:150]}"


def _revision(found: dict[str, Any]) -> int:
    return int(found["metadata"]["resourceVersion"])
