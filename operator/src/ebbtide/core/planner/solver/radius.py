"""How far states can be listed before they become too many."""

import numpy as np

from ebbtide.core.planner.solver.cover import Floats

PROBES = np.geomspace(0.1, 1e4, 32)


def radius(distances: Floats, most: Floats, *, room: float, log_states: float) -> float:
    """
    Return a distance within which there are no more states than asked for; at most the room.

    For each b > 0 the states below distance g number at most e^(b g) Z(b), where Z(b) is the
    product over the pools of sum e^(-b d k) for k = 0..most.
    """
    if not len(distances):
        return room
    rates = PROBES * log_states / room
    weights = rates[:, None] * distances
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        sums = np.expm1(-weights * (most + 1)) / np.expm1(-weights)
    if not distances.all():
        sums = np.where(weights > 0, sums, most + 1)
    reach = (log_states - np.log(sums).sum(axis=1)) / rates
    return min(float(reach.max()), room)
