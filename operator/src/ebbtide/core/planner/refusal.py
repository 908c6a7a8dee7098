"""Why there is no plan, and the nearest goals that there is one for."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from math import ceil
from typing import Final

from ebbtide.core.planner.candidates import find_best, find_nearest
from ebbtide.core.planner.inputs import Inputs
from ebbtide.core.planner.menu import Menu
from ebbtide.core.planner.outlook import CENT, MOST_HOURS, Field, cents
from ebbtide.core.planner.scoring import Level, Scored
from ebbtide.core.planner.wishes import Fastest
from ebbtide.core.planner.wording import describe_hours
from ebbtide.core.values.objective import Minimize
from ebbtide.core.values.plan import Infeasible

TRIES: Final = 3
"""Times that a nearest goal is loosened until the planner takes it."""


def find_fault(inputs: Inputs) -> str:
    """Say what makes every plan impossible, before any pool is looked at; empty: nothing."""
    if inputs.steps_left < 1 or inputs.global_batch < 1:
        return (
            f"steps left {inputs.steps_left} of {inputs.global_batch} samples:"
            " both must be at least 1"
        )
    if not inputs.sizes or min(inputs.sizes) < 1:
        wrong = f"legal numbers of workers {list(inputs.sizes)}"
        return (
            f"{wrong}: replicaDiscreteValues, minReplicas and maxReplicas leave none of 1 or more"
        )
    if inputs.on_demand_floor > max(inputs.sizes):
        return (
            f"onDemandFloor {inputs.on_demand_floor}: no legal number of workers is as large,"
            f" {max(inputs.sizes)} is the largest"
        )
    low, high = inputs.servers
    if inputs.uses_servers and not 1 <= low <= high:
        return f"servers from {low} to {high}: at least 1, and no more at least than at most"
    if not inputs.pools:
        return "there is no CapacityPool that the job may use: one at least is needed"
    return ""


def find_shortage(field: Field) -> str:
    """Say why no legal fleet can be had of the offers at all; empty: one can."""
    inputs = field.inputs
    left_out = _tell_left_out(field)
    if not field.offers:
        return f"no pool can be used: {'; '.join(field.notes)}"
    room = sum(offer.room for offer in field.offers)
    if room < min(inputs.sizes):
        return (
            f"minReplicas {min(inputs.sizes)}: the pools carry {room} workers in all, so"
            f" {room} or fewer would work{left_out}"
        )
    demand = sum(offer.room for offer in field.offers if not offer.is_spot)
    if demand < inputs.on_demand_floor:
        return (
            f"onDemandFloor {inputs.on_demand_floor}: the on-demand pools carry {demand} workers,"
            f" so {demand} or fewer would work{left_out}"
        )
    return ""


def refuse(field: Field) -> Infeasible:
    """Say that no fleet meets the goal, and which goals can be met."""
    inputs = field.inputs
    due, budget = inputs.due, inputs.budget_left_usd
    if Menu.of(field, field.offers).choose(Fastest()) is None:
        sizes = ", ".join(map(str, inputs.sizes))
        text = f"the pools make up none of the legal numbers of workers {sizes}"
        return Infeasible(reason=text + _tell_left_out(field))
    deadline = _nearest_deadline(field) if due is not None else None
    money = _nearest_budget(field) if budget is not None else None
    both = ""
    if deadline is None and money is None and due is not None and budget is not None:
        # neither alone helps: the earliest end at any cost, then what that costs
        alone = replace(field, inputs=replace(inputs, budget_left_usd=None))
        deadline = _nearest_deadline(alone)
        if deadline is not None:
            later = replace(field, inputs=replace(inputs, due=deadline))
            money = _nearest_budget(later)
            both = " (both are needed)"
    return Infeasible(
        reason=_tell(field, deadline, money) + both + _tell_left_out(field),
        nearest_deadline=deadline,
        nearest_budget_usd=None if money is None else money + inputs.spent_usd,
    )


def _tell_left_out(field: Field) -> str:
    """Name the pools that nothing was planned with: one of them may be what is missed."""
    return f" (left out: {'; '.join(field.notes)})" if field.notes else ""


def _tell(field: Field, deadline: datetime | None, money: Decimal | None) -> str:
    inputs = field.inputs
    goals = []
    if field.hours is not None and inputs.due is not None:
        goals.append(
            f"done by {inputs.due.isoformat(timespec='seconds')} (in"
            f" {describe_hours(max(field.hours, 0.0))})"
            if field.hours > 0
            else f"done by {inputs.due.isoformat(timespec='seconds')}, which is past"
        )
    if inputs.budget_left_usd is not None:
        goals.append(f"{'' if goals else 'done '}for {inputs.budget_left_usd} USD more")
    work = f"{inputs.steps_left} steps of {inputs.global_batch} samples"
    text = f"{work} cannot be {' and '.join(goals)}"
    ways = []
    if deadline is not None:
        ways.append(f"the nearest deadline that can be met is {deadline:%Y-%m-%dT%H:%M:%SZ}")
    if money is not None:
        total = money + inputs.spent_usd
        ways.append(f"the least budget that does it is {total} USD in all")
    if not ways:
        return f"{text}, nor for any other deadline or budget with these pools"
    return f"{text}: {', or '.join(ways)}"


def _nearest_deadline(field: Field) -> datetime | None:
    best = _nearest(field, due=None, budget=field.inputs.budget_left_usd, minimize=Minimize.TIME)
    if best is None or best.outlook.hours > MOST_HOURS:
        return None
    hours = best.outlook.hours
    for _ in range(TRIES):
        due = field.now + timedelta(seconds=ceil(hours * 3600 * (1 + 1e-9)) + 1)
        if _is_met(replace(field, inputs=replace(field.inputs, due=due))):
            return due
        hours *= 1.01
    return None


def _nearest_budget(field: Field) -> Decimal | None:
    best = _nearest(field, due=field.inputs.due, budget=None, minimize=Minimize.COST)
    if best is None:
        return None
    budget = cents(best.outlook.usd, up=True) + CENT
    for _ in range(TRIES):
        if _is_met(replace(field, inputs=replace(field.inputs, budget_left_usd=budget))):
            return budget
        budget = cents(float(budget) * 1.01, up=True)
    return None


def _is_met(field: Field) -> bool:
    best = find_best(field)
    return best is not None and best.level is not Level.MISSED


def _nearest(
    field: Field, *, due: datetime | None, budget: Decimal | None, minimize: Minimize
) -> Scored | None:
    inputs = replace(field.inputs, due=due, budget_left_usd=budget, minimize=minimize)
    return find_nearest(replace(field, inputs=inputs))
