"""A law of life on a grid of ages: what intervals and completion times are computed from."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np

from ebbtide.core.models.table import Floats


@dataclass(frozen=True, kw_only=True)
class Survival:
    """
    Shares of nodes that still live at ages 0, unit, 2 unit, ... seconds; linear in between.

    Beyond the grid nodes are lost at their mean rate on it, so that a short record never says
    that they live for ever. Where the whole grid knows no loss, none is assumed beyond either.
    """

    unit_s: float
    alive: Floats = field(repr=False)  # hundreds of numbers

    def __post_init__(self) -> None:
        alive = self.alive
        if not self.unit_s > 0:
            raise ValueError(f"unit_s {self.unit_s}: seconds above 0 are needed")
        if len(alive) < 2:  # noqa: PLR2004 -- an age of 0 and one more
            raise ValueError("alive: at least two ages are needed")
        if not (alive[0] == 1 and (np.diff(alive) <= 0).all() and alive[-1] >= 0):
            raise ValueError("alive: it must start at 1 and fall, at most to 0")

    @classmethod
    def of(cls, law: Callable[[Floats], Floats], *, unit_s: float, until_s: float) -> Self:
        """Sample a law (ages in seconds -> shares that live) from age 0 to at least `until_s`."""
        number = max(int(np.ceil(until_s / unit_s)), 1) + 1
        ages: Floats = np.arange(number, dtype=np.float64) * unit_s
        return cls(unit_s=unit_s, alive=np.asarray(law(ages), dtype=np.float64))

    @cached_property
    def rate(self) -> float:
        """Losses per second beyond the grid: the mean on it."""
        last = max(float(self.alive[-1]), 1e-12)
        return -float(np.log(last)) / self.end_s

    @property
    def end_s(self) -> float:
        """The last age of the grid."""
        return (len(self.alive) - 1) * self.unit_s

    def at(self, ages: Floats) -> Floats:
        """The share that lives at some ages, seconds."""
        beyond = np.maximum(ages - self.end_s, 0.0)
        inside = np.interp(ages, np.arange(len(self.alive)) * self.unit_s, self.alive)
        result: Floats = inside * np.exp(-self.rate * beyond)
        return result

    def area(self, ages: Floats) -> Floats:
        """The mean seconds lived up to some ages: the integral of `at`."""
        cell = np.clip((ages / self.unit_s).astype(np.intp), 0, len(self.alive) - 1)
        start = cell * self.unit_s
        inside = np.minimum(ages, self.end_s)
        partial = (self.alive[cell] + self.at(inside)) / 2 * (inside - start)
        beyond = np.maximum(ages - self.end_s, 0.0)
        rest = -np.expm1(-self.rate * beyond) / self.rate if self.rate > 0 else beyond
        result: Floats = self._areas[cell] + partial + self.alive[-1] * rest
        return result

    @cached_property
    def _areas(self) -> Floats:
        cells = (self.alive[1:] + self.alive[:-1]) / 2 * self.unit_s
        return np.concatenate([[0.0], np.cumsum(cells)])
