"""Whether nine of ten held-out measurements lie inside the interval, over all models and folds."""

from typing import Final

import numpy as np

from ebbtide.core.models.quality import hold_out
from models.full_data import SOURCES, Source, kind_of
from rows import Row

AIM: Final = 90.0
OFF_BAR: Final = 5.0
"""Percentage points: from 85 to 95 in all."""
LEAST_POINTS: Final = 200


def rows() -> list[Row]:
    """
    One row for each model without a bar, and the pooled ones with theirs.

    Pooled twice: over all points, where the model with most data rules, and over models alike.
    """
    found = {name: _inside(name, source) for name, source in SOURCES.items()}
    shares = {name: 100 * inside / points for name, (inside, points) in found.items()}
    points = sum(number for _, number in found.values())
    pooled = 100 * sum(inside for inside, _ in found.values()) / points
    mean = float(np.mean(list(shares.values())))
    return [
        *(
            Row(f"coverage, {name}, {found[name][1]} held out", share, "%", "higher")
            for name, share in shares.items()
        ),
        Row("coverage, pooled over points", pooled, "%", "higher"),
        Row("coverage, pooled over points, off 90", abs(pooled - AIM), "%", "lower", OFF_BAR),
        Row("coverage, mean over models", mean, "%", "higher"),
        Row("coverage, mean over models, off 90", abs(mean - AIM), "%", "lower", OFF_BAR),
        Row("coverage, points held out", points, "points", "higher", LEAST_POINTS),
    ]  # fmt: skip


def _inside(name: str, source: Source) -> tuple[float, int]:
    """How many held-out measurements lie inside the interval of the default method, of how many."""
    kind, table = kind_of(name), source.read()
    if kind.judge is not None:  # ends that were not seen are neither inside nor outside
        splits = list(source.splits(table))
        quality = kind.judge(table, splits, method=kind.default, group=kind.group, split="bench")
        number = sum(len(held) for _, held in splits)
        return (quality.coverage or 0.0) * number, number
    fit = kind.methods[kind.default]
    held = hold_out(table, iter(source.splits(table)), lambda known: fit(known).predict)
    measured = table.take(held.rows).numbers(kind.target)
    inside = (held.forecast.low <= measured) & (measured <= held.forecast.high)
    return float(inside.sum()), len(inside)
