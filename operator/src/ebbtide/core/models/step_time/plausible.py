"""
A whole file of another unit, found by what its GPU types can do at most.

Rows of one file agree with each other in any unit, so only physics tells: FLOPs a second above
the peak of a GPU type cannot be; so few that even the best row reaches a thousandth of it are
hard to believe, though a tiny network may be bound by its launches.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from ebbtide.core.models.step_time.setups import FLOPS, STEP_TIME, Setups, read_setups
from ebbtide.core.models.table import DataError, Floats, Table

ABOVE: Final = 2.4
"""Times the peak: a fifth for clocks that rise, and twice for a precision of half the bits, which
lists of peaks leave out."""
BELOW: Final = 1e-3
"""Of the peak. Networks of 128 small images on a K80 reach a half of it (CM-DARE)."""
SMALLER: Final = (("milliseconds", 1e-3), ("microseconds", 1e-6))


def doubt(table: Table, peaks: Mapping[str, float]) -> list[str]:
    """
    Return what is hard to believe, by the most FLOPs a second of each GPU type that is known.

    Raises DataError for what cannot be. Types that are not in `peaks` are believed.
    """
    setups, seconds = read_setups(table), table.numbers(STEP_TIME)
    known = {name.casefold(): peak for name, peak in peaks.items()}
    peak = np.array([known.get(gpu.casefold(), np.nan) for gpu in setups.gpu.tolist()])
    used = setups.work / seconds / peak
    _check_above(setups, seconds, used, peak)
    notes = []
    for gpu in dict.fromkeys(setups.gpu.tolist()):
        here = np.flatnonzero((setups.gpu == gpu) & np.isfinite(used))
        if len(here) and used[here].max() < BELOW:
            best = here[used[here].argmax()]
            notes.append(
                f"column {STEP_TIME.name}, row {setups.rows[best]}: {seconds[best]:g} s means"
                f" {used[best] * peak[best]:.3g} FLOPs a second, {used[best]:.2g} of the"
                f" {peak[best]:.3g} that a {gpu} can do, and no other row of it does more:"
                f" {_suggest_time(float(used[best]))}"
            )
    return notes


def _check_above(setups: Setups, seconds: Floats, used: Floats, peak: Floats) -> None:
    for index in np.flatnonzero(used > ABOVE):
        raise DataError(
            f"column {STEP_TIME.name}, row {setups.rows[index]}: {seconds[index]:g} s means"
            f" {used[index] * peak[index]:.3g} FLOPs a second, more than the {peak[index]:.3g}"
            f" that a {setups.gpu[index]} can do:"
            f" {_suggest_flops(float(used[index]), float(setups.batch[index]))}"
        )


def _suggest_time(used: float) -> str:
    for unit, scale in SMALLER:
        if BELOW <= used / scale <= ABOVE:
            return f"if times are in {unit}, it is {used / scale:.2g} of it; give seconds"
    return f"times are in seconds, {FLOPS.name} are those of one sample"


def _suggest_flops(used: float, batch: float) -> str:
    if used / batch <= ABOVE:
        return f"{FLOPS.name} are those of one sample, not of a step of {batch:g} samples"
    return f"times are in seconds, {FLOPS.name} are those of one sample"
