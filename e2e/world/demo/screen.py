"""Shows what happens: a picture that changes on a terminal, a line for each thing elsewhere."""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING, Final, Self

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from world.kubelet.clock import utc_now

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import RenderableType

    from world.api import Json
    from world.cloud.machine import Machine
    from world.training import Training

NUM_LINES: Final = 14
COLOURS: Final = {"Running": "green", "Recovering": "yellow", "Complete": "green", "Failed": "red"}


class Screen:
    """A context manager; `say` adds a line, `show` draws the job and its nodes."""

    def __init__(self) -> None:
        """Draw nothing yet."""
        self._console = Console()
        self._lines: deque[str] = deque(maxlen=NUM_LINES)
        self._live: Live | None = None
        self._began = utc_now()
        self._last = ""

    def __enter__(self) -> Self:
        """Take the terminal, if it is one."""
        if self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=4, transient=True)
            self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the terminal back; the lines stay."""
        if self._live is not None:
            self._live.__exit__(kind, error, trace)
            self._live = None
            for line in self._lines:
                self._console.print(line, highlight=False, markup=False)

    def say(self, text: str) -> None:
        """Tell that something happened."""
        seconds = (utc_now() - self._began).total_seconds()
        line = f"{seconds:7.1f} s  {text}"
        self._lines.append(line)
        if self._live is None:
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)
            sys.stdout.flush()

    def show(self, job: Training, machines: list[Machine]) -> None:
        """Draw how things stand."""
        status = job.status
        if self._live is None:
            summary = _summary(status)
            if summary != self._last:
                self._last = summary
                self.say(summary)
            return
        lines = Text("\n".join(self._lines), overflow="ellipsis", no_wrap=True)
        parts: list[RenderableType] = [_job(job.name, status), _nodes(machines), Panel(lines)]
        self._live.update(Group(*parts))


def _summary(status: Json) -> str:
    display, counters = status.get("display", {}), status.get("counters", {})
    percent = status.get("progress", {}).get("percentage", 0)
    return (
        f"job {status.get('state', '?')}: {display.get('ready', '-')} workers, "
        f"{percent // 10 * 10} % done, {counters.get('revocations', 0)} revocations, "
        f"{status.get('cost', {}).get('spentUsd', '0.00')} USD"
    )


def _job(name: str, status: Json) -> Panel:
    state = status.get("state", "?")
    progress, display = status.get("progress", {}), status.get("display", {})
    counters = status.get("counters", {})
    grid = Table.grid(padding=(0, 2))
    grid.add_row(
        Text(state, style=COLOURS.get(state, "cyan")),
        f"{display.get('ready', '-')} workers ({display.get('spot', '-')} spot)",
        display.get("gpu", ""),
        f"{progress.get('stepsPerSecond', 0):.1f} steps/s",
        f"{status.get('cost', {}).get('spentUsd', '0.00')} USD",
        f"{counters.get('revocations', 0)} revocations, {counters.get('failures', 0)} failures, "
        f"{counters.get('stepsLost', 0)} steps lost",
    )
    total = max(progress.get("steps", 0), 1)
    bar = ProgressBar(total=total, completed=progress.get("step", 0))
    title = f"TrainingJob {name}: step {progress.get('step', 0)} of {progress.get('steps', '?')}"
    return Panel(Group(grid, bar), title=title)


def _nodes(machines: list[Machine]) -> Table:
    table = Table(expand=True)
    for column in ("node", "pool", "market", "USD/h", "state"):
        table.add_column(column)
    for machine in machines:
        pool = machine.pool
        state = "going" if machine.leaving and str(machine.state) == "running" else machine.state
        table.add_row(
            machine.name, pool.name, str(pool.market), f"{pool.usd_per_node_hour}", str(state)
        )
    return table
