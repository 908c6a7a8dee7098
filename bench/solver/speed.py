"""
How many times faster than the best of the peers: same questions, one after the other.

Counted is the processor time of this process and of those it starts: others use the machine too.
"""

import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from ebbtide.core.planner.solver.answer import Answer
from ebbtide.core.planner.solver.question import CheapestAt, Question
from ebbtide.core.planner.solver.solving import solve
from rows import Row
from solver.agreement import compare
from solver.families import draw
from solver.program import PEERS

CASES: Final = (
    "servers cost",
    "servers cost free",
    "servers cost legal",
    "servers rate",
    "servers cost floor",
    "all-reduce cost",
)
FAMILIES: Final = ("cloud", "uniform", "shapes", "near-proportional")
CAPS: Final = {64: 32, 500: 64}
QUESTIONS: Final = 9
TIMES: Final = 3
"""Each is asked so often, and the least time counts."""

ONCE_S: Final = 0.02
"""What takes longer is asked once only, whoever it is."""
PEER_LIMIT_S: Final = 1.0
"""A peer that is stopped counts with this: the factor is then too low, never too high."""


def cpu_time() -> float:
    """Return the processor time so far, that of children that have ended included."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def rows(family: str) -> list[Row]:
    """Time every case of a family; differing answers are a row of their own."""
    found: list[Row] = []
    differing = 0
    for num in CAPS:
        for kind in CASES:
            print(f" {num} {kind},", end="", flush=True, file=sys.stderr)
            times, wrong = _time(family, num, kind)
            differing += wrong
            found += _rows_of(f"{family}, {num} pools, {kind}", times, _bar(family, num, kind))
    found.append(Row(f"{family}: answers that differ while timed", differing, "", "lower", 0))
    return found


def _bar(family: str, num: int, kind: str) -> float:
    if num == max(CAPS):
        return 10.0 if family != "near-proportional" else 3.0
    return 10.0 if "all-reduce" in kind or "legal" in kind else 3.0


def _time(family: str, num: int, kind: str) -> tuple[dict[str, float], int]:
    times: dict[str, list[float]] = {name: [] for name in ("ours", *PEERS)}
    wrong = 0
    for seed in range(QUESTIONS):
        rng = np.random.default_rng((seed, num, len(family), CASES.index(kind)))
        question = draw(rng, family=family, kind=kind, num=num, cap=CAPS[num])
        least = dict.fromkeys(times, np.inf)
        outcome = solve(question)
        for turn in range(TIMES):
            for name in times:
                if turn and least[name] > ONCE_S:
                    continue
                begun = cpu_time()
                if name == "ours":
                    solve(question)
                else:
                    reply = PEERS[name](question, limit_s=PEER_LIMIT_S)
                    if name == "scipy.milp":
                        wrong += compare(question, outcome, reply) == "differs"
                least[name] = min(least[name], cpu_time() - begun)
        for name, value in least.items():
            times[name].append(value)
    return {name: float(np.median(values)) for name, values in times.items()}, wrong


def _rows_of(name: str, times: dict[str, float], bar: float) -> list[Row]:
    ours = times["ours"]
    factors = {peer: times[peer] / ours for peer in PEERS}
    millis = {peer: times[peer] * 1e3 for peer in PEERS}
    return [
        Row(f"{name}: times faster", min(factors.values()), "x", "higher", bar, factors),
        Row(f"{name}: median", ours * 1e3, "ms", "lower", None, millis),
    ]


def warm_rows() -> list[Row]:
    """Time answers after one price or one limit has changed."""
    found = []
    for num, cap in CAPS.items():
        cold, warm = [], []
        for seed in range(QUESTIONS):
            rng = np.random.default_rng((seed, num))
            before = draw(rng, family="cloud", kind="servers cost", num=num, cap=cap)
            answer = solve(before)
            if not isinstance(answer, Answer) or not isinstance(before.goal, CheapestAt):
                continue
            after = Question(before.fleet, CheapestAt(before.goal.rate * 0.97))
            cold.append(_least_time(partial(solve, after)))
            warm.append(_least_time(partial(solve, after, before=(before, answer))))
        ratios = [ours / theirs for ours, theirs in zip(warm, cold, strict=True)]
        name = f"cloud, {num} pools, after 3 % less rate"
        peers = {"cold": float(np.median(cold)) * 1e3}
        found += [
            Row(f"{name}: warm over cold", float(np.median(ratios)), "x", "lower"),
            Row(f"{name}: warm", float(np.median(warm)) * 1e3, "ms", "lower", None, peers),
        ]
    return found


def _least_time(ask: Callable[[], object]) -> float:
    times = []
    for _ in range(TIMES):
        begun = cpu_time()
        ask()
        times.append(cpu_time() - begun)
    return min(times)
