"""Fleets for the tests of the solver, and every plan of a small one."""

import itertools
from typing import Any

import numpy as np

from ebbtide.core.planner.solver.answer import Answer, Outcome
from ebbtide.core.planner.solver.question import (
    CheapestAt,
    FastestFor,
    FastestWithin,
    Fleet,
    LeastTotal,
    PoolOffer,
    Question,
)

CLOSE = 1e-9


def make_fleet(
    *pools: tuple[float, float, int] | tuple[float, float, int, bool], **more: Any
) -> Fleet:
    """Return pools a, b, c ... of (USD per hour, rate, most, on demand)."""
    offers = [PoolOffer(chr(ord("a") + place), *pool) for place, pool in enumerate(pools)]
    return Fleet(pools=tuple(offers), **more)


def value_of(question: Question, answer: Answer) -> float:
    """Return what the goal asks for."""
    match question.goal:
        case CheapestAt():
            return answer.cost
        case LeastTotal():
            return answer.cost_over_rate
        case _:
            return answer.rate


def expect(outcome: Outcome) -> Answer:
    """Return the answer; fail with the reason where there is none."""
    assert isinstance(outcome, Answer), outcome
    return outcome


def best_by_force(question: Question) -> float | None:
    """Return the best value of all plans, each looked at; None where none is legal."""
    fleet, goal = question.fleet, question.goal
    ranges = [range(pool.most + 1) for pool in fleet.pools]
    plans = np.array(list(itertools.product(*ranges)), dtype=float)
    nodes = plans.sum(axis=1).astype(int)
    market = np.array([pool.is_on_demand for pool in fleet.pools])
    legal = (nodes >= 1) & (plans @ market >= fleet.on_demand_floor)
    legal &= nodes <= (fleet.most_nodes or nodes.max())
    if fleet.sizes:
        legal &= np.isin(nodes, fleet.sizes)
    if fleet.efficiency:
        legal &= nodes <= len(fleet.efficiency)
    plans, nodes = plans[legal], nodes[legal]
    cost = plans @ np.array([pool.usd_per_hour for pool in fleet.pools])
    rate = plans @ np.array([pool.rate for pool in fleet.pools])
    if fleet.efficiency:
        rate = rate * np.array(fleet.efficiency)[nodes - 1]
    if fleet.servers is not None:
        counts = np.arange(1, fleet.servers.most + 1)
        cost = (cost[:, None] + counts * fleet.servers.usd_per_hour).ravel()
        rate = np.minimum(rate[:, None], counts * fleet.servers.rate).ravel()
    values = cost
    match goal:
        case CheapestAt(demand):
            values = cost[rate >= demand * (1 - CLOSE)]
        case LeastTotal(demand):
            values = (cost / rate)[rate >= demand * (1 - CLOSE)]
        case FastestFor(budget):
            values = -rate[cost <= budget * (1 + CLOSE)]
        case FastestWithin(limit):
            values = -rate[cost <= limit * rate * (1 + CLOSE)]
    return abs(float(values.min())) if len(values) else None
