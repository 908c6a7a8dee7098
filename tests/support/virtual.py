"""Runs of whole jobs in virtual time that a test can state in a line."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import numpy as np

from ebbtide.core.planner.speed import Pace, Speed
from ebbtide.core.simulator.virtual.run import Conditions, Loop, Run, Watch
from ebbtide.core.simulator.virtual.timing import Change, Timing, Trace
from ebbtide.core.simulator.virtual.world import World
from ebbtide.core.values.job import Job
from ebbtide.core.values.pool import Pool
from ebbtide.core.values.settings import Settings
from support.builders import ON_DEMAND, SPOT, START, make_job

STEP_S: Final = 2.0
"""One worker of V100 alone makes a batch of 64 in so many seconds."""
SPEED: Final = Speed(
    paces={
        "V100": Pace(value=64 / STEP_S, low=30.0, high=34.0, source="a test"),
        "K80": Pace(value=64 / STEP_S / 4, low=7.0, high=9.0, source="a test"),
    }
)
PROMPT: Final = Timing(silence_s=0.0, idle_s=60.0)
"""What happens to a node is seen at once, so that what is counted is what is charged."""
RARE: Final = Settings(progress_interval=timedelta(seconds=60))
"""Progress alone is looked at once a minute: fewer passes, the same decisions."""

Points = tuple[tuple[float, float], ...]


def changes(*points: tuple[float, float]) -> tuple[Change, ...]:
    """Say what something is from a second on."""
    return tuple(Change(at_s=at_s, value=value) for at_s, value in points)


def nodes(**pools: Points) -> Trace:
    """Say how many nodes each pool gives from a second on; `on_demand` for on-demand."""
    return Trace(nodes={name.replace("_", "-"): changes(*points) for name, points in pools.items()})


def prices(**pools: Points) -> Mapping[str, tuple[Change, ...]]:
    """Say what a node of each pool costs from a second on."""
    return {name.replace("_", "-"): changes(*points) for name, points in pools.items()}


def make_loop(
    job: Job | None = None,
    *,
    pools: tuple[Pool, ...] = (SPOT, ON_DEMAND),
    trace: Trace | None = None,
    timing: Timing = PROMPT,
    seed: int = 0,
    watch: Watch | None = None,
    kind: type[Loop] = Loop,
    **circumstances: Any,
) -> Loop:
    """Put a job before its first pass; every pass is checked to be idempotent."""
    conditions = Conditions(
        start=START, trace=trace or Trace(), timing=timing, settings=RARE, check=True
    )
    conditions = replace(conditions, **circumstances)
    world = World(
        job or make_job(),
        pools,
        start=START,
        trace=conditions.trace,
        speed=SPEED,
        timing=timing,
        chance=np.random.default_rng(seed),
    )
    return kind(world, conditions, watch=watch)


def play(job: Job | None = None, **circumstances: Any) -> Run:
    """Run a job to its end."""
    return make_loop(job, **circumstances).run()


def seconds_of(run: Run, reason: str) -> list[float]:
    """When something was told, in seconds since the start."""
    return [(entry.at - START).total_seconds() for entry in run.log if entry.reason == reason]
