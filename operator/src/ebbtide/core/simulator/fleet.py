"""Many jobs over one trace: each on its own, but ours in step, so that tables are shared."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
from ebbtide.core.simulator.prices import Prices
from ebbtide.core.simulator.replay import Outcome, Replay, Tick, Trace

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


@dataclass(frozen=True, kw_only=True)
class World:
    """Where jobs are replayed, beside what their terms say."""

    pool: Sequence[History] = ()
    """The past of other zones, for our prior."""
    changeover_s: float | None = None
    """How long a changeover really takes, where not as the policy was told."""
    prices: Prices = ()
    """Of spot by zone, where they move."""
    logs: Mapping[int, list[Tick]] = field(default_factory=dict)
    """Lists that take the ticks of some jobs, by their number among the arrivals."""


def run(
    name: str, arrivals: Sequence[Arrival], history: History, world: World | None = None
) -> list[Outcome]:
    """
    Replay jobs under one policy.

    Args:
        name: of the policy.
        arrivals: the jobs. Under our policy they have prices and changeovers in common.
        history: the trace.
        world: what else there is to say.

    """
    world = world or World()
    trace = Trace.of(history.up, world.prices, tick_s=history.tick_s)
    shelf = None
    if name == OURS and arrivals:
        shelf = Shelf(history=history, terms=arrivals[0][0], pool=world.pool)
    replays = [
        Replay(
            PLAIN[name](terms) if shelf is None else Ebbtide(terms, shelf),
            terms,
            trace=trace,
            start=start,
            changeover_s=world.changeover_s,
            log=world.logs.get(number),
        )
        for number, (terms, start) in enumerate(arrivals)
    ]
    if shelf is None:
        for replay in replays:
            replay.advance()
    else:
        _run_in_step(replays, shelf)
    return [replay.outcome() for replay in replays]


def _run_in_step(replays: Sequence[Replay], shelf: Shelf) -> None:
    """Go from re-fit to re-fit; before each solve the tables of all jobs that run."""
    waiting = sorted(replays, key=lambda replay: replay.row)
    running: list[Replay] = []
    row = waiting[0].row
    while waiting or running:
        until = (row // shelf.period_rows + 1) * shelf.period_rows
        while waiting and waiting[0].row < until:
            running.append(waiting.pop(0))
        shelf.prepare([shelf.request(replay.moment()) for replay in running])
        running = [replay for replay in running if not replay.advance(until)]
        row = until if running or not waiting else waiting[0].row
