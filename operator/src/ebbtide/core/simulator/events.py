"""
Nodes that come and go by name, as a history of one zone.

A job holds the nodes that have been there longest. A tick has capacity where the nodes that the
job holds at its beginning stay to its end; whoever loses one loses the rest of that tick, and may
start on what is left in the next.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from ebbtide.core.models.table import Column, DataError, Table
from ebbtide.core.planner.policies.history import History

SECONDS: Final = Column(name="seconds", unit="s", open_below=False)
EVENT: Final = Column(name="event", unit="text")
NODE: Final = Column(name="node", unit="text")

ADD: Final = "add"
REMOVE: Final = "remove"
NOTICE: Final = "notice"
EVENTS: Final = (ADD, REMOVE, NOTICE)

ZONE: Final = "nodes"
"""What the one zone is called."""
MOST_TICKS: Final = 1_000_000


class Event(NamedTuple):
    """What became of one node."""

    at_s: float
    kind: str
    node: str


class _Nodes:
    """The nodes that can be had, the longest there first."""

    def __init__(self) -> None:
        self._there: dict[str, bool] = {}
        """Whether each has notice; a dictionary keeps the order in which they came."""

    def complaint(self, event: Event) -> str:
        """Return what is wrong with an event, or nothing."""
        is_there = event.node in self._there
        if event.kind == ADD and is_there and not self._there[event.node]:
            return "is there already: a remove or a notice must come first"
        if event.kind != ADD and not is_there:
            return "is not there: an add must come first"
        return ""

    def apply(self, event: Event) -> None:
        """Take an event in; one that is added again while it has notice is as before."""
        if event.kind == ADD:
            self._there[event.node] = False
        elif event.kind == NOTICE:
            self._there[event.node] = True
        else:
            del self._there[event.node]

    def held(self, number: int) -> list[str]:
        """Return the nodes of a job that needs so many; fewer where there are not enough."""
        free = (node for node, is_warned in self._there.items() if not is_warned)
        return [node for node, _ in zip(free, range(number), strict=False)]


def read_events(table: Table, *, nodes: int, tick_s: float) -> History:
    """
    Read `seconds`, `event` (add, remove or notice) and `node`, in order of time.

    A node under notice can no longer be had, until it is added again: then the notice was false.

    Args:
        table: of events; seconds are since any midnight UTC.
        nodes: how many a job needs.
        tick_s: time between two decisions; the first tick begins at the first event.

    Raises:
        DataError: with row, column, value and what would be right.

    """
    events = list(list_events(table))
    begin_s, end_s = events[0].at_s, events[-1].at_s
    num_ticks = int((end_s - begin_s) // tick_s) + 1
    if num_ticks > MOST_TICKS:
        raise DataError(
            f"column seconds: {num_ticks} ticks of {tick_s:g} s lie between {begin_s:.10g} and"
            f" {end_s:.10g}, at most {MOST_TICKS} are replayed: longer ticks are needed"
        )
    up = np.zeros((num_ticks, 1), dtype=np.bool_)
    there, times, place = _Nodes(), [event.at_s for event in events], 0
    for tick in range(num_ticks):
        begins = begin_s + tick * tick_s
        while place < len(events) and events[place].at_s <= begins:
            there.apply(events[place])
            place += 1
        held = there.held(nodes)
        end = bisect_left(times, begins + tick_s, lo=place)
        hit = {event.node for event in events[place:end] if event.kind != ADD}
        up[tick, 0] = len(held) == nodes and hit.isdisjoint(held)
    return History(zones=(ZONE,), up=up, tick_s=tick_s, start_s=begin_s)


def list_events(table: Table) -> Iterator[Event]:
    """Return `seconds`, `event` and `node` in order of time; raises DataError."""
    seconds, kinds, nodes = table.numbers(SECONDS), table.texts(EVENT), table.texts(NODE)
    there, before = _Nodes(), 0.0
    for row, at_s, kind, node in zip(table.rows, seconds.tolist(), kinds, nodes, strict=True):
        if kind not in EVENTS:
            raise DataError(f"column event, row {row}: {kind!r} is none of {', '.join(EVENTS)}")
        if at_s < before:
            raise DataError(
                f"column seconds, row {row}: {at_s:.10g} is before the row above, {before:.10g}:"
                " events in order of time are needed"
            )
        event = Event(at_s, kind, node)
        complaint = there.complaint(event)
        if complaint:
            raise DataError(f"column node, row {row}: {node!r} {complaint}")
        there.apply(event)
        before = at_s
        yield event
