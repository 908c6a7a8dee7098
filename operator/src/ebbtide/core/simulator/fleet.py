"""Many jobs over one trace: each on its own, but ours in step, so that tables are shared."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from ebbtide.core.planner.policies.ebbtide import Ebbtide
from ebbtide.core.planner.policies.greedy import Greedy
from ebbtide.core.planner.policies.history import History
from ebbtide.core.planner.policies.moment import Policy, Terms
from ebbtide.core.planner.policies.on_demand import OnDemand
from ebbtide.core.planner.policies.shelf import Shelf
from ebbtide.core.planner.policies.spot_only import SpotOnly
from ebbtide.core.planner.policies.time_sliced import TimeSliced
from ebbtide.core.planner.policies.uniform_progress import UniformProgress
from ebbtide.core.simulator.replay import Outcome, Replay

OURS: Final = "ebbtide"

PLAIN: Final[Mapping[str, Callable[[Terms], Policy]]] = {
    "greedy": Greedy,
    "on-demand": OnDemand,
    "spot-only": SpotOnly,
    "uniform-progress": UniformProgress,
    "time-sliced": TimeSliced,
}
"""Policies that need no model."""

NAMES: Final = (*PLAIN, OURS)

Arrival: TypeAlias = tuple[Terms, int]
"""A job and the row before which it comes."""


def run(
    name: str,
    arrivals: Sequence[Arrival],
    history: History,
    *,
    pool: Sequence[History] = (),
    changeover_s: float | None = None,
) -> list[Outcome]:
    """
    Replay jobs under one policy.

    Args:
        name: of the policy.
        arrivals: the jobs. Under our policy they have prices and changeovers in common.
        history: the trace.
        pool: the past of other zones, for our prior.
        changeover_s: how long a changeover really takes, where not as the policy was told.

    """
    up = [tuple(row) for row in history.up.tolist()]
    if name != OURS:
        make = PLAIN[name]
        replays = [
            Replay(make(terms), terms, up=up, start=start, changeover_s=changeover_s)
            for terms, start in arrivals
        ]
        for replay in replays:
            replay.advance()
        return [replay.outcome() for replay in replays]
    return _run_ours(arrivals, history, up, pool=pool, changeover_s=changeover_s)


def _run_ours(
    arrivals: Sequence[Arrival],
    history: History,
    up: Sequence[tuple[bool, ...]],
    *,
    pool: Sequence[History],
    changeover_s: float | None,
) -> list[Outcome]:
    """Go from re-fit to re-fit; before each solve the tables of all jobs that run."""
    if not arrivals:
        return []
    shelf = Shelf(history=history, terms=arrivals[0][0], pool=pool)
    ours: list[tuple[Ebbtide, Replay]] = []
    for terms, start in arrivals:
        policy = Ebbtide(terms, shelf)
        ours.append((policy, Replay(policy, terms, up=up, start=start, changeover_s=changeover_s)))
    waiting = sorted(ours, key=lambda pair: pair[1].row)
    running: list[tuple[Ebbtide, Replay]] = []
    row = waiting[0][1].row
    while waiting or running:
        until = (row // shelf.period_rows + 1) * shelf.period_rows
        while waiting and waiting[0][1].row < until:
            running.append(waiting.pop(0))
        shelf.prepare([policy.request(replay.moment()) for policy, replay in running])
        running = [pair for pair in running if not pair[1].advance(until)]
        row = until if running or not waiting else waiting[0][1].row
    return [replay.outcome() for _, replay in ours]
