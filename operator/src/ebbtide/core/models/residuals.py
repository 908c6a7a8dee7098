"""
Intervals from few held-out residuals: logarithms of measured over predicted.

`Spread.of` takes quantiles, which need ten residuals or more. Fewer are taken for a sample of a
normal law around zero, whose interval is Student's.
"""

from typing import Final

import numpy as np

from ebbtide.core.models.forecast import FEW, Spread
from ebbtide.core.models.table import Floats

STUDENT: Final = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833)
"""The 95 % quantile of Student's t with 1, 2, ... 9 degrees of freedom."""
LEAST: Final = 0.01
"""No interval is narrower, to either side: copies of one row are no proof of exactness."""


def spread_of(residuals: Floats) -> Spread:
    """Return the interval that holds nine of ten residuals like these."""
    number = len(residuals)
    if not number:
        return Spread.of(residuals, residuals)
    if number < FEW:
        # One more is to come beside those seen: hence 1 + 1 / n.
        wide = np.sqrt((residuals @ residuals) / number * (1 + 1 / number))
        side = STUDENT[number - 1] * max(float(wide), LEAST)
        return Spread(low=float(np.exp(-side)), high=float(np.exp(side)))
    found = Spread.of(np.exp(residuals), np.ones(number))
    return Spread(
        low=min(found.low, float(np.exp(-LEAST))), high=max(found.high, float(np.exp(LEAST)))
    )


def is_covered(residuals: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Tell of each residual whether the interval of all others holds it."""
    ratios = np.exp(residuals)
    spreads = [spread_of(np.delete(residuals, index)) for index in range(len(residuals))]
    held = [
        spread.low <= ratio <= spread.high for spread, ratio in zip(spreads, ratios, strict=True)
    ]
    return np.array(held, dtype=np.bool_)
