"""
What is known of a workload that was measured: on this GPU type, or only on another.

On its own GPU type its curve by batch answers. From another type a workload takes along how much
slower or faster it was there than the three terms say (its oddity); how much of that a GPU type
takes over is fitted from the workloads that both have, and only where it helps.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Self, TypeAlias

import numpy as np

from ebbtide.core.models.batch_curve import Curve, fit_curve, left_out
from ebbtide.core.models.forecast import Json, Spread
from ebbtide.core.models.residuals import spread_of
from ebbtide.core.models.step_time.samples import Points
from ebbtide.core.models.step_time.shape import Shape
from ebbtide.core.models.table import Floats

Pair: TypeAlias = tuple[str, str]
"""GPU type and workload."""

MOST_FOLDS: Final = 10
"""Groups of workloads that are held out on one GPU type at most, one after the other."""
LEAST_FOR_SLOPE: Final = 5
"""Workloads on both types that a slope needs; fewer give a constant ratio."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One workload on one GPU type."""

    curve: Curve
    flops: float
    """NaN where absent, as `tensors`."""
    tensors: float

    def to_json(self) -> Json:
        """Return plain JSON."""
        return {
            **self.curve.to_json(),
            "flops": self.flops if np.isfinite(self.flops) else None,
            "tensors": self.tensors if np.isfinite(self.tensors) else None,
        }

    @classmethod
    def from_json(cls, stored: Json) -> Self:
        """Read what `to_json` wrote."""
        flops, tensors = (
            float("nan") if stored[name] is None else float(stored[name])
            for name in ("flops", "tensors")
        )
        return cls(curve=Curve.from_json(stored), flops=flops, tensors=tensors)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """log oddity on one GPU type = shift + slope * log oddity on another."""

    source: str
    target: str
    shift: float
    slope: float
    spread: Spread

    def to_json(self) -> Json:
        """Return plain JSON."""
        return {
            "source": self.source,
            "target": self.target,
            "shift": self.shift,
            "slope": self.slope,
            "spread": self.spread.to_json(),
        }

    @classmethod
    def from_json(cls, stored: Json) -> Self:
        """Read what `to_json` wrote."""
        return cls(
            source=str(stored["source"]),
            target=str(stored["target"]),
            shift=float(stored["shift"]),
            slope=float(stored["slope"]),
            spread=Spread.from_json(stored["spread"]),
        )


def fit_known(points: Points) -> tuple[dict[Pair, Known], Spread]:
    """Fit a curve for each workload on each GPU type; return them with their common interval."""
    known: dict[Pair, Known] = {}
    residuals = [points.noise]
    pairs = np.array(_pairs(points), dtype=object)
    for pair in dict.fromkeys(_pairs(points)):
        here = (pairs == pair).all(axis=1)
        batch, seconds = points.batch[here], points.seconds[here]
        curve = fit_curve(batch, seconds)
        known[pair] = Known(
            curve=curve,
            flops=float(points.flops[here][0]),
            tensors=float(points.tensors[here][0]),
        )
        residuals.append(left_out(curve, batch, seconds))
    return known, spread_of(np.concatenate(residuals))


def fit_transfers(
    points: Points, known: dict[Pair, Known], fit_rest: Callable[[Points], Shape | None]
) -> tuple[Transfer, ...]:
    """
    Fit what each GPU type takes over from each other, those with the least spread first.

    `fit_rest` fits terms from the points that are left where workloads of a type are held out.
    """
    oddities: dict[Pair, list[tuple[float, float]]] = {}
    for target in sorted({gpu for gpu, _ in known}):
        shared = sorted({name for gpu, name in known if gpu != target and (target, name) in known})
        for fold in range(min(MOST_FOLDS, len(shared))):
            held = shared[fold::MOST_FOLDS]
            out = (points.gpu == target) & np.isin(points.workload, np.array(held, dtype=object))
            shape = fit_rest(points.take(~out))
            for pair, found in _oddities(points, known, shape, (target, held)):
                oddities.setdefault(pair, []).append(found)
    has_terms = bool(np.isfinite(points.flops).any())
    fitted = [_fit_transfer(pair, found, has_terms=has_terms) for pair, found in oddities.items()]
    kept = [transfer for transfer in fitted if transfer is not None]
    return tuple(sorted(kept, key=lambda transfer: transfer.spread.high / transfer.spread.low))


def log_base(shape: Shape | None, gpu: str, work: Floats, tensors: Floats) -> Floats:
    """Return the log of what the three terms say: 0 where there are none, NaN where they cannot."""
    if shape is None:
        return np.zeros(len(work))
    if gpu not in shape.gpus:
        return np.full(len(work), np.nan)
    place = np.full(len(work), shape.gpus.index(gpu), dtype=np.intp)
    return np.log(shape.at(place, work, tensors))


def log_oddity(known: Known, shape: Shape | None, gpu: str, batch: Floats) -> Floats:
    """
    Return the log of how much slower a known workload is than the three terms say.

    One batch says no more of others than the terms do: it keeps its oddity there.
    """
    if shape is not None and not shape.is_thin and known.curve.least == known.curve.most:
        batch = np.full(len(batch), known.curve.least)
    tensors = np.full(len(batch), known.tensors)
    base = log_base(shape, gpu, known.flops * batch, tensors)
    odd: Floats = np.log(known.curve.at(batch)) - base
    return odd


def _pairs(points: Points) -> list[Pair]:
    return list(zip(points.gpu.tolist(), points.workload.tolist(), strict=True))


def _oddities(
    points: Points, known: dict[Pair, Known], shape: Shape | None, asked: tuple[str, list[str]]
) -> Iterator[tuple[Pair, tuple[float, float]]]:
    """Give source and target type with the oddity of a workload there and here."""
    target, workloads = asked
    for workload in workloads:
        batch = points.batch[(points.gpu == target) & (points.workload == workload)]
        here = float(log_oddity(known[target, workload], shape, target, batch).mean())
        for (source, name), one in known.items():
            if name == workload and source != target:
                there = float(log_oddity(one, shape, source, batch).mean())
                if np.isfinite(here + there):
                    yield (source, target), (there, here)


def _fit_transfer(
    pair: Pair, found: list[tuple[float, float]], *, has_terms: bool
) -> Transfer | None:
    x, y = np.array(found).T
    residuals = _left_out(x, y)
    if has_terms and len(y) > 1 and np.abs(residuals).mean() >= np.abs(y).mean():
        return None  # what the workload is like elsewhere says nothing more than the terms do
    shift, slope = _line(x, y)
    return Transfer(
        source=pair[0], target=pair[1], shift=shift, slope=slope, spread=spread_of(residuals)
    )


def _line(x: Floats, y: Floats) -> tuple[float, float]:
    """Fit y = shift + slope * x; the slope is 1 with few points, and never negative."""
    slope = 1.0
    if len(x) >= LEAST_FOR_SLOPE and np.ptp(x) > 0:
        around = x - x.mean()
        slope = max(float(around @ y / (around @ around)), 0.0)
    return float(y.mean() - slope * x.mean()), slope


def _left_out(x: Floats, y: Floats) -> Floats:
    if len(x) == 1:
        return np.zeros(0)
    found = np.zeros(len(x))
    for index in range(len(x)):
        rest = np.arange(len(x)) != index
        shift, slope = _line(x[rest], y[rest])
        found[index] = y[index] - shift - slope * x[index]
    return found
