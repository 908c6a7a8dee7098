"""
Events of nodes that come and go: Bamboo (NSDI 2023), Oobleck (SOSP 2023), Parcae (NSDI 2024).

Each gives how many nodes there were and when; a replay asks whether there were enough.
"""

import csv
import io
from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np

from ebbtide.core.models.table import DataError, Floats
from ebbtide.core.planner.policies.history import HOUR_S, History

MS: Final = 1_000.0
ADD: Final = "add"
REMOVE: Final = "remove"
SIGNS: Final = {ADD: 1, REMOVE: -1}
IDLE_EVENTS: Final = ("migration", "no-op")
"""Events of Parcae that change no count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Churn:
    """Events in order of time."""

    times_s: Floats
    changes: Floats
    """Nodes that came, or went where below 0."""

    @property
    def end_s(self) -> float:
        """Time of the last event."""
        return float(self.times_s[-1])

    @property
    def peak(self) -> int:
        """The most nodes at any time."""
        return int(np.cumsum(self.changes).max())

    @property
    def mean(self) -> float:
        """The mean number of nodes from time 0 to the last event."""
        counts = np.cumsum(self.changes)[:-1]
        return float(counts @ np.diff(self.times_s) / self.end_s)

    @property
    def losses(self) -> int:
        """Nodes that went."""
        return int(-self.changes[self.changes < 0].sum())

    @property
    def losses_per_node_hour(self) -> float:
        """How often a node goes."""
        return self.losses / (self.mean * self.end_s / HOUR_S)

    @property
    def largest_burst(self) -> int:
        """The most nodes that went at one moment."""
        at: Counter[float] = Counter()
        for time, change in zip(self.times_s.tolist(), self.changes.tolist(), strict=True):
            at[time] += -int(min(change, 0))
        return max(at.values())

    def enough(self, nodes: int, *, tick_s: float) -> History:
        """Return when there were at least so many nodes at the beginning of a tick."""
        ticks = np.arange(0.0, self.end_s + tick_s, tick_s)
        known = np.searchsorted(self.times_s, ticks, side="right")
        counts = np.concatenate([[0.0], np.cumsum(self.changes)])[known]
        return History(
            zones=(f"at least {nodes} nodes",), up=counts[:, np.newaxis] >= nodes, tick_s=tick_s
        )


def read_events(text: str) -> Churn:
    """Read `t_ms, add or remove, node`, without a header."""
    rows = [row for row in csv.reader(io.StringIO(text)) if row]
    if not rows:
        raise DataError("there are no rows: at least one event is needed")
    times, changes = [], []
    for number, row in enumerate(rows, start=1):
        if len(row) != 3 or row[1] not in SIGNS or not row[0].isdigit():  # noqa: PLR2004 -- three columns
            raise DataError(f"row {number}: {','.join(row)!r} is not milliseconds,add|remove,node")
        times.append(int(row[0]) / MS)
        changes.append(float(SIGNS[row[1]]))
    return _churn(times, changes)


def read_segments(text: str) -> dict[str, Churn]:
    """Read Parcae's four segments by name."""
    found: dict[str, tuple[list[float], list[float]]] = {}
    for number, row in enumerate(csv.DictReader(io.StringIO(text)), start=2):
        event = row["event"]
        if event not in SIGNS and event not in IDLE_EVENTS:
            raise DataError(f"row {number}: {event!r} is none of add, remove, migration, no-op")
        times, changes = found.setdefault(row["segment"], ([], []))
        times.append(int(row["t_ms"]) / MS)
        changes.append(SIGNS.get(event, 0) * float(row["nodes_changed"]))
    return {name: _churn(times, changes) for name, (times, changes) in found.items()}


def _churn(times: list[float], changes: list[float]) -> Churn:
    order = np.argsort(times, kind="stable")
    return Churn(times_s=np.array(times)[order], changes=np.array(changes)[order])
