"""Which of two fleets is better: first how surely the goal is met, then what it wants small."""

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from ebbtide.core.planner.outlook import CLOSE, Field, Outlook, interval_of
from ebbtide.core.planner.risk import HOUR
from ebbtide.core.values.objective import Minimize

Key: TypeAlias = tuple[int, float, float]


class Level(IntEnum):
    """How well the goal is met."""

    SURE = 0
    """Nine of ten times, and as expected so early that on-demand could still step in."""
    LIKELY = 1
    """As expected: a plan that could not be made safer within the other limits."""
    MISSED = 2
    """Not even as expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A fleet that was looked at."""

    label: str
    """What it stands for, in words."""
    outlook: Outlook
    level: Level
    value: float
    """USD or hours of nine in ten cases; where they exceed a limit, by how many times."""
    tie: float

    @property
    def key(self) -> Key:
        """Smaller is better."""
        return int(self.level), self.value, self.tie


def score(field: Field, outlook: Outlook, *, label: str) -> Scored:
    """Judge what is expected of a fleet by the goal."""
    level = _level(field, outlook)
    is_cost = field.inputs.minimize is Minimize.COST
    value, tie = (
        (outlook.usd_late, outlook.hours_late)
        if is_cost
        else (outlook.hours_late, outlook.usd_late)
    )
    if level is Level.LIKELY:
        hours = max(outlook.hours_late, outlook.hours + margin_of(field, outlook))
        value, tie = _excess(field, hours, outlook.usd_late), value
    elif level is Level.MISSED:
        value, tie = _excess(field, outlook.hours, outlook.usd), value
    return Scored(label=label, outlook=outlook, level=level, value=value, tie=tie)


def margin_of(field: Field, outlook: Outlook) -> float:
    """
    Return by how many hours a fleet is to end before the deadline, as expected.

    With spot nodes: what on-demand needs to step in, and to make again what no checkpoint has. A
    fleet that is faster than on-demand needs that slack as soon as it trains, and not only at the
    end. On-demand nodes that are still to start: one more start, for it may take twice as long.
    """
    guard = field.inputs.guard
    if guard is None or field.hours is None:
        return 0.0
    fleet = outlook.fleet
    spot = [field.by_name[name].is_spot for name, _ in fleet.workers]
    if not any(spot):
        return 0.0 if fleet == field.running else guard.changeover_s / HOUR
    redo_s = 0.0
    if all(spot):
        lost = interval_of(field, fleet).total_seconds() * outlook.rate
        redo_s = lost / guard.samples_per_hour
    margin_s = guard.least_s + redo_s
    gained_s = field.work * (HOUR / guard.samples_per_hour - HOUR / outlook.rate)
    return (margin_s + max(gained_s, 0.0)) / HOUR


def _level(field: Field, outlook: Outlook) -> Level:
    if _excess(field, outlook.hours_late, outlook.usd_late) <= 1 + CLOSE and (
        field.hours is None or outlook.hours + margin_of(field, outlook) <= field.hours
    ):
        return Level.SURE
    if _excess(field, outlook.hours, outlook.usd) <= 1 + CLOSE:
        return Level.LIKELY
    return Level.MISSED


def _excess(field: Field, hours: float, usd: float) -> float:
    """How many times what is allowed is used, of time or money, whichever is more."""
    parts = [0.0]
    if field.hours is not None:
        parts.append(hours / max(field.hours, CLOSE))
    if field.budget is not None:
        parts.append(usd / max(field.budget, CLOSE))
    return max(parts)
