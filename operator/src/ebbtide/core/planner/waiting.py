"""
Whether on-demand stands in where spot has run dry: the deadline policy, asked for one job.

The job's spot part is taken as one zone, up or down as a whole: nodes of a pool come and go
together most of the time. All the policy needs of the past is since when it has been down.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np

from ebbtide.core.planner.policies.ebbtide import Ebbtide
from ebbtide.core.planner.policies.history import History
from ebbtide.core.planner.policies.memory import Memory
from ebbtide.core.planner.policies.moment import IDLE, ON_DEMAND, Moment, Terms
from ebbtide.core.planner.policies.shelf import Shelf

HOUR_S: Final = 3600.0
WORST: Final = 2.0
"""A changeover may take so many times what was expected, and the deadline still holds."""
MOST_ROWS: Final = 2000
LEAST_USD: Final = 1e-9
AHEAD_S: Final = 12 * HOUR_S
"""A table that is solved serves the questions of so long, of the policy's time."""
TABLES: Final = Memory(most=8)
"""Of 2 MB each, more where there is much slack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drought:
    """A job whose spot part cannot be had. Seconds are the job's own, `time_scale` aside."""

    work_s: float  # left, at the speed of the plan
    left_s: float  # to the deadline
    changeover_s: float  # expected, from the decision to progress
    spot_usd_per_hour: float
    on_demand_usd_per_hour: float
    down_s: float  # since when there has been no node
    tick_s: float  # until the next decision
    on_demand_now: bool = False  # on-demand nodes stand in already
    now: datetime
    time_scale: float = 1.0
    """The policy knows spells of hours; where days pass in minutes it takes seconds for longer."""


def may_stand_in(drought: Drought) -> bool:
    """Tell whether on-demand nodes are to stand in now; else the job waits for spot."""
    scale = drought.time_scale
    work_s, left_s = drought.work_s * scale, drought.left_s * scale
    changeover_s, tick_s = drought.changeover_s * scale, drought.tick_s * scale
    if left_s - work_s - tick_s < WORST * changeover_s:
        return True
    if drought.on_demand_usd_per_hour <= drought.spot_usd_per_hour:
        return True
    terms = Terms(
        work_s=work_s,
        deadline_s=left_s,
        changeover_s=changeover_s,
        worst_changeover_s=WORST * changeover_s,
        spot_usd_per_s=max(drought.spot_usd_per_hour / HOUR_S, LEAST_USD),
        on_demand_usd_per_s=drought.on_demand_usd_per_hour / HOUR_S,
        tick_s=tick_s,
    )
    history = _remember(drought, tick_s=tick_s)
    moment = Moment(
        row=len(history) - 1,
        elapsed_s=0.0,
        left_s=left_s,
        work_s=work_s,
        place=ON_DEMAND if drought.on_demand_now else IDLE,
        changing_s=-1.0 if drought.on_demand_now else 0.0,
        up=(False,),
    )
    shelf = Shelf(history=history, terms=terms, memory=TABLES, ahead_s=AHEAD_S)
    return Ebbtide(terms, shelf).decide(moment) == ON_DEMAND


def _remember(drought: Drought, *, tick_s: float) -> History:
    """Return the one spell that is known: up, and then down until now."""
    rows = min(int(drought.down_s * drought.time_scale / tick_s), MOST_ROWS) + 1
    up = np.zeros((rows + 1, 1), dtype=np.bool_)
    up[0] = True
    midnight = drought.now.replace(hour=0, minute=0, second=0, microsecond=0)
    clock_s = (drought.now - midnight).total_seconds()
    return History(zones=("spot",), up=up, tick_s=tick_s, start_s=max(clock_s - rows * tick_s, 0.0))
