"""What is believed of a pool before it has a history of its own."""

from typing import Final

import numpy as np

from ebbtide.core.models.table import DataError

HALF_LIFE: Final = 24.0
"""
Hours after which half of the nodes of an unknown spot pool are gone.

Of 396 transient GPU servers on Google Cloud 52 % were revoked within 24 h (Li, Walls and Guo,
ICDCS 2020).
"""
RATE: Final = float(np.log(2)) / HALF_LIFE
"""Revocations per hour of an unknown spot pool."""
EVENTS: Final = 0.5
"""How many revocations that belief is worth; half of one, as in Jeffreys' prior of a rate."""

MONTHLY: Final = (0.025, 0.075, 0.125, 0.175, 0.3)
"""
Share of instances interrupted in a month, by interruption class.

The classes of the AWS Spot Advisor are below 5, 10, 15 and 20 %, and above. Middles of the classes;
the last has no upper end, 30 % is assumed.
"""
USED: Final = 24.0
"""
Hours that such an instance was used for in that month; the advisor does not say.

A day is assumed. A whole month would make the rate thirty times smaller, and measured fleets
lose nodes far more often than that.
"""


def class_rate(interruption: int) -> float:
    """Return revocations per hour of an interruption class, 0 (rare) to 4 (often)."""
    if not 0 <= interruption < len(MONTHLY):
        raise DataError(f"interruption class {interruption}: 0 to {len(MONTHLY) - 1} are known")
    return float(-np.log1p(-MONTHLY[interruption])) / USED


def mean_rate(deaths: float, hours: float, *, rate: float = RATE) -> float:
    """Return revocations per hour from a history, drawn to the prior; never 0, never infinite."""
    return (deaths + EVENTS) / (hours + EVENTS / rate)


def unseen_rate(deaths: float, hours: float) -> float:
    """
    Return the rate for ages that no node has reached yet.

    Half way (on a logarithmic scale) between what the fleet shows at younger ages and the prior,
    so that a few quiet hours do not promise a quiet week; and no less than the fleet shows.
    """
    shown = mean_rate(deaths, hours)
    return max(shown, float(np.sqrt(shown * RATE)))
