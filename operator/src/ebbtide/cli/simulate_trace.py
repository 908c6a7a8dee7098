"""What `ebbtide simulate` replays over: a trace that is read or drawn, and prices beside it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from ebbtide.cli.fit import complaints
from ebbtide.cli.tables import read_tables

if TYPE_CHECKING:  # commands import late: `ebbtide --help` stays fast
    from ebbtide.core.planner.policies.history import History
    from ebbtide.core.simulator.prices import Prices

HOUR_S: Final = 3600.0

SOURCES: Final = ("availability", "events", "lifetimes")
"""Exactly one of these options says what is replayed."""

DEFAULTS: Final = {"tick_seconds": 600.0, "trace_days": 30.0, "outage_hours": 2.0}
SERVES: Final = {
    "tick_seconds": ("events", "lifetimes"),
    "trace_days": ("lifetimes",),
    "outage_hours": ("lifetimes",),
}
"""Options that say something with some sources alone."""

SPOT_USD_H: Final = 0.918
"""USD/h of one p3.2xlarge on spot, where neither an option nor a file says it."""

MOST_DRAWN: Final = 1_000_000
"""Ticks of a trace that is drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The zones, and what they cost where that moves: USD/s for all nodes of a job."""

    history: "History"
    prices: "Prices" = ()


def check_source(given: dict[str, Any]) -> str:
    """Return which option names the trace; fill in what only some traces need."""
    named = [source for source in SOURCES if given[source] is not None]
    if len(named) != 1:
        words = ", ".join(f"--{source}" for source in SOURCES)
        found = "none is given" if not named else f"not {' and '.join(f'--{n}' for n in named)}"
        raise click.UsageError(f"exactly one of {words} is needed; {found}")
    for option, sources in SERVES.items():
        if given[option] is None:
            given[option] = DEFAULTS[option]
        elif named[0] not in sources:
            words = " or ".join(f"--{source}" for source in sources)
            raise click.UsageError(
                f"--{option.replace('_', '-')} says something with {words} alone: leave it out"
                f" with --{named[0]}"
            )
    return named[0]


def read_trace(given: dict[str, Any]) -> Trace:
    """Read or draw the trace; complain with file, row, column and value."""
    source = check_source(given)
    if given["tick_seconds"] < 1:
        raise click.BadParameter(
            f"{given['tick_seconds']:g}: at least 1 s is needed", param_hint="--tick-seconds"
        )
    file = given[source]
    with complaints(file):
        history = _READERS[source](file, given)
    if given["prices"] is None:
        return Trace(history=history)
    from ebbtide.core.simulator.prices import read_prices

    default = None if given["spot_price"] is None else given["spot_price"] / HOUR_S
    with complaints(given["prices"]):
        prices = read_prices(read_tables([given["prices"]]), history, default=default)
    return Trace(history=history, prices=tuple(zone.times(given["nodes"]) for zone in prices))


def _availability(file: str, given: dict[str, Any]) -> "History":
    from ebbtide.core.simulator.availability import read_history

    return read_history(read_tables([file]), nodes=given["nodes"])


def _events(file: str, given: dict[str, Any]) -> "History":
    from ebbtide.core.simulator.events import read_events

    return read_events(read_tables([file]), nodes=given["nodes"], tick_s=given["tick_seconds"])


def _lifetimes(file: str, given: dict[str, Any]) -> "History":
    import numpy as np

    from ebbtide.core.simulator.lifetimes import Shape, draw_history

    shape = Shape(
        length_s=given["trace_days"] * 24 * HOUR_S,
        tick_s=given["tick_seconds"],
        outage_s=given["outage_hours"] * HOUR_S,
    )
    if shape.num_ticks > MOST_DRAWN:
        raise click.UsageError(
            f"--trace-days {given['trace_days']:g} are {shape.num_ticks} ticks of"
            f" {shape.tick_s:g} s, at most {MOST_DRAWN} are drawn: a shorter trace or longer"
            " ticks are needed"
        )
    # The second word tells this stream from that of the starts, which has the seed alone.
    chance = np.random.default_rng([given["seed"], 1])  # noqa: TID251 -- the outermost caller seeds
    return draw_history(read_tables([file]), shape, chance)


_READERS: Final = {"availability": _availability, "events": _events, "lifetimes": _lifetimes}
