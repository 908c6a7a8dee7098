"""Whether nine of ten held-out measurements lie inside the interval, over all models and folds."""

from typing import Final

import numpy as np

from ebbtide.core.models.quality import hold_out
from ebbtide.core.models.table import Flags
from models.full_data import SOURCES, Source, kind_of, splits
from rows import Row

AIM: Final = 90.0
OFF_BAR: Final = 5.0
"""Percentage points: from 85 to 95 in all."""
LEAST_POINTS: Final = 200


def rows() -> list[Row]:
    """One row for each model without a bar, and the pooled ones with theirs."""
    inside = {name: _inside(source) for name, source in SOURCES.items()}
    found = [
        Row(f"coverage, {name}, {len(flags)} held out", _percent(flags), "%", "higher")
        for name, flags in inside.items()
    ]
    pooled = np.concatenate(list(inside.values()))
    off = abs(_percent(pooled) - AIM)
    return [
        *found,
        Row("coverage, pooled", _percent(pooled), "%", "higher"),
        Row("coverage, pooled, away from 90", off, "points", "lower", OFF_BAR),
        Row("coverage, points held out", len(pooled), "points", "higher", LEAST_POINTS),
    ]


def _percent(flags: Flags) -> float:
    return float(flags.mean() * 100)


def _inside(source: Source) -> Flags:
    """Whether each held-out measurement lies inside the interval of the default method."""
    kind, table = kind_of(source), source.read()
    fit = kind.methods[kind.default]
    held = hold_out(table, splits(source, table), lambda known: fit(known).predict)
    measured = table.take(held.rows).numbers(kind.target)
    inside: Flags = (held.forecast.low <= measured) & (measured <= held.forecast.high)
    return inside
