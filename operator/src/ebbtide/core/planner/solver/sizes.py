"""All sizes of a cover, the most promising first, until nothing better is left."""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from ebbtide.core.planner.solver.climb import begin_climb, bound, climb
from ebbtide.core.planner.solver.compiled import FAST, compile_kernels, fast, kernel
from ebbtide.core.planner.solver.cover import Cover, Floats, Incumbent
from ebbtide.core.planner.solver.dominance import limit_most
from ebbtide.core.planner.solver.reduce import reduce
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


class Outcome(NamedTuple):
    """What comes of every size."""

    bounds: Floats
    states: Floats


@kernel
def settle_sizes(
    table: Table, start: float, best: Best, budgets: Floats
) -> tuple[Outcome, float, float]:
    """
    Find the best plan of all sizes, the most promising first.

    Each size may take the first of the budgets, and then, as long as it is not settled, the next.
    Returns with the outcome the price of rate and the bound of all sizes together.
    """
    bounds = np.empty(len(table.sizes))
    slope = begin_climb(table, best, bounds)
    root, _ = bound(table, slope, start)
    price, lowest, prices = root, bounds.min(), np.full(len(bounds), root)
    states = np.full(len(bounds), OPEN if len(bounds) > 1 else CLIMBED)
    for budget in budgets:
        for place in range(len(states)):
            if states[place] == LEFT:
                states[place] = CLIMBED
        while True:
            place = choose(bounds, states, goal_below(table, best))
            if place == NONE:
                break
            if states[place] == OPEN:
                states[place] = CLIMBED
                price, _ = climb(table, slope, Span(place, place + 1, price))
                prices[place] = price
                continue
            best.left[0] = budget
            is_settled = settle(table, reduce(table, place, prices[place]), best)
            states[place] = SETTLED if is_settled else LEFT
    return Outcome(bounds, states), root, lowest


PLAIN: Final = (300.0,)
"""States of each size that are looked at before they are listed in tables."""
COMPILED: Final = (3_000.0,)
EARLY_CUTS: Final = 40
"""Where loops are compiled, a problem is cut so often before it is listed in tables."""


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
    kept, budgets = keep(best, cover), share * np.array(COMPILED if FAST else PLAIN)
    outcome, price, lowest = fast(settle_sizes)(tabulate(cover), start or 0.0, kept, budgets)
    if kept.value[0] < best.value:
        best.value, best.plan = float(kept.value[0]), kept.plan
    left = (outcome.states == LEFT).nonzero()[0].tolist()
    ends = tuple((place, float(outcome.bounds[place])) for place in left)
    return Settled(float(price), float(lowest), ends)


def count_early_cuts() -> int:
    """Return how often a problem is cut before anything is listed: most parts have few states."""
    return EARLY_CUTS if FAST else 0


def compile_solver(*, needs_cache: bool = False) -> bool:
    """Compile the loops of the solver, or only load them; tell whether it is done."""
    row, one = np.ones(2), np.ones(1)
    table = Table(row, row, row, row, row, one, one, one, one, one, 0.0, 0.0)
    best = Best(np.array([np.inf, 0.0]), np.empty(2), np.empty(1))
    filling = Filling(np.arange(2), np.empty(1), np.empty(1))
    return compile_kernels(
        (settle_sizes, (table, 0.0, best, one)),
        (begin_climb, (table, best, np.empty(1))),
        (bound, (table, begin_climb(table, best, np.empty(1)), 0.0)),
        (reduce, (table, 0, 0.0)),
        (fill, (table, filling, np.empty(2), Span(0, 1, 0.0))),
        (goal_of, (1.0, 0.0)),
        (limit_most, (np.ones((4, 2)), 1.0, 0.0)),
        needs_cache=needs_cache,
    )
