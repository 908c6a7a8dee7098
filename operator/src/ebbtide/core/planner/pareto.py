"""The front of cost and time: for each time the fleet that costs least, for display."""

from dataclasses import replace
from datetime import datetime
from typing import Final

import numpy as np

from ebbtide.core.planner.inputs import Inputs
from ebbtide.core.planner.menu import Cheapest, Fastest, Menu
from ebbtide.core.planner.outlook import Field, Fleet, Outlook, look_ahead
from ebbtide.core.planner.planning import lay_out, write
from ebbtide.core.planner.scoring import score
from ebbtide.core.planner.wording import describe_fleet, describe_hours
from ebbtide.core.values.objective import Minimize
from ebbtide.core.values.plan import Infeasible, Plan

POINTS: Final = 24
"""Speeds that are asked for, between the cheapest fleet's and the fastest's."""


def pareto(inputs: Inputs, now: datetime) -> tuple[Plan, ...]:
    """
    Return plans of which none is both cheaper and earlier than another, the earliest first.

    Deadline and budget are left aside; each plan says how likely it meets the deadline.
    """
    field = lay_out(inputs, now)
    if isinstance(field, Infeasible):
        return ()
    free = replace(inputs, due=None, budget_left_usd=None, minimize=Minimize.COST)
    menu = Menu(inputs=free, offers=field.offers, sizes=inputs.sizes, fronts=field.fronts)
    outlooks = [look_ahead(field, fleet) for fleet in _fleets(field, menu)]
    plans = []
    least = float("inf")
    for outlook in sorted(outlooks, key=lambda one: (one.hours, one.usd)):
        if outlook.usd < least * (1 - 1e-9):
            least = outlook.usd
            plans.append(_write(field, outlook))
    return tuple(plans)


def _fleets(field: Field, menu: Menu) -> tuple[Fleet, ...]:
    ends = [fleet for fleet in (menu.choose(Cheapest()), menu.choose(Fastest())) if fleet]
    if not ends:
        return ()
    found = dict.fromkeys(ends)
    rates = [look_ahead(field, fleet).late_rate for fleet in ends]
    for rate in np.geomspace(min(rates), max(rates), POINTS):
        fleet = menu.choose(Cheapest(float(rate) * (1 - 1e-9)))
        if fleet is not None:
            found[fleet] = None
    return tuple(found)


def _write(field: Field, outlook: Outlook) -> Plan:
    text = f"{describe_fleet(outlook.fleet)} cost least within {describe_hours(outlook.hours)}"
    return write(field, score(field, outlook, label=""), reason=text)
