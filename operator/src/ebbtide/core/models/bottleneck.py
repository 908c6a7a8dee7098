"""
Whether parameter servers hold a cluster back, and whether one more would pay.

CM-DARE's rule: a cluster that, once warm, is slower than the sum of its workers' speeds by more
than a threshold has a bottleneck. Where the saturation model is asked instead of the sum, the same
rule finds what the model does not explain.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

THRESHOLD: Final = 0.067
"""CM-DARE's, remembered and not published with its data; between 5 and 10 % little changes."""
WARM_UP_S: Final = 30.0
"""CM-DARE's. In its own runs half the clusters took 22 s to settle, one in ten more than 73 s."""
RESTART_S: Final = 10.0
"""What training stands still for when a server is added, s."""


class Verdict(Enum):
    """What a measured speed says about the servers."""

    WARMING_UP = "warming-up"
    """Too early to say."""
    FINE = "fine"
    SATURATED = "saturated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Detector:
    """Compares measured with expected speed."""

    threshold: float = THRESHOLD
    """The shortfall, a fraction of what was expected, above which servers are the bottleneck."""
    warm_up_s: float = WARM_UP_S
    """Readings younger than this are no evidence."""

    def __post_init__(self) -> None:
        if not 0 < self.threshold < 1:
            raise ValueError(f"threshold {self.threshold}: a fraction between 0 and 1 is needed")
        if not self.warm_up_s >= 0:
            raise ValueError(f"warm_up_s {self.warm_up_s}: seconds from 0 upwards are needed")

    def judge(self, *, measured: float, expected: float, age_s: float) -> Verdict:
        """Judge a speed in steps/s, of a cluster that has trained together for `age_s` seconds."""
        if age_s < self.warm_up_s:
            return Verdict.WARMING_UP
        short = shortfall(measured=measured, expected=expected)
        return Verdict.SATURATED if short > self.threshold else Verdict.FINE


def shortfall(*, measured: float, expected: float) -> float:
    """By which fraction a speed falls short of what was expected; negative where it is faster."""
    if not (measured > 0 and expected > 0):
        raise ValueError(f"speeds {measured} and {expected}: both must be above 0 steps/s")
    return 1 - measured / expected


def seconds_saved(
    *, steps: float, speed: float, gain: float, restart_s: float = RESTART_S
) -> float:
    """
    What one more server saves of the time for `steps`, s; negative where its restart costs more.

    `gain` is the fraction by which it raises `speed` (`ParameterServer.gain`).
    """
    if not (steps >= 0 and speed > 0 and gain > -1 and restart_s >= 0):
        raise ValueError(
            f"steps {steps}, speed {speed}, gain {gain}, restart_s {restart_s}:"
            " steps and seconds from 0, a speed above 0, a gain above -1 are needed"
        )
    return steps / speed - steps / (speed * (1 + gain)) - restart_s
