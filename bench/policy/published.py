"""
Whether our Uniform Progress and greedy are the real ones: the table that their authors published.

"Can't Be Late" (NSDI 2024), table 3: jobs of 48 h with 60 h of time and changeovers of 0.2 h over
the eight pings; mean hours of work on on-demand. Their starts are not known, hence the tolerance.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np

from ebbtide.core.planner.policies.history import HOUR_S
from ebbtide.core.planner.policies.moment import Terms
from ebbtide.core.simulator import fleet, omniscient
from policy.cases import ON_DEMAND_USD_H, SPOT_USD_H, pings
from rows import Row

GREEDY: Final = "greedy"
UNIFORM: Final = "uniform-progress"
PUBLISHED_H: Final = {GREEDY: 30.8, UNIFORM: 25.1}
TOLERANCE_H: Final = {GREEDY: 1.0, UNIFORM: 1.5}
NUM_STARTS: Final = 300
"""Over each trace, as in the paper."""
SEED: Final = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Hours:
    """Of each job over one trace: hours of work on on-demand, and how many were late."""

    by_policy: dict[str, tuple[float, ...]]
    least: tuple[float, ...]
    misses: int


def published_rows(share: float, *, num_processes: int, is_full: bool) -> list[Row]:
    """Return how far off the published means ours are; `share` of the jobs."""
    number = max(1, round(NUM_STARTS * share))
    traces = range(len(pings()))
    with ProcessPoolExecutor(num_processes) as processes:
        found = list(processes.map(play_trace, traces, [number] * len(traces)))
    return rows_of(found, is_full=is_full)


def play_trace(trace: int, number: int) -> Hours:
    """Replay jobs over one of the pings."""
    history = pings()[trace]
    terms = Terms(
        work_s=48 * HOUR_S,
        deadline_s=60 * HOUR_S,
        changeover_s=0.2 * HOUR_S,
        worst_changeover_s=0.2 * HOUR_S,
        spot_usd_per_s=SPOT_USD_H / HOUR_S,
        on_demand_usd_per_s=ON_DEMAND_USD_H / HOUR_S,
        tick_s=history.tick_s,
    )
    chance = np.random.default_rng((SEED, trace))
    last = len(history) - round(terms.deadline_s / history.tick_s)
    starts = chance.integers(0, last + 1, number).tolist()
    outcomes = {
        name: fleet.run(name, [(terms, start) for start in starts], history) for name in PUBLISHED_H
    }
    return Hours(
        by_policy={
            name: tuple(job.on_demand_work_s / HOUR_S for job in jobs)
            for name, jobs in outcomes.items()
        },
        least=tuple(
            omniscient.least_on_demand_s(history.up, terms, start=start) / HOUR_S
            for start in starts
        ),
        misses=sum(job.is_late for jobs in outcomes.values() for job in jobs),
    )


def rows_of(found: Sequence[Hours], *, is_full: bool) -> list[Row]:
    """Return rows; only all jobs are judged by the means of the paper."""
    means = {name: _mean(hours.by_policy[name] for hours in found) for name in PUBLISHED_H}
    least = _mean(hours.least for hours in found)
    jobs = sum(len(hours.least) for hours in found)
    rows = [
        Row(
            f"published table, {jobs} jobs: {name}, hours off the published {paper}",
            abs(means[name] - paper),
            "h",
            "lower",
            TOLERANCE_H[name] if is_full else None,
            {"ours": means[name], "published": paper},
        )
        for name, paper in PUBLISHED_H.items()
    ]
    least_row = Row(
        "published table: hours on-demand, omniscient below Uniform Progress",
        least,
        "h",
        "lower",
        means[UNIFORM],
        {"uniform-progress": means[UNIFORM], "greedy": means[GREEDY]},
    )
    order_row = Row(
        "published table: hours on-demand, Uniform Progress below greedy",
        means[UNIFORM],
        "h",
        "lower",
        means[GREEDY] if is_full else None,
    )
    missed = sum(hours.misses for hours in found)
    miss_row = Row(
        f"published table: deadlines missed in {2 * jobs} jobs", missed, "jobs", "lower", 0
    )
    return [*rows, least_row, order_row, miss_row]


def _mean(parts: Iterable[Sequence[float]]) -> float:
    return float(np.mean([value for part in parts for value in part]))
