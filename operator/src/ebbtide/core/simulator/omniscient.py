"""
The least cost of a job for whoever knows the whole trace: an exact dynamic programme.

What slack a job can have left is what it started with, less ticks idled and changeovers paid. So
slack lies on a grid of their common divisor and no value is rounded: work and deadline may be any
number. A changeover that is left early is never worth its money, so none is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from ebbtide.core.models.table import Flags, Floats
from ebbtide.core.planner.policies.moment import Terms
from ebbtide.core.simulator.prices import Prices, Series

PRICE_STEP: Final = 1e-6
"""By which the price of on-demand is raised to see how long an optimal plan runs on it."""


def least_cost(up: Flags, terms: Terms, *, start: int, prices: Prices = ()) -> float:
    """
    Return the least cost, USD, that meets the deadline.

    Args:
        up: availability, [rows, zones]; beyond the last row nothing is up.
        terms: of the job. A tick and a changeover of whole seconds are taken as they are; others
            are rounded down to a second, and the answer is a bound.
        start: the row before which the job comes.
        prices: of spot by zone, where they move.

    Raises:
        ValueError: where not even on-demand from the start meets the deadline.

    """
    if terms.slack_s < terms.changeover_s:
        raise ValueError(
            f"deadline_s {terms.deadline_s:g}: work of {terms.work_s:g} and a changeover of "
            f"{terms.changeover_s:g} need {terms.work_s + terms.changeover_s:g}"
        )
    num_ticks = math.ceil(terms.deadline_s / terms.tick_s - 1e-9)
    window = np.zeros((num_ticks, up.shape[1]), dtype=np.bool_)
    known = up[start : start + num_ticks]
    window[: len(known)] = known
    spot = prices or (Series.steady(terms.spot_usd_per_s),) * up.shape[1]
    series = (*spot, Series.steady(terms.on_demand_usd_per_s))
    return _Search.of(terms).run(window, series, from_s=start * terms.tick_s)


def least_on_demand_s(up: Flags, terms: Terms, *, start: int) -> float:
    """
    Return the paid time on on-demand in a plan of least cost.

    It is the slope of that cost over the price of on-demand.
    """
    more = replace(terms, on_demand_usd_per_s=terms.on_demand_usd_per_s * (1 + PRICE_STEP))
    rise = least_cost(up, more, start=start) - least_cost(up, terms, start=start)
    return rise / (terms.on_demand_usd_per_s * PRICE_STEP)


class _Tick(NamedTuple):
    left_s: float
    """To the deadline, at its beginning."""
    begin_s: float
    """Since the first row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """Costs by slack, from the most that there can be down to none."""

    terms: Terms
    slack: Floats
    idle: int
    """Places on the grid that a tick of idling costs."""
    change: int
    """Places that a changeover costs."""

    @classmethod
    def of(cls, terms: Terms) -> "_Search":
        tick, changeover = math.floor(terms.tick_s), math.floor(terms.changeover_s)
        unit = math.gcd(tick, changeover) or 1
        number = int(terms.slack_s // unit) + 1
        return cls(
            terms=terms,
            slack=terms.slack_s - unit * np.arange(number, dtype=np.float64),
            idle=tick // unit,
            change=changeover // unit,
        )

    def run(self, window: Flags, prices: Prices, *, from_s: float) -> float:
        """Go backwards from the deadline; return the cost from the start, where nothing runs."""
        terms = self.terms
        nowhere = np.full(len(self.slack), np.inf)
        running: list[Floats | None] = [None] * len(prices)
        for number in range(len(window) - 1, -1, -1):
            left = terms.deadline_s - number * terms.tick_s
            is_open = [*window[number], True]
            tick = _Tick(left, from_s + number * terms.tick_s)
            running = [
                self._run(tick, price, nowhere if stay is None else np.minimum(stay, nowhere))
                if may
                else None
                for price, stay, may in zip(prices, running, is_open, strict=True)
            ]
            nowhere = self._rest(left, nowhere, [found for found in running if found is not None])
        return float(nowhere[0])

    def _run(self, tick: "_Tick", price: Series, after: Floats) -> Floats:
        """Make progress for a tick; the changeover is paid. `after`: the best from then on."""
        length = self.terms.tick_s
        cost: Floats = price.usd(tick.begin_s, length) + after
        if tick.left_s <= self.slack[0] + length:
            work = tick.left_s - self.slack
            ends = work <= length
            cost[ends] = price.usd_each(tick.begin_s, np.maximum(work[ends], 0.0))
        return cost

    def _rest(self, left: float, after: Floats, running: Sequence[Floats]) -> Floats:
        """Idle for a tick, or start somewhere; `running` are the places that are up."""
        cost = np.full(len(self.slack), np.inf)
        size = len(cost)
        if self.idle < size:
            cost[: size - self.idle] = after[self.idle :]
        if self.change < size:
            begun = cost[: size - self.change]
            for values in running:
                np.minimum(begun, values[self.change :], out=begun)
        if left <= self.slack[0]:
            cost[left - self.slack <= 0] = 0.0
        return cost
