"""Expected revocations where each node that is lost is replaced: a renewal process."""

from typing import Final

import numpy as np

from ebbtide.core.models.lifetime.ages import Curves
from ebbtide.core.models.table import Floats, Indices

STEPS: Final = 240
"""Parts into which an interval is cut; the answer is off by less than one part's worth."""


def expected_losses(curves: Curves, group: Indices, age: Floats, *, ahead: float) -> Floats:
    """
    Solve m(t) = F(t) + integral of m(t - s) dF(s) for new nodes, then for those of an age.

    F is the share of nodes lost by t. Losses inside a part count at its middle (trapezoid), so a
    steady rate gives rate x time.
    """
    if not (np.isfinite(ahead) and ahead > 0):
        raise ValueError(f"ahead {ahead}: hours above 0 are needed")
    times = np.linspace(0.0, ahead, STEPS + 1)
    pairs, row = np.unique(np.stack([group.astype(np.float64), age]), axis=1, return_inverse=True)
    own = pairs[0].astype(np.intp)
    names, place = np.unique(own, return_inverse=True)
    fresh = np.diff(_lost(curves, names, np.zeros(len(names)), times), axis=1)
    renewed = np.zeros((len(names), STEPS + 1))
    for step in range(1, STEPS + 1):
        before = _between(renewed, step)
        # the loss of the first part leaves half a part in which the new node may be lost
        known = np.sum(fresh[:, :step] * (1 + before), axis=1)
        renewed[:, step] = known / (1 - fresh[:, 0] / 2)
    first = np.diff(_lost(curves, own, pairs[1], times), axis=1)
    later = (renewed[place, :-1] + renewed[place, 1:]) / 2
    found: Floats = np.sum(first * (1 + later[:, ::-1]), axis=1)
    return found[row.ravel()]


def _lost(curves: Curves, group: Indices, age: Floats, times: Floats) -> Floats:
    wide = (len(group), len(times))
    alive = curves.survival(
        np.repeat(group, len(times)), np.repeat(age, len(times)), np.tile(times, len(group))
    )
    return 1 - alive.reshape(wide)


def _between(renewed: Floats, step: int) -> Floats:
    """Return m at the middle of t - s for each part s; the newest value is not known yet."""
    upper = renewed[:, step:0:-1].copy()
    upper[:, 0] = 0.0
    return (upper + renewed[:, step - 1 :: -1][:, :step]) / 2
