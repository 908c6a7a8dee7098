"""
The bound: one price for rate, everything else is exact greedy.

At a price p of rate a node of pool i weighs w_i = cost_i - p rate_i. The n lightest nodes (after
those that any plan has) give h_n(p) = p demand_n + V_n(p) <= the least cost at size n. The
least of scale_n h_n(p) over the sizes is concave in p and made of lines; two lines that bracket
its top are crossed until the crossing lies on it. Each evaluation is one sort, bounds every size,
and is a legal plan wherever its rate suffices.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from ebbtide.core.planner.solver.compiled import fast, kernel
from ebbtide.core.planner.solver.cover import Cover, Floats, Incumbent, Places
from ebbtide.core.planner.solver.table import (
    Best,
    Filling,
    Span,
    Table,
    fill,
    fill_plan,
    goal_below,
    keep,
    sort_by,
    tabulate,
    take,
    weigh,
)

EVALUATIONS: Final = 100
FLAT: Final = 1e-12
"""Relative: a crossing so little above the function is on it."""


class Slope(NamedTuple):
    """The two fillings that every climb starts between, what it raises, and room to work in."""

    by_cost: Filling
    by_rate: Filling
    work: Filling
    free: Floats
    plan: Floats
    best: Best
    bounds: Floats
    """Of every size, on scale times cost; infinite where it cannot be met."""
    sides: Floats
    """Of one size that was climbed alone: a plan of too little rate, and one of enough."""


class Line(NamedTuple):
    """What a filling of one size comes to at each price of rate, scaled."""

    cost: float
    missing: float
    """Rate below the demand."""


@kernel
def is_possible(table: Table, slope: Slope, place: int) -> bool:
    """Tell whether any plan of a size has the rate."""
    enough = table.demand[place] - table.slack[place]
    found: bool = slope.by_rate.rates[place] >= enough and slope.by_rate.costs[place] < np.inf
    return found


@kernel
def begin_climb(table: Table, best: Best, bounds: Floats) -> Slope:
    """
    Fill every size with the cheapest nodes, and with the fastest; set the bounds anew.

    Ties by rate and by cost, or the bounds that start from these stay far off.
    """
    num, end = len(table.cost), len(table.sizes)
    costs, rates = np.empty((3, end)), np.empty((3, end))
    slope = Slope(
        Filling(sort_by(table.cost, -table.rate), costs[0], rates[0]),
        Filling(sort_by(-table.rate, table.cost), costs[1], rates[1]),
        Filling(np.empty(0, dtype=np.int64), costs[2], rates[2]),
        np.empty(num),
        np.empty(num),
        best,
        bounds,
        np.empty((2, num)),
    )
    span = Span(0, end, 0.0)
    fill(table, slope.by_cost, slope.free, span)
    fill(table, slope.by_rate, slope.free, span)
    for place in range(end):
        bounds[place] = -np.inf if is_possible(table, slope, place) else np.inf
    return slope


@kernel
def line_of(table: Table, filling: Filling, place: int) -> Line:
    """Return the filling of one size as a line."""
    scale, missing = table.scale[place], table.demand[place] - filling.rates[place]
    return Line(scale * filling.costs[place], scale * missing)


@kernel
def offer(table: Table, slope: Slope, filling: Filling, place: int) -> None:
    """Take the filling of one size as a plan, if it is legal and better."""
    rate, slack = filling.rates[place], table.slack[place]
    if not table.demand[place] - slack <= rate <= table.top[place] + slack:
        return
    if table.scale[place] * filling.costs[place] < slope.best.value[0]:
        fill_plan(table, filling.order, place, slope.plan)
        take(table, slope.best, slope.plan, place)


@kernel
def judge(table: Table, slope: Slope, filling: Filling, span: Span) -> Line:
    """Raise the bounds of some sizes by what was filled at a price; return the least line."""
    least, found = np.inf, span.begin
    for place in range(span.begin, span.end):
        if slope.bounds[place] < np.inf:
            value = filling.costs[place]
            if span.price:  # at 0 the demand may be infinite
                value += span.price * (table.demand[place] - filling.rates[place])
            value *= table.scale[place]
            slope.bounds[place] = max(slope.bounds[place], value)
            if value < least:
                least, found = value, place
    return line_of(table, filling, found)


@kernel
def look(table: Table, slope: Slope, span: Span) -> tuple[Places, Line]:
    """Fill some sizes at a price, take the plans, raise the bounds; return order and least line."""
    _, order = weigh(table, span.price)
    filling = Filling(order, slope.work.costs, slope.work.rates)
    fill(table, filling, slope.free, span)
    for place in range(span.begin, span.end):
        offer(table, slope, filling, place)
    return order, judge(table, slope, filling, span)


@kernel
def find_fastest(table: Table, slope: Slope, span: Span) -> Line:
    """Return the line of the fastest nodes that misses least."""
    least, found = np.inf, span.begin
    for place in range(span.begin, span.end):
        missing = line_of(table, slope.by_rate, place).missing
        if slope.bounds[place] < np.inf and missing < least:
            least, found = missing, place
    return line_of(table, slope.by_rate, found)


@kernel
def climb(table: Table, slope: Slope, span: Span) -> tuple[float, float]:
    """
    Climb to the best bound of some sizes at one price.

    The price of the span is looked at first, if it is not 0. Stops where a single size is bounded
    by the goal already. Returns the price, and of a single size the share of the second of its
    sides that just meets the demand.
    """
    begin, end, start = span
    low = judge(table, slope, slope.by_cost, Span(begin, end, 0.0))
    high = find_fastest(table, slope, span)
    low_order, high_order = slope.by_cost.order, slope.by_rate.order
    price, is_single = 0.0, end - begin == 1
    for _ in range(EVALUATIONS if low.missing > 0 else 0):
        if low.missing <= high.missing:
            break
        crossing = (high.cost - low.cost) / (low.missing - high.missing)
        price, start = (start, 0.0) if start > 0 else (crossing, 0.0)
        order, line = look(table, slope, Span(begin, end, price))
        value, reached = line.cost + price * line.missing, low.cost + price * low.missing
        if price == crossing and value >= reached - FLAT * abs(reached):
            break
        if is_single and value >= goal_below(table, slope.best):
            break
        if line.missing > 0:
            low, low_order = line, order
        else:
            high, high_order = line, order
    if not is_single or not low.missing > max(high.missing, 0.0):
        return price, 0.0
    fill_plan(table, low_order, begin, slope.sides[0])
    fill_plan(table, high_order, begin, slope.sides[1])
    return price, low.missing / (low.missing - high.missing)


@kernel
def bound(table: Table, slope: Slope, start: float) -> tuple[float, float]:
    """Bound every size at one price, from a start that may be 0; returns what `climb` does."""
    end = len(slope.bounds)
    begin = end
    for place in range(end):
        if slope.bounds[place] < np.inf:
            begin = min(begin, place)
            offer(table, slope, slope.by_rate, place)
            offer(table, slope, slope.by_cost, place)
    if begin == end:
        return 0.0, 0.0
    return climb(table, slope, Span(begin, end, start))


@dataclass(frozen=True, slots=True)
class Bound:
    """The best price of rate, and what it proves of each size."""

    price: float
    bounds: Floats
    """On scale times cost; infinite where the size is not possible."""
    mixed: Floats | None
    """Of a single size: the mixture of two plans at that price that just meets the demand."""


def find_bound(cover: Cover, best: Incumbent, *, start: float | None = None) -> Bound | None:
    """Return the best bound and offer the plans on the way; None when no size can be met."""
    table, kept = tabulate(cover), keep(best, cover)
    slope = fast(begin_climb)(table, kept, np.empty(len(cover.sizes)))
    price, share = fast(bound)(table, slope, start or 0.0)
    if kept.value[0] < best.value:
        best.offer(cover, kept.plan)
    if (slope.bounds == np.inf).all():
        return None
    low, high = slope.sides
    return Bound(price, slope.bounds, low + share * (high - low) if share else None)
