"""What is going to happen, in the order of its time: the only clock of a virtual world."""

import heapq
import math
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

MICROSECONDS: Final = 1_000_000


def seconds(number: float) -> timedelta:
    """Return a duration, never rounded down: what takes this long has happened after it."""
    return timedelta(microseconds=math.ceil(number * MICROSECONDS))


class Agenda:
    """Events by time; those of one moment happen in the order in which they were noted."""

    def __init__(self, start: datetime) -> None:
        self.now = start
        self._events: list[tuple[datetime, int, Callable[[], None]]] = []
        self._num_noted = 0

    @property
    def next(self) -> datetime | None:
        """When the next event is; None = nothing will happen by itself any more."""
        return self._events[0][0] if self._events else None

    def at(self, when: datetime, do: Callable[[], None]) -> None:
        """Note an event; one that is late happens as soon as time goes on."""
        self._num_noted += 1
        heapq.heappush(self._events, (max(when, self.now), self._num_noted, do))

    def after(self, delay_s: float, do: Callable[[], None]) -> None:
        """Note an event that is so many seconds away."""
        self.at(self.now + seconds(delay_s), do)

    def advance(self, until: datetime) -> None:
        """Let time pass, and everything happen that is due."""
        while self._events and self._events[0][0] <= until:
            self.now, _, do = heapq.heappop(self._events)
            do()
        self.now = max(self.now, until)
