"""
The other ways to fit clusters with parameter servers: each series, or each workload, by itself.

They are what the shared fit of `saturation` is measured against, in the same terms.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from ebbtide.core.models.clusters import Clusters
from ebbtide.core.models.saturation import HARD, PRECISION, Ceilings, Series, name_series
from ebbtide.core.models.table import Floats

One: TypeAlias = Callable[[Floats, Floats, float], tuple[float, float, float]]
"""Workers, speeds and servers of one series: worker's speed, work, exponent."""


def fit_each(clusters: Clusters, fit_one: One) -> list[Series]:
    """Fit each series from its own samples alone."""
    series = []
    for rows in clusters.series():
        servers = float(clusters.servers[rows[0]])
        worker, work, exponent = fit_one(clusters.workers[rows], clusters.speed[rows], servers)
        series.append(name_series(clusters, rows, times=(worker, work, 0.0, exponent)))
    return series


def add_speeds(workers: Floats, speed: Floats, servers: float) -> tuple[float, float, float]:  # noqa: ARG001 -- one of several that share a signature
    """CM-DARE: the sum of single speeds, and no limit."""
    fewest = workers == workers.min()
    return float(np.median(speed[fewest] / workers[fewest])), 0.0, HARD


def cut_off(workers: Floats, speed: Floats, servers: float) -> tuple[float, float, float]:
    """The sum of single speeds up to the fastest that was seen."""
    worker, _, _ = add_speeds(workers, speed, servers)
    return worker, servers / float(speed.max()), HARD


def bend(workers: Floats, speed: Floats, servers: float) -> tuple[float, float, float]:
    """A p-norm of demand and one capacity, by relative least squares."""
    from scipy.optimize import least_squares  # noqa: PLC0415 -- loaded only where something is fit

    ones, none = np.ones(len(workers)), np.zeros(len(workers))

    def residuals(unknowns: Floats) -> Floats:
        worker, work, exponent = np.exp(unknowns)
        ceilings = Ceilings(
            worker=worker * ones, work=work * ones, serial=none, exponent=exponent * ones
        )
        missed: Floats = ceilings.speed(worker * workers, servers * ones) / speed - 1
        return missed

    worker, work, exponent = cut_off(workers, speed, servers)
    start = np.log([worker, work / 1.1, 4.0])
    low, high = start - np.log(100), start + np.log(100)
    found = np.exp(least_squares(residuals, start, bounds=(low, high), ftol=PRECISION).x)
    worker, work, exponent = (float(value) for value in found)
    return worker, work, exponent


def fit_optimus(clusters: Clusters) -> list[Series]:
    """
    Optimus's speed = w / (a1 + a2 w/p + a3 w + a4 p) for w workers of a fixed batch, p servers.

    Peng et al., EuroSys 2018, for asynchronous training: linear in the a, which are not negative;
    one fit for each GPU type and workload. In our terms the exponent is 1.
    """
    from scipy.optimize import nnls  # noqa: PLC0415 -- loaded only where something is fit

    pairs = np.array([f"{gpu}\0{workload}" for gpu, workload, _ in clusters.keys()], dtype=object)  # noqa: SIM118 -- no mapping
    found: dict[tuple[str, str], Floats] = {}
    for pair in sorted(set(pairs.tolist())):
        mine = clusters.take(np.flatnonzero(pairs == pair))
        ones = np.ones(len(mine.workers))
        terms = [ones, mine.workers / mine.servers, mine.workers, mine.servers]
        # relative residuals: each row divided by what was measured
        measured = mine.workers / mine.speed
        gpu, workload, _ = mine.keys()[0]
        found[gpu, workload], _ = nnls(np.stack(terms, axis=1) / measured[:, None], ones)
    series = []
    for rows in clusters.series():
        gpu, workload, servers = clusters.keys()[rows[0]]
        base, work, serial, each = found[gpu, workload]
        worker = 1 / max(float(base + each * servers), 1e-9)
        series.append(name_series(clusters, rows, times=(worker, float(work), float(serial), 1.0)))
    return series
