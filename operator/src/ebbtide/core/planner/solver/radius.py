"""How far states can be listed before they become too many."""

from collections.abc import Sequence

import numpy as np

from ebbtide.core.planner.solver.cover import Floats

PROBES = np.geomspace(0.1, 1e4, 32)


def radius(
    distances: Floats, most: Floats, lengths: Sequence[int], *, room: float, log_states: float
) -> float:
    """
    Return a distance within which there are no more states than asked for; at most the room.

    Pools come in chains of these lengths: nodes of one change only once all before it have.
    For each b > 0 the states below distance g number at most e^(b g) Z(b), where Z(b) is the
    product over the chains of the sum of e^(-b d) over the distances d of 0, 1, ... changed nodes.
    """
    if not len(distances):
        return room
    if log_states <= 0:
        return 0.0
    rates = PROBES * log_states / room
    weights = rates[:, None] * distances
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        sums = np.expm1(-weights * most) / np.expm1(weights) * -1.0
    if not distances.all():
        sums = np.where(weights > 0, sums, most)
    if len(lengths) < len(distances):
        starts = np.cumsum([0, *lengths[:-1]])
        whole = (distances * most).cumsum() - distances * most
        before = whole - np.repeat(whole[starts], lengths)
        sums = np.add.reduceat(sums * np.exp(-rates[:, None] * before), starts, axis=1)
    reach = (log_states - np.log1p(sums).sum(axis=1)) / rates
    return min(float(reach.max()), room)
