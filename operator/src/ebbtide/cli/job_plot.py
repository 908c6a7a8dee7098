"""The picture of a whole job: what could be had, what was held, progress and cost over time."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ebbtide.cli.plots import CURVE, HOUR_S, RC, WIDTH
from ebbtide.cli.tables import FileError

if TYPE_CHECKING:  # matplotlib comes late: `ebbtide --help` stays fast
    from matplotlib.axes import Axes

    from ebbtide.core.simulator.virtual.run import Run
    from ebbtide.core.simulator.virtual.timing import Trace
    from ebbtide.core.values.pool import Pool

NUM_PLOTS: Final = 4

Points = list[tuple[float, float]]
"""Hours since the job was made, and a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A run, and what it ran in."""

    run: "Run"
    pools: tuple["Pool", ...]
    trace: "Trace"

    @property
    def end_h(self) -> float:
        """How long the run was."""
        return self.hour(self.run.ended)

    def hour(self, moment: datetime) -> float:
        """Return a moment as hours since the job was made."""
        return (moment - self.run.started).total_seconds() / HOUR_S

    def capacity(self, pool: "Pool") -> Points:
        """Return how many nodes of a pool could be had, from each moment on."""
        changes = self.trace.nodes.get(pool.name, ())
        most = float(pool.max_nodes)
        told = ((change.at_s / HOUR_S, min(change.value, most)) for change in changes)
        points = [(0.0, most), *(point for point in told if point[0] <= self.end_h)]
        return [*points, (self.end_h, points[-1][1])]

    def held(self, pool: "Pool") -> Points:
        """Return how many nodes of a pool were there, from each moment on."""
        items = [item for item in self.run.bill.items if item.pool == pool.name]
        turns = [(self.hour(item.since), 1) for item in items]
        turns += [(self.hour(item.until), -1) for item in items]
        return _sum_up(turns, self.end_h)

    def steps(self) -> Points:
        """Return how far training was."""
        points = [(0.0, 0.0)]
        for stretch in self.run.stretches:
            points.append((self.hour(stretch.began), float(stretch.first)))
            points.append((self.hour(stretch.ended), float(stretch.last)))
        return [*points, (self.end_h, points[-1][1])]

    def usd(self) -> Points:
        """Return what had been billed."""
        rates = [(self.hour(i.since), float(i.usd_per_hour)) for i in self.run.bill.items]
        rates += [(self.hour(i.until), -float(i.usd_per_hour)) for i in self.run.bill.items]
        points, total = [(0.0, 0.0)], 0.0
        before, rate = 0.0, 0.0
        for hour, change in sorted(rates):
            total += rate * (hour - before)
            points.append((hour, total))
            before, rate = hour, rate + change
        return [*points, (self.end_h, total)]


def draw_run(story: Story, path: Path) -> None:
    """Write capacity, choices, progress and cost over time as one picture; raises FileError."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(RC):
        figure = Figure(figsize=(WIDTH, 1.0 + NUM_PLOTS * CURVE), layout="constrained")
        axes = figure.subplots(NUM_PLOTS, 1, sharex=True)
        for number, pool in enumerate(story.pools):
            look: dict[str, Any] = {"color": f"C{number}", "label": pool.name}
            _step(axes[0], story.capacity(pool), gid=f"capacity-{pool.name}", **look)
            _step(axes[1], story.held(pool), gid=f"choice-{pool.name}", **look)
        axes[2].plot(*_columns(story.steps()), gid="progress", color="black")
        axes[3].plot(*_columns(story.usd()), gid="cost", color="black")
        labels = ("nodes that can be had", "nodes held", "steps", "bill, USD")
        for axis, label in zip(axes, labels, strict=True):
            axis.set_ylabel(label)
            axis.set_ylim(bottom=0)
        for axis in axes[:2]:
            axis.legend(loc="best", fontsize="small")
        axes[3].set_xlim(0, max(story.end_h, 1e-3))
        axes[3].set_xlabel("hours since the job was made")
        # A date in the file would make two equal runs differ.
        metadata: dict[str, Any] = {"Date": None} if path.suffix.lower() == ".svg" else {}
        try:
            figure.savefig(path, metadata=metadata)
        except OSError as error:
            raise FileError(str(path), f"cannot be written: {error.strerror}") from error


def _step(axis: "Axes", points: Points, **look: Any) -> None:
    axis.plot(*_columns(points), drawstyle="steps-post", **look)


def _columns(points: Points) -> tuple[list[float], list[float]]:
    return [hour for hour, _ in points], [value for _, value in points]


def _sum_up(turns: Iterable[tuple[float, int]], end_h: float) -> Points:
    points, number = [(0.0, 0.0)], 0
    for hour, turn in sorted(turns, key=lambda one: (one[0], -one[1])):
        number += turn
        points.append((hour, float(number)))
    return [*points, (end_h, float(number))]
