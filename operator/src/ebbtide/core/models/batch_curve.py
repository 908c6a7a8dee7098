"""
The time of one step by the local batch: a line, or two where a breakpoint pays.

A step costs what no batch changes (launches, the optimiser) and something for each sample. A
library that changes its kernels with the batch makes a second line; the two need not meet.
Lines are fitted by least squares on relative errors, so that small batches count as much as
large ones.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Self, TypeAlias

import numpy as np

from ebbtide.core.models.forecast import Json
from ebbtide.core.models.table import DataError, Flags, Floats

LEAST_BEFORE: Final = 2
"""Points that a first line needs: as many as it has parameters."""
LEAST_AFTER: Final = 3
"""Points that a second line needs: one more, so that its error shows."""
MOST_TRIED: Final = 24
"""Breakpoints tried, and points left out, at most; spread evenly where there are more."""
FLOOR: Final = 0.5
"""A line does not fall below this share of the least time measured, so none turns negative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A constant in seconds, and seconds for each sample."""

    constant: float
    per_sample: float

    def at(self, batch: Floats) -> Floats:
        """Return seconds for local batches."""
        return self.constant + self.per_sample * batch

    @classmethod
    def through(cls, batch: Floats, seconds: Floats) -> Self:
        """Minimise sum((line / seconds - 1)^2); never falling, positive where measured."""
        weight = 1 / seconds
        ahead = (batch - batch.min()) * weight
        normal = np.array([[weight @ weight, weight @ ahead], [weight @ ahead, ahead @ ahead]])
        start, slope = np.linalg.lstsq(normal, np.array([weight.sum(), ahead.sum()]))[0]
        if slope < 0:
            start, slope = weight.sum() / (weight @ weight), 0.0
        least = FLOOR * seconds.min()
        if start < least:
            start, slope = least, max(ahead @ (1 - least * weight) / (ahead @ ahead), 0.0)
        return cls(constant=float(start - slope * batch.min()), per_sample=float(slope))


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Seconds of a step by local batch, measured from `least` to `most`."""

    first: Line
    second: Line | None = None
    least: float
    most: float
    before: float
    """The largest batch of the first line."""
    after: float
    """The smallest batch of the second; between the two lies a straight line."""

    def at(self, batch: Floats) -> Floats:
        """Return seconds for local batches; positive for any positive batch."""
        found = self.first.at(batch)
        if self.second is not None:
            ends = np.array([self.before, self.after])
            across = np.interp(batch, ends, [self.first.at(ends)[0], self.second.at(ends)[1]])
            found = np.where(batch > self.before, across, found)
            found = np.where(batch >= self.after, self.second.at(batch), found)
        # Below what was measured a line may turn negative; time in proportion does not.
        start = self.first.at(np.array([self.least]))[0]
        floor = start * np.minimum(batch / self.least, 1.0)
        below: Floats = np.where(batch < self.least, np.maximum(found, floor), found)
        return below

    def is_beyond(self, batch: Floats) -> Flags:
        """Tell which batches lie outside those measured."""
        outside: Flags = (batch < self.least) | (batch > self.most)
        return outside

    def to_json(self) -> Json:
        """Return plain JSON."""
        lines = [self.first] if self.second is None else [self.first, self.second]
        return {
            "lines": [[line.constant, line.per_sample] for line in lines],
            "batches": [self.least, self.before, self.after, self.most],
        }

    @classmethod
    def from_json(cls, stored: Json) -> Self:
        """Read what `to_json` wrote."""
        lines = [Line(constant=float(a), per_sample=float(b)) for a, b in stored["lines"]]
        least, before, after, most = (float(batch) for batch in stored["batches"])
        second = lines[1] if len(lines) > 1 else None
        return cls(
            first=lines[0], second=second, least=least, before=before, after=after, most=most
        )


Fit: TypeAlias = Callable[[Floats, Floats], Curve]


def merge(batch: Floats, seconds: Floats) -> tuple[Floats, Floats]:
    """Return each batch once, rising, with the mean of its times."""
    if len(batch) != len(seconds) or not len(batch):
        raise DataError(f"{len(batch)} batches and {len(seconds)} times: one of each is needed")
    if not (np.isfinite(batch).all() and np.isfinite(seconds).all()):
        raise DataError("a batch or a time is no finite number")
    if batch.min() <= 0 or seconds.min() <= 0:
        raise DataError("a batch or a time is zero or negative")
    found, place = np.unique(batch, return_inverse=True)
    return found, np.bincount(place, weights=seconds) / np.bincount(place)


def fit_line(batch: Floats, seconds: Floats) -> Curve:
    """Fit one line. One batch alone gives time in proportion above it, and no less below."""
    batch, seconds = merge(batch, seconds)
    least, most = float(batch[0]), float(batch[-1])
    if len(batch) == 1:
        flat = Line(constant=float(seconds[0]), per_sample=0.0)
        steep = Line(constant=0.0, per_sample=float(seconds[0]) / least)
        return Curve(first=flat, second=steep, least=least, before=least, after=least, most=least)
    line = Line.through(batch, seconds)
    return Curve(first=line, least=least, before=most, after=most, most=most)


def fit_two_lines(batch: Floats, seconds: Floats) -> Curve | None:
    """Fit two lines with the breakpoint of the least mean relative error; None: too few points."""
    batch, seconds = merge(batch, seconds)
    starts = _spread(np.arange(LEAST_BEFORE, len(batch) - LEAST_AFTER + 1))
    curves = [_broken(batch, seconds, int(start)) for start in starts]
    return min(curves, key=lambda curve: _errors(curve, batch, seconds).mean(), default=None)


def fit_curve(batch: Floats, seconds: Floats) -> Curve:
    """
    Fit one line, or two where that pays.

    It pays when points that were left out are met better by more than the standard error of
    the difference (one-standard-error rule: Breiman et al. 1984, Classification and Regression
    Trees). With fewer than 6 different batches nothing can be left out, so one line it is.
    """
    batch, seconds = merge(batch, seconds)
    broken = fit_two_lines(batch, seconds)
    if broken is None or len(batch) <= LEAST_BEFORE + LEAST_AFTER:
        return fit_line(batch, seconds)
    gain = _left_out(batch, seconds, fit_line) - _left_out(batch, seconds, _two_lines)
    pays = gain.mean() > gain.std(ddof=1) / np.sqrt(len(gain))
    return broken if pays else fit_line(batch, seconds)


def _two_lines(batch: Floats, seconds: Floats) -> Curve:
    return fit_two_lines(batch, seconds) or fit_line(batch, seconds)


def _broken(batch: Floats, seconds: Floats, start: int) -> Curve:
    return Curve(
        first=Line.through(batch[:start], seconds[:start]),
        second=Line.through(batch[start:], seconds[start:]),
        least=float(batch[0]),
        before=float(batch[start - 1]),
        after=float(batch[start]),
        most=float(batch[-1]),
    )


def _errors(curve: Curve, batch: Floats, seconds: Floats) -> Floats:
    off: Floats = np.abs(curve.at(batch) / seconds - 1)
    return off


def _left_out(batch: Floats, seconds: Floats, fit: Fit) -> Floats:
    def at(index: int) -> float:
        rest = np.arange(len(batch)) != index
        here = slice(index, index + 1)
        return float(_errors(fit(batch[rest], seconds[rest]), batch[here], seconds[here])[0])

    return np.array([at(int(index)) for index in _spread(np.arange(len(batch)))])


def _spread(indices: np.ndarray[tuple[int], np.dtype[np.intp]]) -> Iterator[np.intp]:
    step = max(len(indices) / MOST_TRIED, 1.0)
    return iter(indices[np.arange(0, len(indices), step).astype(np.intp)])


def left_out(curve: Curve, batch: Floats, seconds: Floats) -> Floats:
    """
    Return log residuals of points that the lines through the others had not seen.

    The breakpoint stays where it is; a line that would have too few points is not asked.
    """
    batch, seconds = merge(batch, seconds)
    is_second = (batch >= curve.after) & (curve.second is not None)
    found = []
    for side in (is_second, ~is_second):
        x, y = batch[side], seconds[side]
        for index in range(len(x) if len(x) > LEAST_BEFORE else 0):
            rest = np.arange(len(x)) != index
            line = fit_line(x[rest], y[rest])
            found.append(np.log(y[index] / line.at(x[index : index + 1])[0]))
    return np.array(found)
