"""Step times of another unit than seconds, found by what no GPU does and by their neighbours."""

from typing import Final

import numpy as np

from ebbtide.core.models.step_time.setups import FLOPS, STEP_TIME, Setups
from ebbtide.core.models.table import DataError, Flags, Floats

FASTEST: Final = 2e16
"""FLOPs a second that no GPU reaches: above the 4-bit peak of any of 2025."""
SLOWEST: Final = 1e6
"""FLOPs a second that anything exceeds."""
ODD: Final = 100.0
"""So far off the others of its GPU type a row is in no respect; units differ by 1,000."""
APART: Final = 300.0
"""So far apart GPU types are not on one workload: about a K80 and a B200 of 2025."""


def check_units(setups: Setups, seconds: Floats) -> None:
    """Raise DataError for a time that is not in seconds."""
    _check_speed(setups, seconds)
    known = np.isfinite(setups.work)
    for gpu in dict.fromkeys(setups.gpu.tolist()):
        here = setups.gpu == gpu
        _check_odd(setups, seconds, setups.work, chosen=here & known)
        for workload in dict.fromkeys(setups.workload[here].tolist()):
            batch = np.where(np.isnan(setups.batch), 1.0, setups.batch)
            _check_odd(setups, seconds, batch, chosen=here & (setups.workload == workload))
    _check_apart(setups, seconds)


def _check_speed(setups: Setups, seconds: Floats) -> None:
    speed = setups.work / seconds
    for index in np.flatnonzero((speed > FASTEST) | (speed < SLOWEST)):
        what = "more than any GPU does" if speed[index] > FASTEST else "less than anything does"
        raise DataError(
            f"{_place(setups, index)}: {seconds[index]:g} s means {speed[index]:.3g} FLOPs "
            f"a second, {what}: times are in seconds, {FLOPS.name} are those of one sample"
        )


def _check_odd(setups: Setups, seconds: Floats, work: Floats, *, chosen: Flags) -> None:
    """Raise for a row that is slow (or fast) both in time and in time for its work."""
    if chosen.sum() < 3:  # noqa: PLR2004 -- of two rows none is the odd one
        return
    time, rate = np.log(seconds), np.log(seconds / work)
    off_time, off_rate = time - np.median(time[chosen]), rate - np.median(rate[chosen])
    odd = (np.sign(off_time) == np.sign(off_rate)) & chosen
    for index in np.flatnonzero(odd & (np.minimum(abs(off_time), abs(off_rate)) > np.log(ODD))):
        raise DataError(
            f"{_place(setups, index)}: {seconds[index]:g} s, but half of the times of GPU "
            f"{setups.gpu[index]} are below {np.exp(np.median(time[chosen])):.3g} s: all times "
            "must be in seconds"
        )


def _check_apart(setups: Setups, seconds: Floats) -> None:
    first: dict[tuple[str, str], int] = {}
    batches = setups.batch.astype(str).tolist()
    for index, pair in enumerate(zip(setups.workload.tolist(), batches, strict=True)):
        other = first.setdefault(pair, index)
        ratio = seconds[index] / seconds[other]
        if not 1 / APART < ratio < APART:
            raise DataError(
                f"{_place(setups, index)}: {seconds[index]:g} s, but row {setups.rows[other]} has "
                f"{seconds[other]:g} s of the same workload {setups.workload[index]}: all times "
                "must be in seconds"
            )


def _place(setups: Setups, index: int | np.intp) -> str:
    return f"column {STEP_TIME.name}, row {setups.rows[index]}"
