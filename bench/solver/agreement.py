"""Whether every answer is the best: against HiGHS on many questions, all plans on small ones."""

import sys
import time
from typing import Final, Literal

import numpy as np

from ebbtide.core.planner.solver.answer import Answer, Outcome
from ebbtide.core.planner.solver.checking import find_breaches, measure
from ebbtide.core.planner.solver.question import (
    CheapestAt,
    Fleet,
    LeastTotal,
    PoolOffer,
    Question,
)
from ebbtide.core.planner.solver.solving import solve
from rows import Row
from solver.families import FAMILIES, KINDS, draw
from solver.program import Reply, ask_highs

QUESTIONS: Final = 10_000
SHOWN_EACH: Final = 1_000
SMALL: Final = 1_000
SAME: Final = 1e-6
PROPORTIONAL_SHARE: Final = 0.01
LINEAR: Final = tuple(
    kind for kind in KINDS if not kind.startswith("all-reduce") or kind.split()[1] == "cost"
)
"""The rate of all-reduces at a free size is no linear program: those are left to all plans."""

Verdict = Literal["same", "differs", "unproven", "peer unsure", "peer breaks a limit"]


def fuzzed_rows() -> list[Row]:
    """Ask questions of every family and kind of HiGHS too."""
    return _against_highs(QUESTIONS)


def draw_any(rng: np.random.Generator, *, most_pools: int = 24, cap: int = 20) -> Question:
    """Return a question of any family and linear kind; few of the family that is a hard sum."""
    family = "proportional"
    if rng.random() >= PROPORTIONAL_SHARE:
        family = [name for name in FAMILIES if name != family][int(rng.integers(5))]
    kind = LINEAR[int(rng.integers(len(LINEAR)))]
    num = int(rng.integers(2, most_pools + 1))
    return draw(rng, family=family, kind=kind, num=num, cap=int(rng.integers(1, cap + 1)))


def ask_both(question: Question) -> tuple[Outcome, Reply]:
    """Return our answer and that of HiGHS, which for a ratio is asked to beat ours."""
    outcome = solve(question)
    if isinstance(question.goal, LeastTotal) and isinstance(outcome, Answer):
        return outcome, ask_highs(question, ratio=outcome.cost_over_rate)
    return outcome, ask_highs(question)


def compare(question: Question, outcome: Outcome, reply: Reply) -> Verdict:
    """Tell whether a reply says that our answer is not the best."""
    if not reply.proven:
        return "peer unsure"
    if reply.plan is None:
        return "differs" if isinstance(outcome, Answer) else "same"
    nodes, servers = reply.plan[:-1].astype(int).tolist(), int(reply.plan[-1])
    counts = {
        pool.name: count for pool, count in zip(question.fleet.pools, nodes, strict=True) if count
    }
    cost, rate = measure(question.fleet, counts, servers)
    if find_breaches(question, counts, servers):
        return "peer breaks a limit"
    if not isinstance(outcome, Answer):
        return "differs"
    match question.goal:
        case CheapestAt():
            theirs, ours = cost, outcome.cost
        case LeastTotal():
            theirs, ours = cost / rate, outcome.cost_over_rate
        case _:
            theirs, ours = -rate, -outcome.rate
    if theirs < ours - SAME * abs(ours):
        return "differs" if outcome.proven else "unproven"
    return "same" if outcome.proven else "unproven"


def _against_highs(num: int) -> list[Row]:
    counts = dict.fromkeys(("same", "differs", "unproven", "peer unsure", "peer breaks a limit"), 0)
    rng = np.random.default_rng(2026)
    for asked in range(num):
        if asked % SHOWN_EACH == 0:
            print(f" {asked}", end="", flush=True, file=sys.stderr)
        question = draw_any(rng)
        counts[compare(question, *ask_both(question))] += 1
    return [
        Row("fuzzed questions asked of HiGHS too", num, "", "higher", QUESTIONS),
        Row("... answers that differ by more than 1e-6", counts["differs"], "", "lower", 0),
        Row("... ours unproven in the time it may take", counts["unproven"], "", "lower"),
        Row("... HiGHS's plan breaks a limit", counts["peer breaks a limit"], "", "lower"),
        Row("... HiGHS unsure in the time it may take", counts["peer unsure"], "", "lower"),
    ]


# ------------------------------------------------------------------------- all plans


def seven_rows() -> list[Row]:
    """Ask of 7 types with quotas of 3, where all 16,384 plans can be looked at, and of 10."""
    rng = np.random.default_rng(7)
    differing = 0
    plans = np.array(np.meshgrid(*[range(4)] * 7)).reshape(7, -1).T[1:].astype(float)
    for _ in range(SMALL):
        question = draw_seven(rng, most=3)
        fleet, goal = question.fleet, question.goal
        cost = plans @ np.array([pool.usd_per_hour for pool in fleet.pools])
        rate = plans @ np.array([pool.rate for pool in fleet.pools])
        demand = goal.rate if isinstance(goal, LeastTotal) else 0.0
        best = float((cost / rate)[rate >= demand].min())
        outcome = solve(question)
        same = isinstance(outcome, Answer) and abs(outcome.cost_over_rate / best - 1) <= SAME
        differing += not same
    times = []
    for _ in range(20):
        question = draw_seven(rng, most=10)
        begun = time.perf_counter()
        solve(question)
        times.append(time.perf_counter() - begun)
    published = {"published exhaustive search": 1_503.7}
    slowest = max(times)
    return [
        Row("7 types x 3: answers unlike all 16,384 plans", differing, "", "lower", 0),
        Row("7 types x 10: slowest of 20", slowest, "s", "lower", 1.0, published, of_machine=True),
    ]


def draw_seven(rng: np.random.Generator, *, most: int) -> Question:
    """Return a question of the least money under a deadline, for seven types of node."""
    pools = tuple(
        PoolOffer(f"t{place}", float(rng.uniform(0.3, 5)), float(rng.uniform(0.5, 8)), most)
        for place in range(7)
    )
    whole = sum(pool.rate * most for pool in pools)
    return Question(Fleet(pools=pools), LeastTotal(float(rng.uniform(0.1, 0.8)) * whole))
