"""What a model answers: values with an interval, and whether they are beyond its data."""

from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

import numpy as np

from ebbtide.core.models.table import Flags, Floats

Json: TypeAlias = dict[str, Any]

COVERAGE: Final = 0.9
"""The share of new measurements that an interval is to hold."""
FEW: Final = 10
"""With fewer held-out residuals than this an interval is widened to what they spread at most."""
BEYOND: Final = 2.0
"""By how much wider, in logarithms, an interval is where a question lies beyond the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Values for the rows of a table: arrays of equal length, in the unit of the model."""

    value: Floats
    low: Floats
    """Between `low` and `high` lie nine of ten measurements, if they are like those seen."""
    high: Floats
    beyond: Flags
    """Whether a row asks beyond the data that the model was fitted from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How far measurements lie from what was predicted, as ratios: low <= 1 <= high."""

    low: float
    high: float

    @classmethod
    def of(cls, measured: Floats, predicted: Floats) -> Self:
        """
        Take the spread from predictions of what the fit had not seen (split conformal).

        The quantile of each side is the (n + 1) p-th smallest residual, as in Lei et al. 2018,
        J. Am. Stat. Assoc. 113, 1094-1111; few residuals give their extremes.
        """
        residuals = np.sort(np.log(measured) - np.log(predicted))
        number = len(residuals)
        if not number:
            return cls(low=0.5, high=2.0)
        tail = round((1 - COVERAGE) / 2, 9)  # 0.05, which binary fractions would miss
        first = int(np.floor((number + 1) * tail)) - 1
        last = int(np.ceil((number + 1) * (1 - tail))) - 1
        low = residuals[max(first, 0)]
        high = residuals[min(last, number - 1)]
        return cls(low=float(np.exp(min(low, 0.0))), high=float(np.exp(max(high, 0.0))))

    def around(self, value: Floats, *, beyond: Flags | None = None) -> Forecast:
        """Put the interval around values; wider, to both sides, where they lie beyond the data."""
        outside: Flags = np.zeros(len(value), dtype=np.bool_) if beyond is None else beyond
        power = np.where(outside, BEYOND, 1.0)
        return Forecast(
            value=value, low=value * self.low**power, high=value * self.high**power, beyond=outside
        )

    def to_json(self) -> Json:
        """Return plain JSON."""
        return {"low": self.low, "high": self.high}

    @classmethod
    def from_json(cls, stored: Json) -> Self:
        """Read what `to_json` wrote; raises ValueError for what is no interval around 1."""
        low, high = float(stored["low"]), float(stored["high"])
        if not 0 < low <= 1 <= high < float("inf"):
            raise ValueError(f"a spread from {low:g} to {high:g}: it must hold 1, and be above 0")
        return cls(low=low, high=high)
