"""
The best fleet for a wish that the pool solver has no goal for: a search along its front.

The wish is worth no less for less money and more rate, so the best fleet is the cheapest at some
rate, which the solver answers. Between two rates no fleet costs less than the cheapest at the lower
one, nor is faster than the higher one: what such a fleet would be worth is a bound for all of them.
"""

import heapq
import math
from collections.abc import Iterator
from typing import Final

from ebbtide.core.planner.solver.answer import Answer
from ebbtide.core.planner.solver.question import (
    CheapestAt,
    FastestFor,
    FastestWithin,
    Fleet,
    Goal,
    LeastTotal,
    Question,
)
from ebbtide.core.planner.solver.solving import solve
from ebbtide.core.planner.wishes import (
    Cheapest,
    Fastest,
    Slowest,
    Wish,
    Worth,
    is_less,
    worth_of,
)

NEAR: Final = 1e-3
"""The search ends where no fleet is better by more than this share ..."""
MOST_STEPS: Final = 16
"""... or after so many questions to the solver."""
SLOW: Final = 1e-6
"""Of the highest rate: the least that is asked for."""
FASTER: Final = 1 + 1e-9
SLACK: Final = 1e-8
"""Relative room where a limit is met by what the solver answers."""


def is_one_goal(wish: Wish) -> bool:
    """Tell whether the solver has a goal for a wish, and answers it in less time than a list."""
    match wish:
        case Slowest():
            return True
        case Cheapest(_, idle):
            return idle <= 0
        case Fastest(limit, _):
            return math.isinf(limit)
        case _:
            return False


def find(fleet: Fleet, wish: Wish) -> Answer | None:
    """
    Return the best fleet for a wish; None where none meets it.

    It is exact where the solver has a goal for the wish, else within a gap of `NEAR`.
    """
    match wish:
        case Slowest(rate):
            return _ask(fleet, CheapestAt(rate))
        case Cheapest(_, 0.0):
            return _ask(fleet, _first_goal(fleet, wish))
        case Fastest(limit, idle) if not (idle and math.isfinite(limit)):
            found = _ask(fleet, _first_goal(fleet, wish))
            if found is None or math.isfinite(limit):
                return found
            # of the fastest fleets the cheapest
            return _ask(fleet, CheapestAt(found.rate / FASTER)) or found
        case _:
            return _search(fleet, wish)


def _search(fleet: Fleet, wish: Wish) -> Answer | None:
    """Halve the span with the best bound until no fleet is better by more than `NEAR`."""
    top = _ask(fleet, _first_goal(fleet, wish))
    if top is None:
        return None
    least = wish.rate if isinstance(wish, Cheapest) and wish.rate > 0 else top.rate * SLOW
    low = _ask(fleet, CheapestAt(least))
    best, worth = _better(wish, top, None, None)
    if low is None:
        return best
    best, worth = _better(wish, low, best, worth)
    spans = [(_reach(wish, low, top.rate, top) or -math.inf, 0, low, top.rate)]
    for step in range(1, MOST_STEPS):
        if not spans:
            break
        bound, _, low, high = heapq.heappop(spans)
        if worth is not None and bound >= worth[0] - NEAR * abs(worth[0]):
            break  # the least bound comes first
        middle = math.sqrt(low.rate * high)
        fast = _ask(fleet, CheapestAt(middle))
        if fast is None:
            continue
        best, worth = _better(wish, fast, best, worth)
        for place, (one, end) in enumerate(((low, middle), (fast, high))):
            reach = _reach(wish, one, end, top)
            if reach is not None and one.rate * FASTER < end:
                heapq.heappush(spans, (reach, 2 * step + place, one, end))
    return best


def _reach(wish: Wish, one: Answer, end: float, top: Answer) -> float | None:
    """Return a bound of what fleets from one on, slower than `end`, are worth; None: no use."""
    found = worth_of(wish, one.cost, end, slack=SLACK)
    if found is None:
        return None
    if not isinstance(wish, Cheapest):
        return found[0]
    # none costs less for the work, starts aside, than the best of all
    return max(found[0], top.cost_over_rate + wish.idle * one.cost)


def walk(fleet: Fleet, *, points: int) -> Iterator[Answer]:
    """Return the cheapest fleets by rising rate, some `points` of them at the most."""
    top = _ask(fleet, _fastest(fleet))
    if top is None:
        return
    found = _ask(fleet, CheapestAt(top.rate * SLOW))
    if found is None:
        return
    factor = max(FASTER, (top.rate / found.rate) ** (1 / points))
    while found is not None:
        yield found
        found = _ask(fleet, CheapestAt(found.rate * factor)) if found.rate < top.rate else None
    yield top


def _better(
    wish: Wish, one: Answer, best: Answer | None, worth: Worth | None
) -> tuple[Answer | None, Worth | None]:
    found = worth_of(wish, one.cost, one.rate, slack=SLACK)
    if found is None or (worth is not None and not is_less(found, worth)):
        return best, worth
    return one, found


def _first_goal(fleet: Fleet, wish: Wish) -> Goal:
    """Return a goal whose answer is faster than the best fleet, or as fast."""
    match wish:
        case Cheapest(rate, _):
            return LeastTotal(rate)
        case Fastest(limit, _) if math.isfinite(limit):
            return FastestWithin(limit)
        case _:
            return _fastest(fleet)


def _fastest(fleet: Fleet) -> Goal:
    nodes = sum(pool.usd_per_hour * pool.most for pool in fleet.pools)
    fixed = fleet.servers.usd_per_hour if fleet.servers else 0.0
    return FastestFor(2 * (nodes + fixed))


def _ask(fleet: Fleet, goal: Goal) -> Answer | None:
    found = solve(Question(fleet, goal))
    return found if isinstance(found, Answer) else None
