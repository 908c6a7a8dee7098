"""
Whether on-demand stands in where spot has run dry: the deadline policy, asked for one job.

The job's spot part is taken as one zone, up or down as a whole: nodes of a pool come and go
together most of the time. Of several pools it is up while one of them gives nodes.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np

from ebbtide.core.planner.inputs import WORST
from ebbtide.core.planner.policies.ebbtide import Ebbtide
from ebbtide.core.planner.policies.history import History
from ebbtide.core.planner.policies.memory import Memory
from ebbtide.core.planner.policies.moment import IDLE, ON_DEMAND, Moment, Terms
from ebbtide.core.planner.policies.shelf import Shelf
from ebbtide.core.values.past import Spell

HOUR_S: Final = 3600.0
DAY_S: Final = 24 * HOUR_S
MOST_ROWS: Final = 45_000
"""Thirty days of minutes."""
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
    spells: tuple[Spell, ...] = ()  # when there were nodes; none: all that is known is `down_s`
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
    history = remember_spells(drought, tick_s=tick_s)
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


def remember_spells(drought: Drought, *, tick_s: float) -> History:
    """Return on a grid of ticks what is known: earlier spells, and the present one of down."""
    scale = drought.time_scale
    down_s = drought.down_s * scale
    spells = ((drought.now - s.since, s.available) for s in drought.spells)
    ages = [(age.total_seconds() * scale, is_up) for age, is_up in spells]
    changes = [one for one in ages if one[0] > down_s] or [(down_s + tick_s, True)]
    rows = min(int(changes[0][0] / tick_s), MOST_ROWS)
    ages_s = np.arange(rows, -1, -1) * tick_s
    up = np.zeros((rows + 1, 1), dtype=np.bool_)
    for age_s, is_up in (*changes, (down_s, False)):
        up[ages_s <= age_s] = is_up
    midnight = drought.now.replace(hour=0, minute=0, second=0, microsecond=0)
    clock_s = (drought.now - midnight).total_seconds()
    return History(zones=("spot",), up=up, tick_s=tick_s, start_s=(clock_s - rows * tick_s) % DAY_S)
