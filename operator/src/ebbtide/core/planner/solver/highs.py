"""HiGHS, through scipy: where the list of what could be better would be too long."""

import math

import numpy as np

from ebbtide.core.planner.solver.cover import Cover, Floats
from ebbtide.core.planner.solver.search import Other

OPTIMAL = 0
INFEASIBLE = 2
INTEGRALITY = 1


def ask_highs(cover: Cover, *, seconds: float) -> Other:
    """Return the best plan at the one size of a cover, or what is known of it in that time."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415 -- takes a second

    size, scale = float(cover.sizes[0]), float(cover.scale[0])
    ones = np.ones(len(cover.cost))
    # Rates near 1: its tolerances are absolute.
    unit = float(np.abs(cover.rate).max()) or 1.0
    limits = [
        LinearConstraint(ones, size, size),
        LinearConstraint(
            cover.rate / unit, float(cover.demand[0]) / unit, float(cover.top[0]) / unit
        ),
    ]
    if cover.floor > 0:
        limits.append(LinearConstraint(cover.is_on_demand.astype(float), cover.floor, math.inf))
    worth = float(np.abs(cover.cost).max()) or 1.0
    answer = milp(
        cover.cost / worth,
        constraints=limits,
        bounds=Bounds(cover.least, cover.most),
        integrality=np.full(len(ones), INTEGRALITY),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    return read(answer.status, answer.x, answer.mip_dual_bound, unit=worth * scale)


def read(status: int, x: Floats | None, dual_bound: float | None, *, unit: float) -> Other:
    """Return what an answer says: whole numbers, and a bound only where one was proven."""
    if status == INFEASIBLE:
        return Other(None, math.inf)
    plan = None if x is None or not np.isfinite(x).all() else np.rint(x)
    known = dual_bound is not None and math.isfinite(dual_bound)
    return Other(plan, float(dual_bound) * unit if dual_bound is not None and known else -math.inf)
