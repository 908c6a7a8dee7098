"""
A cover as the loops read it, and what all of them do: fill sizes in an order, take a plan.

Arrays of floats only, so that every loop is compiled for one set of types.
"""

from typing import Final, NamedTuple

import numpy as np

from ebbtide.core.planner.solver.compiled import fast, kernel
from ebbtide.core.planner.solver.cover import CLOSED, Cover, Floats, Incumbent, Places

LOOSE: Final = 1.001
"""Of the slack: sums in another order are rounded otherwise."""


class Table(NamedTuple):
    """The numbers of a cover; see there."""

    cost: Floats
    rate: Floats
    least: Floats
    most: Floats
    market: Floats
    """1 on demand, else 0."""
    sizes: Floats
    demand: Floats
    top: Floats
    scale: Floats
    slack: Floats
    floor: float
    quantum: float


class Best(NamedTuple):
    """The best plan so far, and how much work may go into a better one."""

    value: Floats
    """One number, and a second one: 1 where the plan is one, 0 where there is only a value."""
    plan: Floats
    left: Floats
    """One number: the states that may still be looked at."""


class Span(NamedTuple):
    """Some sizes, and a price of rate for them."""

    begin: int
    end: int
    price: float


@kernel
def goal_of(value: float, quantum: float) -> float:
    """Return what a better plan is below; costs in whole quanta leave gaps below the best."""
    if value == np.inf:
        return value
    goal = value - CLOSED * abs(value)
    return min(goal, value - 0.999 * quantum) if quantum > 0 else goal


@kernel
def goal_below(table: Table, best: Best) -> float:
    """Return the goal that the best plan so far leaves."""
    return goal_of(best.value[0], table.quantum * best.value[1])


@kernel
def take(table: Table, best: Best, plan: Floats, place: int) -> bool:
    """Take a plan of one size if it is better; tell whether it is legal, by its own sums."""
    nodes, rate, cost, on_demand = 0.0, 0.0, 0.0, 0.0
    for pool in range(len(plan)):
        count = plan[pool]
        if count:
            if count < table.least[pool] or count > table.most[pool]:
                return False
            nodes += count
            rate += table.rate[pool] * count
            cost += table.cost[pool] * count
            on_demand += table.market[pool] * count
        elif table.least[pool] > 0:
            return False
    slack = LOOSE * table.slack[place]
    if nodes != table.sizes[place] or on_demand < table.floor:
        return False
    if rate < table.demand[place] - slack or rate > table.top[place] + slack:
        return False
    value = table.scale[place] * cost
    if value < best.value[0]:
        best.value[0] = value
        best.value[1] = 1.0
        best.plan[:] = plan
    return True


@kernel
def sort_by(first: Floats, second: Floats) -> Places:
    """Return the order by one row of numbers, ties by another, then by place."""
    inner = np.argsort(second, kind="mergesort")
    order: Places = inner[np.argsort(first[inner], kind="mergesort")]
    return order


@kernel
def weigh(table: Table, price: float) -> tuple[Floats, Places]:
    """Return what a node of each pool weighs at a price of rate, and the order by that."""
    weights = np.empty(len(table.cost))
    for pool in range(len(weights)):
        weights[pool] = table.cost[pool] - price * table.rate[pool]
    return weights, np.argsort(weights, kind="mergesort")


@kernel
def force(table: Table, order: Places, free: Floats) -> tuple[float, float, float]:
    """
    Set what is free of each pool beside what any plan has: the least, and the floor in this order.

    Returns nodes, cost and rate of what any plan has.
    """
    nodes, cost, rate, missing = 0.0, 0.0, 0.0, table.floor
    for pool in range(len(order)):
        least = table.least[pool]
        free[pool] = table.most[pool] - least
        if least:
            nodes += least
            cost += least * table.cost[pool]
            rate += least * table.rate[pool]
            missing -= least * table.market[pool]
    if table.floor > 0 and missing > 0:
        for pool in order:
            if table.market[pool] > 0 and free[pool] > 0:
                count = min(missing, free[pool])
                free[pool] -= count
                nodes += count
                cost += count * table.cost[pool]
                rate += count * table.rate[pool]
                missing -= count
                if missing <= 0:
                    break
    return nodes, cost, rate


class Filling(NamedTuple):
    """Sizes filled in an order: cost and rate of each."""

    order: Places
    costs: Floats
    rates: Floats


@kernel
def fill(table: Table, filling: Filling, free: Floats, span: Span) -> None:
    """Fill some sizes; infinite cost where that cannot be. What is free is room to work in."""
    order, costs, rates = filling
    place, end = span.begin, span.end
    sizes = table.sizes
    nodes, cost, rate = force(table, order, free)
    while place < end and sizes[place] < nodes:
        costs[place], rates[place] = np.inf, -np.inf
        place += 1
    for pool in order:
        if place == end:
            return
        count, usd, speed = free[pool], table.cost[pool], table.rate[pool]
        while place < end and nodes + count >= sizes[place]:
            back = sizes[place] - nodes
            costs[place] = cost + back * usd
            rates[place] = rate + back * speed
            place += 1
        nodes += count
        cost += count * usd
        rate += count * speed
    while place < end:
        costs[place], rates[place] = np.inf, -np.inf
        place += 1


@kernel
def fill_plan(table: Table, order: Places, place: int, plan: Floats) -> None:
    """Write the plan of one size that an order fills."""
    free = np.empty(len(order))
    nodes, _, _ = force(table, order, free)
    left = table.sizes[place] - nodes
    for pool in order:
        count = min(left, free[pool])
        plan[pool] = table.most[pool] - free[pool] + count
        left -= count


def keep(best: Incumbent, cover: Cover) -> Best:
    """Return the best plan so far as the loops keep it."""
    value = np.array([best.value, float(best.plan is not None)])
    return Best(value, np.empty(len(cover.cost)), np.empty(1))


def tabulate(cover: Cover) -> Table:
    """Return a cover as a table."""
    return Table(
        cover.cost,
        cover.rate,
        cover.least,
        cover.most,
        cover.is_on_demand.astype(np.float64),
        cover.sizes,
        cover.demand,
        cover.top,
        cover.scale,
        cover.slack,
        float(cover.floor),
        float(cover.quantum),
    )


def fill_sizes(cover: Cover, order: Places) -> tuple[Floats, Floats]:
    """Return cost and rate of every size, filled in an order of pools."""
    num = len(cover.sizes)
    filling = Filling(order, np.empty(num), np.empty(num))
    fast(fill)(tabulate(cover), filling, np.empty(len(cover.cost)), Span(0, num, 0.0))
    return filling.costs, filling.rates
