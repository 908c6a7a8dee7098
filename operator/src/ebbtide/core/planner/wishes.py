"""What is wanted of a fleet, in money per hour and rate, with the start of its nodes counted in."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

CLOSE: Final = 1e-9
"""Relative: values that differ by less are equal."""

Worth: TypeAlias = tuple[float, float]
"""What a wish wants small, first things first."""


@dataclass(frozen=True, slots=True)
class Cheapest:
    """The least money for the work, at a rate (samples per hour) or more."""

    rate: float = 0.0
    idle: float = 0.0
    """Hours that the start takes, for each sample of the work."""


@dataclass(frozen=True, slots=True)
class Slowest:
    """The least money per hour at a rate or more: the quick answer where others are compared."""

    rate: float


@dataclass(frozen=True, slots=True)
class Fastest:
    """The most rate where the whole work costs no more than so many USD per sample."""

    usd_per_sample: float = math.inf
    idle: float = 0.0


@dataclass(frozen=True, slots=True)
class Nearest:
    """The least excess of two limits, whichever is exceeded more, where both cannot be met."""

    hours_per_sample: float
    usd_per_sample: float
    idle: float = 0.0


Wish: TypeAlias = Cheapest | Slowest | Fastest | Nearest


def worth_of(wish: Wish, usd: float, rate: float, *, slack: float = 0.0) -> Worth | None:
    """
    Return what a fleet is worth to a wish, small is good; None where it does not meet it.

    Less money and more rate are never worth less.
    """
    match wish:
        case Cheapest(least, idle):
            return (usd * (1 / rate + idle), -rate) if rate >= least * (1 - slack) else None
        case Slowest(least):
            return (usd, -rate) if rate >= least * (1 - slack) else None
        case Fastest(limit, idle):
            return (-rate, usd) if usd * (1 / rate + idle) <= limit * (1 + slack) else None
        case Nearest(hours, limit, idle):
            took = 1 / rate + idle
            return max(took / hours, usd * took / limit), -rate


def is_less(one: Sequence[float], other: Sequence[float]) -> bool:
    """Compare with room for rounding, so that the first of equals stays."""
    for left, right in zip(one, other, strict=True):
        margin = CLOSE * max(abs(left), abs(right))
        if left < right - margin:
            return True
        if left > right + margin:
            return False
    return False
