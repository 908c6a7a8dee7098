"""
Value tables kept from one question to the next.

A job that waits asks every minute, for hours, about one law and one deadline: each table holds
what a later question needs. A table kept is the table that would be solved, so what is remembered
decides nothing.
"""

from typing import NamedTuple

from ebbtide.core.planner.policies.value_table import Costs, Table


class Facts(NamedTuple):
    """What makes two questions share a table, whoever asks."""

    law: bytes
    """Of each hour of the day."""
    costs: Costs
    hour: int
    """Of the day, at the deadline."""
    spot: tuple[float, ...]


class Reach(NamedTuple):
    """The part of a table that is there, or is needed: seconds."""

    least_s: float
    """To the deadline."""
    most_s: float
    slack_s: float

    def covers(self, other: "Reach") -> bool:
        """Tell whether everything of another part is in this one."""
        return (
            self.least_s <= other.least_s
            and self.most_s >= other.most_s
            and self.slack_s >= other.slack_s
        )


class Memory:
    """The tables that were used last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: dict[Facts, tuple[Table, Reach]] = {}

    def __len__(self) -> int:
        return len(self._found)

    def find(self, facts: Facts, needed: Reach) -> Table | None:
        """Return a table that has what is needed."""
        found = self._found.get(facts)
        if found is None or not found[1].covers(needed):
            return None
        self._found[facts] = self._found.pop(facts)  # used last
        return found[0]

    def keep(self, facts: Facts, table: Table, reach: Reach) -> None:
        """Keep a table, and forget the one that was not asked for the longest."""
        self._found.pop(facts, None)
        self._found[facts] = table, reach
        while len(self._found) > self._most:
            del self._found[next(iter(self._found))]
