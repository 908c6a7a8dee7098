"""
How a zone comes and goes: a Markov chain over its bit and the time since it last changed.

States 0 to S/2 - 1 are up, the others down, each by rising age. One step is `step_rows` rows.
Counts forget with a half-life, lean on those of other zones where they are few, and on those of
neighbouring hours of the day.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from ebbtide.core.models.table import Floats, Indices
from ebbtide.core.planner.policies.history import HOUR_S, HOURS_OF_DAY, History

FINE: Final = (700.0, 1900.0, 3600.0, 7200.0, 14400.0, 28800.0, 86400.0)
"""Edges of age, seconds: the first is one probe of ten minutes, the last one day."""

STEP_S: Final = 600.0
HALF_LIFE_S: Final = 480 * HOUR_S
DRIFT_STRENGTH: Final = 2.0
POOL_STRENGTH: Final = 10.0
HOUR_STRENGTH: Final = 30.0
HOUR_WIDTH: Final = 1.5
"""The strengths, half-life and width were chosen once on other splits; none is fitted here."""

TYPICAL_SPELL_S: Final = 2 * HOUR_S
"""How long a spell is taken to last where nothing at all is known."""


def step_rows(tick_s: float) -> int:
    """Rows in a step: about ten minutes, however fine the probes are."""
    return max(1, round(STEP_S / tick_s))


def hour_kernel() -> Floats:
    """Return how much each hour of the day tells about each other, [24, 24]; 1 on itself."""
    hours = np.arange(HOURS_OF_DAY)
    apart = np.abs(hours[:, np.newaxis] - hours)
    circular = np.minimum(apart, HOURS_OF_DAY - apart)
    kernel: Floats = np.exp(-((circular / HOUR_WIDTH) ** 2) / 2)
    return kernel


@dataclass(frozen=True, kw_only=True)
class States:
    """The states of one zone over its history."""

    history: History
    zone: int
    edges: tuple[float, ...] = FINE

    @property
    def number(self) -> int:
        """How many states there are."""
        return 2 * (len(self.edges) + 1)

    @cached_property
    def of_row(self) -> Indices:
        """The state in each row."""
        bucket = np.searchsorted(self.edges, self.history.ages_s[:, self.zone], side="right")
        down = ~self.history.up[:, self.zone]
        return np.asarray(bucket + down * (self.number // 2), dtype=np.intp)

    @cached_property
    def _pairs(self) -> tuple[Indices, Indices]:
        """(hour, from, to) of each pair of rows as one number, and the row of the second."""
        step = step_rows(self.history.tick_s)
        states, size = self.of_row, self.number
        first = np.arange(max(len(states) - step, 0))
        hours = (self.history.start_s + first * self.history.tick_s) // HOUR_S % HOURS_OF_DAY
        code = (hours.astype(np.intp) * size + states[: len(first)]) * size + states[step:]
        return code, first + step

    def counts(self, row: int) -> Floats:
        """Steps seen before a row by the hour they began in, faded by age, [24, S, S]."""
        step, size = step_rows(self.history.tick_s), self.number
        code, ends = self._pairs
        known = max(row - step, 0)
        age_s = (row - ends[:known]) * self.history.tick_s
        weights = 0.5 ** (age_s / HALF_LIFE_S) / step
        found = np.bincount(code[:known], weights, minlength=HOURS_OF_DAY * size * size)
        return found.reshape(HOURS_OF_DAY, size, size).astype(np.float64)


def drift(edges: tuple[float, ...], step_s: float) -> Floats:
    """Return what is believed where nothing was seen: spells end at a fixed rate, [S, S]."""
    half = len(edges) + 1
    flip = min(step_s / TYPICAL_SPELL_S, 1.0)
    widths = np.diff([0.0, *edges])
    law = np.zeros((2 * half, 2 * half))
    for bit in (0, 1):
        for bucket in range(half):
            here = bit * half + bucket
            on = min(step_s / widths[bucket], 1.0) if bucket < half - 1 else 0.0
            law[here, (1 - bit) * half] = flip
            law[here, here] += (1 - flip) * (1 - on)
            if on:
                law[here, here + 1] += (1 - flip) * on
    return law


def prior(pooled: Floats, edges: tuple[float, ...], step_s: float) -> Floats:
    """Return the steps of other zones, [S, S] counts, as a law; drift where they are few."""
    return _normalise(pooled + DRIFT_STRENGTH * drift(edges, step_s))


def by_hour(counts: Floats, believed: Floats) -> Floats:
    """
    Return the law of each hour of the day, [24, S, S].

    Args:
        counts: steps seen, [24, S, S].
        believed: the prior law, [S, S].

    """
    overall = _normalise(counts.sum(axis=0) + POOL_STRENGTH * believed)
    near = np.tensordot(hour_kernel(), counts, axes=1)
    return _normalise(near + HOUR_STRENGTH * overall)


def _normalise(counts: Floats) -> Floats:
    law: Floats = counts / counts.sum(axis=-1, keepdims=True)
    return law
