"""What a scenario did and when."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable


@dataclass(slots=True, kw_only=True)
class Record:
    """Moments of one scenario, in order; it grows while the scenario runs."""

    scenario: str
    node: str
    pool: str
    moments: list[tuple[str, dt.datetime]] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    """What was drawn: whether an interruption follows, whether a node is drained, ..."""
    parts: list[Record] = field(default_factory=list)
    """The records of the scenarios that this one consists of."""
    now: Callable[[], dt.datetime]

    def mark(self, what: str) -> None:
        """Note that something happened now."""
        self.moments.append((what, self.now()))

    def at(self, what: str) -> dt.datetime:
        """Return when something happened; the last time, if more than once."""
        for name, moment in reversed(self.moments):
            if name == what:
                return moment
        known = ", ".join(name for name, _ in self.moments) or "nothing yet"
        message = f"{self.scenario} of {self.node} has no moment {what!r}; it has: {known}"
        raise KeyError(message)

    def seconds(self, what: str, *, since: str | None = None) -> float:
        """Return the real seconds to a moment, from another one or from the first."""
        start = self.at(since) if since else self.moments[0][1]
        return (self.at(what) - start).total_seconds()
