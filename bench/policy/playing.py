"""Replays the jobs of one case under each policy."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ebbtide.core.planner.policies.moment import Terms
from ebbtide.core.simulator import fleet, omniscient
from ebbtide.core.simulator.summary import Job, points
from policy.cases import Case, jobs_of, read

POLICIES: Final = (
    "greedy",
    "uniform-progress",
    "time-sliced",
    "on-demand",
    "spot-only",
    fleet.OURS,
)
CHEAP: Final = ("greedy", "uniform-progress", "time-sliced")
DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One policy on one case, job by job; and what it took to replay."""

    points: tuple[float, ...]
    ratios: tuple[float, ...]
    misses: int
    simulated_days: float
    cpu_s: float


def play(case: Case) -> tuple[Case, Mapping[str, Found]]:
    """Return what came of each policy."""
    history, pool = read(case.zones)
    real_s = case.changeover_h * 3600 * (2 if case.part == "doubled" else 1)
    jobs = []
    for terms, start in jobs_of(case, history):
        # Nobody can beat the changeover that there really is.
        real = _with_changeover(terms, real_s)
        least = omniscient.least_cost(history.up, real, start=start)
        jobs.append(Job(terms=terms, start=start, least_usd=least))
    world = fleet.World(pool=pool, changeover_s=real_s)
    found = {}
    for name in POLICIES if case.part != "doubled" else (fleet.OURS,):
        begun = time.process_time()
        arrivals = [(job.terms, job.start) for job in jobs]
        outcomes = fleet.run(name, arrivals, history, world)
        pairs = list(zip(jobs, outcomes, strict=True))
        found[name] = Found(
            points=tuple(points(job, outcome) for job, outcome in pairs),
            ratios=tuple(outcome.cost_usd / job.least_usd for job, outcome in pairs),
            misses=sum(outcome.is_late for outcome in outcomes),
            simulated_days=sum(outcome.finish_s for outcome in outcomes) / DAY_S,
            cpu_s=time.process_time() - begun,
        )
    return case, found


def _with_changeover(terms: Terms, changeover_s: float) -> Terms:
    return Terms(
        work_s=terms.work_s,
        deadline_s=terms.deadline_s,
        changeover_s=changeover_s,
        worst_changeover_s=max(changeover_s, terms.worst_changeover_s),
        spot_usd_per_s=terms.spot_usd_per_s,
        on_demand_usd_per_s=terms.on_demand_usd_per_s,
        tick_s=terms.tick_s,
    )
