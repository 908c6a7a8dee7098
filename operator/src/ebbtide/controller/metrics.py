"""
What Prometheus is told about the operator and about every job.

Labels are `namespace` and `trainingjob`, never a pod or a UID; the series of a deleted job go with
it. Totals of a job are what its status says: they survive a restart of the operator.
"""

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

import ebbtide
from ebbtide.core.values.job import JobKey
from ebbtide.core.values.status import JobStatus

_BUCKETS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_LABELS: Final = ("namespace", "trainingjob")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTotals:
    """A job's own numbers."""

    steps: int
    steps_lost: int
    revocations: int
    failures: int
    cost_usd: float


# name after ebbtide_job_, help, field of JobTotals
_JOB_SERIES: Final = (
    ("steps", "Steps of the global batch that count.", "steps"),
    ("steps_lost", "Steps that were done again after a loss.", "steps_lost"),
    ("revocations", "Workers taken by the provider.", "revocations"),
    ("failures", "Failures that count against backoffLimit.", "failures"),
    ("cost_usd", "What the job's nodes have cost so far, in USD.", "cost_usd"),
)


class Metrics:
    """All series, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.passes = Histogram(
            "ebbtide_reconcile_duration_seconds",
            "Time of one pass over one job.",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.errors = Counter(
            "ebbtide_reconcile_errors",
            "Passes that failed, by kind of error.",
            ["kind"],
            registry=self.registry,
        )
        self.queue_depth = Gauge(
            "ebbtide_queue_depth", "Jobs that wait for a pass now.", registry=self.registry
        )
        self.watch_age = Gauge(
            "ebbtide_watch_age_seconds",
            "Time since the API server last said anything on the oldest watch.",
            registry=self.registry,
        )
        self.leader = Gauge(
            "ebbtide_leader", "1 while this replica holds the lease.", registry=self.registry
        )
        build = Gauge(
            "ebbtide_build_info",
            "Always 1; the version is in the labels.",
            ["version", "python"],
            registry=self.registry,
        )
        build.labels(ebbtide.__version__, platform.python_version()).set(1)
        self._jobs = _JobCollector()
        self.registry.register(self._jobs)

    def saw(self, key: JobKey, status: JobStatus) -> None:
        """Take what a job's status says now."""
        self._jobs.totals[key] = JobTotals(
            steps=status.progress.step,
            steps_lost=status.counters.steps_lost,
            revocations=status.counters.revocations,
            failures=status.counters.failures,
            cost_usd=float(status.cost.spent_usd),
        )

    def forget(self, key: JobKey) -> None:
        """Drop the series of a job that is gone."""
        self._jobs.totals.pop(key, None)


class _JobCollector(Collector):
    """Jobs' series are made when they are asked for."""

    def __init__(self) -> None:
        self.totals: dict[JobKey, JobTotals] = {}

    def describe(self) -> Iterator[Metric]:
        """Name the series without making them."""
        yield GaugeMetricFamily("ebbtide_job", "Series of jobs.")

    @override
    def collect(self) -> Iterator[Metric]:
        """Give every job's numbers as they are now."""
        for name, text, attribute in _JOB_SERIES:
            family = CounterMetricFamily(f"ebbtide_job_{name}", text, labels=_LABELS)
            for key, totals in self.totals.items():
                family.add_metric((key.namespace, key.name), getattr(totals, attribute))
            yield family
