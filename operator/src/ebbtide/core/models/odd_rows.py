"""A row of another unit, where more never takes less time, nor many times its share."""

from typing import Final

import numpy as np

from ebbtide.core.models.table import Floats

ODD: Final = 100.0
"""So many times off another row a row is of another unit; units differ by 1,000."""


def find_odd(size: Floats, seconds: Floats) -> tuple[int, int] | None:
    """
    Return a row whose time another row makes absurd, and that other; None where all agree.

    Absurd is ODD times the time of something larger, or ODD times the time per size of something
    smaller.
    """
    if len(size) < 2:  # noqa: PLR2004 -- one row has no other
        return None
    order = np.lexsort((seconds, size))
    time = np.log(seconds[order])
    rate = time - np.log(size[order])
    least_after = np.minimum.accumulate(time[::-1])[::-1]
    least_before = np.minimum.accumulate(rate)
    slow, costly = time - least_after, rate - least_before
    if max(slow.max(), costly.max()) <= np.log(ODD):
        return None
    if slow.max() >= costly.max():
        row = int(slow.argmax())
        other = row + int(time[row:].argmin())
    else:
        row = int(costly.argmax())
        other = int(rate[: row + 1].argmin())
    return int(order[row]), int(order[other])
