"""
A history drawn from how long nodes live: zones that are up for a life, and down for a while.

A zone goes as a whole: nodes of one pool are lost together far more often than one by one, so one
life stands for the zone. What the lives do not tell is how long nothing can be had afterwards:
that is drawn from an exponential law, whose mean the caller names.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ebbtide.core.models.lifetime.choosing import METHODS
from ebbtide.core.models.lifetime.fitting import fit_lives
from ebbtide.core.models.lifetime.lives import GPU, POOL, ZONE, Lives, Pool
from ebbtide.core.models.lifetime.model import Lifetimes
from ebbtide.core.models.table import Flags, Table
from ebbtide.core.planner.policies.history import HOUR_S, HOURS_OF_DAY, History

SETTLING_S: Final = 4 * HOURS_OF_DAY * HOUR_S
"""Drawn before the first row and thrown away: that all begin up together must be forgotten."""

DRAWN: Final = 32
"""Lives at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How much is drawn, and what lives do not tell."""

    length_s: float
    tick_s: float
    outage_s: float
    """Mean time without capacity after a revocation."""

    @property
    def num_ticks(self) -> int:
        """Whole ticks in the length."""
        return math.ceil(self.length_s / self.tick_s - 1e-9)


def draw_history(table: Table, shape: Shape, chance: np.random.Generator) -> History:
    """
    Fit lives, and draw a history that begins at midnight.

    Args:
        table: of lives: `pool`, `lifetime_h`, `revoked`; where known `zone`, `gpu`, `start_hour`.
        shape: how much to draw.
        chance: each zone takes a stream of its own from it.

    Raises:
        DataError: with row, column, value and what would be right.

    """
    model = fit_lives(Lives.read(table), method=next(iter(METHODS)))
    columns = zip(*(table.texts(column) for column in (POOL, ZONE, GPU)), strict=True)
    pools: list[Pool] = list(dict.fromkeys(columns))
    ups = [
        _draw(model, pool, shape, own)
        for pool, own in zip(pools, chance.spawn(len(pools)), strict=True)
    ]
    return History(zones=_names(pools), up=np.column_stack(ups), tick_s=shape.tick_s)


def _draw(model: Lifetimes, pool: Pool, shape: Shape, chance: np.random.Generator) -> Flags:
    """A tick is up where a spell covers all of it."""
    up = np.zeros(shape.num_ticks, dtype=np.bool_)
    for begin_s, end_s in _spells(model, pool, shape, chance):
        first, behind = math.ceil(begin_s / shape.tick_s), math.floor(end_s / shape.tick_s)
        up[max(first, 0) : max(behind, 0)] = True
    return up


def _spells(
    model: Lifetimes, pool: Pool, shape: Shape, chance: np.random.Generator
) -> Iterator[tuple[float, float]]:
    """Return beginning and end of each spell of up, since the first row."""
    at_s = -SETTLING_S
    stock: dict[int, list[float]] = {}
    while at_s < shape.length_s:
        hour = int(at_s // HOUR_S % HOURS_OF_DAY) if model.hours is not None else 0
        if not stock.get(hour):
            stock[hour] = _lives(model, pool, hour, chance)
        end_s = at_s + stock[hour].pop() * HOUR_S
        yield at_s, end_s
        at_s = end_s + float(chance.exponential(shape.outage_s))


def _lives(model: Lifetimes, pool: Pool, hour: int, chance: np.random.Generator) -> list[float]:
    """Draw some lives of nodes that start in one hour of the day: one by one takes far longer."""
    name, zone, gpu = ([part] * DRAWN for part in pool)
    asked = Table.of(pool=name, zone=zone, gpu=gpu, start_hour=[hour + 0.5] * DRAWN)
    return [float(life) for life in model.draw(asked, chance)]


def _names(pools: Sequence[Pool]) -> tuple[str, ...]:
    """Name zones by their pool where that tells them apart, else by all that is known."""
    short = [pool for pool, _, _ in pools]
    if len(set(short)) == len(short):
        return tuple(short)
    return tuple("/".join(part for part in pool if part) for pool in pools)
