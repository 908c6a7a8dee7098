"""
The one problem that all goals come down to.

    least   scale_n * sum cost_i x_i
    where   demand_n <= sum rate_i x_i <= top_n,   sum x_i = n, one of the sizes,
            at least `floor` nodes on demand,      least_i <= x_i <= most_i, whole

Costs and rates may have any sign: a budget is the same problem with the two exchanged.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Places: TypeAlias = NDArray[np.intp]

FEASIBLE: Final = 1e-9
"""Relative: so far below its demand a plan still meets it."""
CLOSED: Final = 1e-8
"""Relative: plans that are better by less are not looked for."""


@dataclass(frozen=True, kw_only=True)
class Cover:
    """The problem in arrays; counts are floats, exact as long as they are below 2**53."""

    cost: Floats
    rate: Floats
    least: Floats
    most: Floats
    is_on_demand: Flags
    sizes: Floats
    """Rising; the arrays below have one value for each."""
    demand: Floats
    top: Floats
    scale: Floats
    floor: float = 0.0
    quantum: float = 0.0
    """All costs are whole multiples of it, where it is not 0."""

    @cached_property
    def slack(self) -> Floats:
        """How far below its demand, or above its top, the rate of each size may be."""
        least = np.abs(self.rate).max(initial=0.0)
        limits = np.maximum(np.abs(self.demand), np.where(np.isinf(self.top), 0, np.abs(self.top)))
        slack: Floats = FEASIBLE * np.maximum(limits, least)
        return slack

    @cached_property
    def columns(self) -> Floats:
        """How many nodes of each pool can be chosen, and what all of these cost and do."""
        free = self.most - self.least
        return np.array([free, free * self.cost, free * self.rate])

    @cached_property
    def start(self) -> tuple[float, float, float]:
        """Nodes, cost and rate of what any plan has."""
        least = self.least
        return float(least.sum()), float(self.cost @ least), float(self.rate @ least)

    def at(self, chosen: Places | Flags | list[int]) -> "Cover":
        """Return the same problem with some of the sizes."""
        if len(self.sizes) == 1:
            return self
        return replace(
            self,
            sizes=self.sizes[chosen],
            demand=self.demand[chosen],
            top=self.top[chosen],
            scale=self.scale[chosen],
        )

    def of(self, pools: Flags) -> "Cover":
        """Return the same problem without the other pools."""
        return replace(
            self,
            cost=self.cost[pools],
            rate=self.rate[pools],
            least=self.least[pools],
            most=self.most[pools],
            is_on_demand=self.is_on_demand[pools],
        )

    def mirrored(self) -> "Cover":
        """Return the same problem with demand and top exchanged."""
        return replace(self, rate=-self.rate, demand=-self.top, top=-self.demand)

    def value_of(self, plan: Floats) -> float | None:
        """Return what a plan costs; None when it breaks a limit, by whatever it was found."""
        if plan.shape != self.cost.shape:
            return None
        # What is not a number is not itself, and what is not finite is above the most.
        if not ((plan == np.rint(plan)) & (plan >= self.least) & (plan <= self.most)).all():
            return None
        nodes = plan.sum()
        place = int(self.sizes.searchsorted(nodes))
        if place == len(self.sizes) or self.sizes[place] != nodes:
            return None
        rate, slack = float(self.rate @ plan), 1.001 * self.slack[place]
        if not self.demand[place] - slack <= rate <= self.top[place] + slack:
            return None
        if self.floor > 0 and plan[self.is_on_demand].sum() < self.floor:
            return None
        return float(self.scale[place] * (self.cost @ plan))


@dataclass(slots=True)
class Incumbent:
    """The best plan so far; a value without a plan is one that is to be beaten."""

    value: float
    plan: Floats | None = None

    def offer(self, cover: Cover, plan: Floats) -> None:
        """Take a plan if it is legal and better."""
        value = cover.value_of(plan)
        if value is not None and value < self.value:
            self.value, self.plan = value, plan
