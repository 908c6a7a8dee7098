"""A question as a plain mixed-integer program: what the peers are given, and how each is run."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pulp
from numpy.typing import NDArray
from ortools.sat.python import cp_model
from scipy.optimize import Bounds, LinearConstraint, milp

from ebbtide.core.planner.solver.question import (
    CheapestAt,
    FastestFor,
    FastestWithin,
    LeastTotal,
    Question,
)

Floats = NDArray[np.float64]

SCALE: Final = 1e7
"""CP-SAT knows whole numbers only."""
LIMIT_S: Final = 8.0
"""What a peer may take where it is the judge."""


@dataclass(frozen=True, slots=True)
class Program:
    """Least `cost` x with low <= rows x <= high; whole x but for the last, which is the rate."""

    cost: Floats
    rows: Floats
    low: Floats
    high: Floats
    upper: Floats
    num_pools: int

    @property
    def num_whole(self) -> int:
        """All but the rate."""
        return len(self.cost) - 1


def build(question: Question, *, ratio: float = 0.0) -> Program:
    """
    Return the program of a question; columns are pools, servers, one for each listed size, rate.

    Least totals are no linear program: with their ratio given, its least is cost - ratio rate,
    which is 0 for the best plan.
    """
    return _Builder(question).build(ratio)


class _Builder:
    """Rows and columns of one question."""

    def __init__(self, question: Question) -> None:
        self.question = question
        fleet = question.fleet
        self.usd = np.array([pool.usd_per_hour for pool in fleet.pools])
        self.rates = np.array([pool.rate for pool in fleet.pools])
        self.most = np.array([float(pool.most) for pool in fleet.pools])
        known = len(fleet.efficiency) or math.inf
        listed = fleet.sizes or range(1, len(fleet.efficiency) + 1)
        self.sizes = [float(size) for size in listed if size <= known]
        self.server = len(fleet.pools)
        self.rate = self.server + 1 + len(self.sizes)
        self.nodes = slice(0, self.server)
        self.listed = slice(self.server + 1, self.rate)
        self.rows: list[tuple[Floats, float, float]] = []

    def build(self, ratio: float) -> Program:
        fleet = self.question.fleet
        self._add_sizes()
        if fleet.on_demand_floor:
            market = np.array([float(pool.is_on_demand) for pool in fleet.pools])
            self._row(fleet.on_demand_floor, math.inf, (self.nodes, market))
        if fleet.servers:
            self._row(0, math.inf, (self.server, fleet.servers.rate), (self.rate, -1.0))
        cost, least = self._goal(ratio)
        if fleet.efficiency and isinstance(self.question.goal, CheapestAt):
            # At a fixed rate each size has its own demand, and no big number is needed.
            chosen = np.array(fleet.efficiency)[np.array(self.sizes, dtype=int) - 1]
            self._row(0, math.inf, (self.nodes, self.rates), (self.listed, -least / chosen))
        else:
            self._row(0, math.inf, (self.nodes, self.rates), (self.rate, -1.0))
        top = float(self.rates @ self.most)
        self._row(least, top, (self.rate, 1.0))
        servers = float(fleet.servers.most if fleet.servers else 0)
        upper = np.concatenate([self.most, [servers], np.ones(len(self.sizes)), [top]])
        table, low, high = zip(*self.rows, strict=True)
        return Program(cost, np.array(table), np.array(low), np.array(high), upper, self.server)

    def _row(self, low: float, high: float, *parts: tuple[int | slice, Any]) -> None:
        values = np.zeros(self.rate + 1)
        for place, value in parts:
            values[place] = value
        self.rows.append((values, low, high))

    def _add_sizes(self) -> None:
        fleet = self.question.fleet
        self._row(1, float(fleet.most_nodes or self.most.sum()), (self.nodes, 1.0))
        if fleet.sizes or fleet.efficiency:
            self._row(0, 0, (self.nodes, 1.0), (self.listed, -np.array(self.sizes)))
            self._row(1, 1, (self.listed, 1.0))

    def _goal(self, ratio: float) -> tuple[Floats, float]:
        """Return what is to be least, and the least rate; add the row of a budget."""
        servers = self.question.fleet.servers
        usd_server = servers.usd_per_hour if servers else 0.0
        money = np.zeros(self.rate + 1)
        money[self.nodes], money[self.server] = self.usd, usd_server
        rate = np.zeros(self.rate + 1)
        rate[self.rate] = 1.0
        match self.question.goal:
            case CheapestAt(demand):
                return money, demand
            case LeastTotal(demand):
                return money - ratio * rate, demand
            case FastestFor(budget):
                self.rows.append((money, -math.inf, budget))
            case FastestWithin(limit):
                self.rows.append((money - limit * rate, -math.inf, 0.0))
        return -rate, 0.0


@dataclass(frozen=True, slots=True)
class Reply:
    """What a peer found: nodes of each pool and servers, None without; and how long it took."""

    plan: Floats | None
    proven: bool
    seconds: float


def ask_highs(question: Question, *, limit_s: float = LIMIT_S, **more: float) -> Reply:
    """Ask scipy.milp, with its gap closed."""
    begun = time.perf_counter()
    program = build(question, **more)
    whole = np.ones(len(program.cost))
    whole[-1] = 0
    found = milp(
        program.cost,
        constraints=LinearConstraint(program.rows, program.low, program.high),
        bounds=Bounds(0, program.upper),
        integrality=whole,
        options={"mip_rel_gap": 0.0, "time_limit": limit_s},
    )
    plan = None if found.x is None else np.rint(found.x[: program.num_pools + 1])
    return Reply(plan, found.status in {0, 2}, time.perf_counter() - begun)


def ask_cp_sat(
    question: Question, *, workers: int, limit_s: float = LIMIT_S, **more: float
) -> Reply:
    """Ask CP-SAT with all numbers scaled to whole ones."""
    begun = time.perf_counter()
    program = build(question, **more)
    model = cp_model.CpModel()
    last = program.num_whole
    # The rate is a whole number of parts.
    unit = np.ones(len(program.cost))
    unit[last] = 1 / SCALE
    columns = [
        model.new_int_var(0, math.floor(upper / scale), f"x{place}")
        for place, (upper, scale) in enumerate(zip(program.upper, unit, strict=True))
    ]
    for values, low, high in zip(program.rows, program.low, program.high, strict=True):
        scaled = np.rint(values * unit * SCALE).astype(int)
        total = cp_model.LinearExpr.weighted_sum(
            [columns[place] for place in np.flatnonzero(scaled)], scaled[scaled != 0].tolist()
        )
        bottom = math.ceil(low * SCALE - 0.5) if math.isfinite(low) else cp_model.INT32_MIN * 2**30
        top = math.floor(high * SCALE + 0.5) if math.isfinite(high) else cp_model.INT32_MAX * 2**30
        model.add_linear_constraint(total, bottom, top)
    scaled = np.rint(program.cost * unit * SCALE).astype(int)
    model.minimize(
        cp_model.LinearExpr.weighted_sum(
            [columns[place] for place in np.flatnonzero(scaled)], scaled[scaled != 0].tolist()
        )
    )
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = workers
    solver.parameters.max_time_in_seconds = limit_s
    status = solver.solve(model)
    plan = None
    if status in {cp_model.OPTIMAL, cp_model.FEASIBLE}:
        plan = np.array([float(solver.value(x)) for x in columns[: program.num_pools + 1]])
    proven = status in {cp_model.OPTIMAL, cp_model.INFEASIBLE}
    return Reply(plan, proven, time.perf_counter() - begun)


def ask_cbc(question: Question, *, limit_s: float = LIMIT_S, **more: float) -> Reply:
    """Ask CBC through PuLP."""
    begun = time.perf_counter()
    program = build(question, **more)
    problem = pulp.LpProblem("pools", pulp.LpMinimize)
    last = program.num_whole
    columns = [
        pulp.LpVariable(
            f"x{place}", 0, upper, pulp.LpContinuous if place == last else pulp.LpInteger
        )
        for place, upper in enumerate(program.upper)
    ]
    problem += pulp.lpSum(c * x for c, x in zip(program.cost, columns, strict=True) if c)
    for values, low, high in zip(program.rows, program.low, program.high, strict=True):
        total = pulp.lpSum(v * x for v, x in zip(values, columns, strict=True) if v)
        if math.isfinite(low):
            problem += total >= low
        if math.isfinite(high):
            problem += total <= high
    problem.solve(pulp.PULP_CBC_CMD(msg=False, gapRel=0.0, gapAbs=0.0, timeLimit=limit_s))
    plan = None
    if problem.sol_status in {pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible}:
        plan = np.rint([float(x.value() or 0) for x in columns[: program.num_pools + 1]])
    proven = problem.status in {pulp.LpStatusOptimal, pulp.LpStatusInfeasible}
    return Reply(plan, proven, time.perf_counter() - begun)


PEERS: Final[dict[str, Callable[..., Reply]]] = {
    "scipy.milp": ask_highs,
    "CP-SAT, 1 worker": lambda question, **more: ask_cp_sat(question, workers=1, **more),
    "CP-SAT, 2 workers": lambda question, **more: ask_cp_sat(question, workers=2, **more),
    "PuLP with CBC": ask_cbc,
}
