"""All sizes of a cover, the most promising first, until nothing better is left."""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from ebbtide.core.planner.solver.climb import begin_climb, bound, climb
from ebbtide.core.planner.solver.compiled import FAST, compile_kernels, fast, kernel
from ebbtide.core.planner.solver.cover import Cover, Floats, Incumbent
from ebbtide.core.planner.solver.dominance import limit_most
from ebbtide.core.planner.solver.meet import meet
from ebbtide.core.planner.solver.reduce import Reduced, reduce
from ebbtide.core.planner.solver.table import (
    Best,
    Filling,
    Span,
    Table,
    fill,
    goal_below,
    goal_of,
    keep,
    tabulate,
    take,
)
from ebbtide.core.planner.solver.walk import settle

NONE: Final = -1
OPEN: Final = 0.0
CLIMBED: Final = 1.0
"""Bounded at a price of its own."""
SETTLED: Final = 2.0
LEFT: Final = 3.0
"""Too much for the budget."""


@kernel
def choose(bounds: Floats, states: Floats, goal: float) -> int:
    """Return the most promising size that is not settled, NONE where none is below the goal."""
    found, least = NONE, goal
    for place in range(len(bounds)):
        if states[place] <= CLIMBED and bounds[place] < least:
            found, least = place, bounds[place]
    return found


class Budget(NamedTuple):
    """How much work may go into each size."""

    states: float
    """That are looked at one by one."""
    most: int
    """States of each of two lists, where those were too few; 0: there are none."""


@kernel
def settle_size(table: Table, size: Reduced, best: Best, by: tuple[float, Budget]) -> bool:
    """Look at all that could be better at one size, by price of rate and budget; tell if it was."""
    price, budget = by
    best.left[0] = budget.states
    if settle(table, size, best):
        return True
    return budget.most > 0 and meet(table, size, best, (price, budget.most))


@kernel
def settle_freely(table: Table, size: Reduced, best: Best, by: tuple[float, Budget]) -> float:
    """
    Settle one size without its floor, where that costs nothing; return what came of it.

    Without a floor all pools can dominate each other, and far fewer ways are left. Still open is
    the size where the best plan then breaks the floor.
    """
    if table.floor <= 0 or size.on_demand > 0:
        return CLIMBED
    free = Table(
        table.cost,
        table.rate,
        table.least,
        table.most,
        table.market,
        table.sizes,
        table.demand,
        table.top,
        table.scale,
        table.slack,
        0.0,
        table.quantum,
    )
    found = Best(best.value.copy(), best.plan.copy(), best.left)
    if not settle_size(free, size, found, by):
        return LEFT
    if found.value[0] < best.value[0] and not take(table, best, found.plan, size.place):
        return CLIMBED
    return SETTLED


class Outcome(NamedTuple):
    """What comes of every size."""

    bounds: Floats
    states: Floats


@kernel
def settle_sizes(
    table: Table, start: float, best: Best, budget: Budget
) -> tuple[Outcome, float, float]:
    """
    Find the best plan of all sizes, the most promising first.

    Returns with the outcome the price of rate and the bound of all sizes together.
    """
    bounds = np.empty(len(table.sizes))
    slope = begin_climb(table, best, bounds)
    root, _ = bound(table, slope, start)
    price, lowest, prices = root, bounds.min(), np.full(len(bounds), root)
    states = np.full(len(bounds), OPEN if len(bounds) > 1 else CLIMBED)
    while True:
        place = choose(bounds, states, goal_below(table, best))
        if place == NONE:
            break
        if states[place] == OPEN:
            states[place] = CLIMBED
            price, _ = climb(table, slope, Span(place, place + 1, price))
            prices[place] = price
            continue
        size = reduce(table, place, prices[place])
        states[place] = settle_freely(table, size, best, (prices[place], budget))
        if states[place] == CLIMBED:
            is_settled = settle_size(table, size, best, (prices[place], budget))
            states[place] = SETTLED if is_settled else LEFT
    return Outcome(bounds, states), root, lowest


PLAIN: Final = Budget(300.0, 0)
"""Of loops that are not compiled: tables come next."""
COMPILED: Final = Budget(1_000.0, 20_000)


@dataclass(frozen=True, slots=True)
class Settled:
    """What came of the sizes of a cover."""

    price: float
    """Of rate."""
    bound: float
    """Of all sizes, at one price; infinite where none can be met."""
    left: tuple[tuple[int, float], ...]
    """Places of sizes that may hold better plans, and the bound of each."""


def settle_cover(
    cover: Cover, best: Incumbent, *, start: float | None = None, share: float = 1.0
) -> Settled:
    """Find the best plan of a cover, as far as a share of the budgets goes."""
    kept, budget = keep(best, cover), COMPILED if FAST else PLAIN
    budget = Budget(share * budget.states, int(share * budget.most))
    outcome, price, lowest = fast(settle_sizes)(tabulate(cover), start or 0.0, kept, budget)
    if kept.value[0] < best.value:
        best.value, best.plan = float(kept.value[0]), kept.plan
    left = (outcome.states == LEFT).nonzero()[0].tolist()
    ends = tuple((place, float(outcome.bounds[place])) for place in left)
    return Settled(float(price), float(lowest), ends)


def are_lists_met() -> bool:
    """Tell whether all that a part holds is looked at in two lists, where it is no more."""
    return bool(FAST)


def compile_solver(*, needs_cache: bool = False) -> bool:
    """Compile the loops of the solver, or only load them; tell whether it is done."""
    row, one = np.ones(2), np.ones(1)
    table = Table(row, row, row, row, row, one, one, one, one, one, 0.0, 0.0)
    best = Best(np.array([np.inf, 0.0]), np.empty(2), np.empty(1))
    filling = Filling(np.arange(2), np.empty(1), np.empty(1))
    return compile_kernels(
        (settle_sizes, (table, 0.0, best, PLAIN)),
        (begin_climb, (table, best, np.empty(1))),
        (bound, (table, begin_climb(table, best, np.empty(1)), 0.0)),
        (reduce, (table, 0, 0.0)),
        (fill, (table, filling, np.empty(2), Span(0, 1, 0.0))),
        (goal_of, (1.0, 0.0)),
        (limit_most, (np.ones((4, 2)), 1.0, 0.0)),
        needs_cache=needs_cache,
    )
