"""Pictures of simulated jobs. matplotlib is an extra, and imported only to draw."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ebbtide.cli.tables import FileError

if TYPE_CHECKING:  # numpy and matplotlib come late: `ebbtide --help` stays fast
    from matplotlib.axes import Axes

    from ebbtide.core.planner.policies.history import History
    from ebbtide.core.planner.policies.moment import Terms
    from ebbtide.core.simulator.replay import Tick

SUFFIXES: Final = (".png", ".svg")
HOUR_S: Final = 3600.0
WIDTH: Final = 10.0
"""Inches, as the heights below."""
CURVE: Final = 2.2
LANE: Final = 0.28
"""Of each zone and each policy."""
ON_DEMAND_COLOUR: Final = "black"
RC: Final[Any] = {"svg.fonttype": "none", "svg.hashsalt": "ebbtide"}
"""Words stay words, and the same run gives the same file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """One job under some policies."""

    history: "History"
    terms: "Terms"
    start: int
    """The row before which it came."""
    logs: "Mapping[str, Sequence[Tick]]"
    """By policy."""

    @property
    def hours(self) -> float:
        """What is shown: to the deadline, and on to the end of the latest."""
        ticks = max(len(log) for log in self.logs.values())
        return max(self.terms.deadline_s, ticks * self.terms.tick_s) / HOUR_S

    def begin_h(self, tick: "Tick") -> float:
        """Return when a tick begins, from the start of the job."""
        return (tick.row - self.start) * self.terms.tick_s / HOUR_S

    def ends_h(self, log: "Sequence[Tick]") -> list[float]:
        """Return the start of the job and the end of each tick; the last ends with the work."""
        *whole, last = log
        ends = [self.begin_h(tick) + self.terms.tick_s / HOUR_S for tick in whole]
        return [0.0, *ends, self.begin_h(last) + last.paid_s / HOUR_S]

    def done_h(self, log: "Sequence[Tick]") -> list[float]:
        """Return the work that is done at each of these."""
        return [0.0, *((self.terms.work_s - tick.work_s) / HOUR_S for tick in log)]


def check_picture(text: str) -> Path:
    """Check where a picture shall go, before anything long begins."""
    path = Path(text)
    if path.suffix.lower() not in SUFFIXES:
        raise click.BadParameter(
            f"{text!r} ends in neither {' nor '.join(SUFFIXES)}", param_hint="--plot"
        )
    if find_spec("matplotlib") is None:
        raise click.UsageError(
            "--plot needs matplotlib, which is not installed: pip install 'ebbtide[plot]'"
        )
    return path


def draw(timeline: Timeline, path: Path) -> None:
    """Write capacity, choices, progress and cost over time as one picture; raises FileError."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    lanes = [len(timeline.history.zones), len(timeline.logs)]
    heights = [0.4 + LANE * lanes[0], 0.4 + LANE * lanes[1], CURVE, CURVE]
    with mpl.rc_context(RC):
        figure = Figure(figsize=(WIDTH, 1.0 + sum(heights)), layout="constrained")
        axes = figure.subplots(4, 1, sharex=True, height_ratios=heights)
        colours = [f"C{number}" for number in range(lanes[0])]
        _capacity(axes[0], timeline, colours)
        _choices(axes[1], timeline, colours)
        for policy, log in timeline.logs.items():
            hours, costs = timeline.ends_h(log), [0.0, *(tick.cost_usd for tick in log)]
            axes[2].plot(hours, timeline.done_h(log), label=policy, gid=f"progress-{policy}")
            axes[3].plot(hours, costs, label=policy, gid=f"cost-{policy}")
        _name_curves(axes[2], "work done, h")
        _name_curves(axes[3], "cost, USD")
        for axis in axes:
            axis.axvline(timeline.terms.deadline_s / HOUR_S, color="grey", linestyle=":")
        axes[3].set_xlim(0, 1.02 * timeline.hours)
        axes[3].set_xlabel("hours since the job came; dotted: its deadline")
        # A date in the file would make two equal runs differ.
        metadata: dict[str, Any] = {"Date": None} if path.suffix.lower() == ".svg" else {}
        try:
            figure.savefig(path, metadata=metadata)
        except OSError as error:
            raise FileError(str(path), f"cannot be written: {error.strerror}") from error


def _capacity(axis: "Axes", timeline: Timeline, colours: Sequence[str]) -> None:
    """One lane for each zone, filled while it is up."""
    tick_h = timeline.terms.tick_s / HOUR_S
    until = timeline.start + int(timeline.hours / tick_h + 1)
    up = timeline.history.up[timeline.start : until]
    for lane, colour in enumerate(colours):
        spans = [(row * tick_h, tick_h) for row in range(len(up)) if up[row, lane]]
        _fill(axis, spans, lane, colour=colour, name=f"capacity-{timeline.history.zones[lane]}")
    _name_lanes(axis, timeline.history.zones, "capacity")


def _choices(axis: "Axes", timeline: Timeline, colours: Sequence[str]) -> None:
    """One lane for each policy: the colour of the zone, black for on-demand, none for idle."""
    tick_h = timeline.terms.tick_s / HOUR_S
    places = dict(enumerate(colours))
    places[-1] = ON_DEMAND_COLOUR
    for lane, (policy, log) in enumerate(timeline.logs.items()):
        for place, colour in places.items():
            spans = [(timeline.begin_h(tick), tick_h) for tick in log if tick.place == place]
            name = "on-demand" if place < 0 else timeline.history.zones[place]
            _fill(axis, spans, lane, colour=colour, name=f"choice-{policy}-{name}")
    _name_lanes(axis, list(timeline.logs), "choice; black: on-demand")


def _fill(
    axis: "Axes", spans: Sequence[tuple[float, float]], lane: int, *, colour: str, name: str
) -> None:
    if spans:
        axis.broken_barh(_joined(spans), (lane - 0.4, 0.8), facecolor=colour, gid=name)


def _joined(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Join spans that touch: one bar, not one for each tick."""
    found: list[tuple[float, float]] = []
    for begin, length in spans:
        if found and begin - sum(found[-1]) < length / 2:
            found[-1] = (found[-1][0], begin + length - found[-1][0])
        else:
            found.append((begin, length))
    return found


def _name_lanes(axis: "Axes", names: Sequence[str], title: str) -> None:
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.set_title(title, fontsize="medium", loc="left")


def _name_curves(axis: "Axes", label: str) -> None:
    axis.set_ylabel(label)
    axis.set_ylim(bottom=0)
    axis.legend(loc="best", fontsize="small")
