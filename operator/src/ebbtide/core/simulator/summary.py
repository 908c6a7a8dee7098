"""What many jobs under one policy came to, beside what they could have cost."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ebbtide.core.planner.policies.history import HOUR_S
from ebbtide.core.planner.policies.moment import Terms
from ebbtide.core.simulator.replay import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job that is replayed under each policy."""

    terms: Terms
    start: int
    """The row before which it comes."""
    least_usd: float
    """What it costs whoever knows the future."""

    @property
    def on_demand_usd(self) -> float:
        """What it costs on on-demand alone."""
        terms = self.terms
        return (terms.work_s + terms.changeover_s) * terms.on_demand_usd_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Figures over jobs; hours and switches are means."""

    jobs: int
    mean_cost_usd: float
    points_above_omniscient: float
    """Mean of (cost - least) / cost on on-demand, in percent."""
    p95_ratio: float
    """95th percentile of cost / least."""
    misses: int
    switches: float
    spot_hours: float
    on_demand_hours: float


def points(job: Job, outcome: Outcome) -> float:
    """Return what a job cost above the least, in percent of its cost on on-demand."""
    return 100 * (outcome.cost_usd - job.least_usd) / job.on_demand_usd


def summarise(jobs: Sequence[Job], outcomes: Sequence[Outcome]) -> Summary:
    """Return the figures of jobs and what came of each."""
    if not jobs:
        raise ValueError("jobs: at least one is needed")
    pairs = list(zip(jobs, outcomes, strict=True))
    ratios = [outcome.cost_usd / job.least_usd for job, outcome in pairs]
    return Summary(
        jobs=len(jobs),
        mean_cost_usd=_mean([outcome.cost_usd for outcome in outcomes]),
        points_above_omniscient=_mean([points(job, outcome) for job, outcome in pairs]),
        p95_ratio=float(np.percentile(ratios, 95)),
        misses=sum(outcome.is_late for outcome in outcomes),
        switches=_mean([float(outcome.switches) for outcome in outcomes]),
        spot_hours=_mean([outcome.spot_s / HOUR_S for outcome in outcomes]),
        on_demand_hours=_mean([outcome.on_demand_s / HOUR_S for outcome in outcomes]),
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
