"""
How parameter servers saturate: three times per update, of which the longest rules.

An update of the cluster takes at least 1 / (workers x speed of one worker), at least the work of
the servers divided among them, and at least what no further server shortens (the largest tensor,
the link of one worker). The time per update is the q-norm of the three, so the knee between them
has a width. CM-DARE has the first of the three alone (the sum of speeds); a p-norm of demand and
capacity has the first two; Optimus (Peng et al., EuroSys 2018) is q = 1.
"""

from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ebbtide.core.models.clusters import Clusters, Key
from ebbtide.core.models.table import Floats, Indices

Matrix: TypeAlias = NDArray[np.float64]

REFERENCE: Final = 1e7
"""Bytes of the workload at which the shared times are stated."""
OTHER_SIZE: Final = 1.05
"""Sizes of one workload within this factor are the same."""
PRECISION: Final = 1e-6
"""A fit ends where a step improves it by less than this fraction."""
HARD: Final = 1e6
"""An exponent at which the knee is a corner."""

# What the fit believes before it has seen anything: mean and standard deviation, rough on purpose;
# a factor of two in any of them moves the held-out errors of bench/models by at most 1.3 points.
NOISE: Final = 0.03
"""Repeated readings of one cluster scatter by 1 to 3 %: the width of a residual."""
OWN_CEILING: Final = 0.3
"""A workload's ceiling differs by about a third from what its bytes alone say."""
MORE_SERVERS: Final = 0.1
"""A further server shortens pull and push of a single worker too, by some tenths of its speed."""
EXPONENT: Final = (np.log(4.0), 0.7)
"""A knee between that of exponential service (about 2) and a corner."""
WORK: Final = (np.log(0.02), 3.0)
"""A few hundred MB/s for one server, give or take a factor of twenty."""
POWER: Final = (0.5, 1.0)
"""Server work grows with bytes between not at all (a cost per message) and in proportion."""
SERIAL: Final = (np.log(0.01), 3.0)
"""About one link of 10 Gbit/s, give or take a factor of twenty."""
FREE: Final = 10.0
"""A standard deviation that says nothing: the speed of one worker comes from its samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """The three times, one of each for every row that is asked."""

    worker: Floats
    """Steps per second of one worker alone."""
    work: Floats
    """Seconds of server time per update, divided among the servers."""
    serial: Floats
    """Seconds per update that no further server shortens; 0 where there are none."""
    exponent: Floats

    def speed(self, demand: Floats, servers: Floats) -> Floats:
        """Steps per second of clusters whose workers would reach `demand` by themselves."""
        times = np.stack([1 / demand, self.work / servers, self.serial])
        longest = times.max(axis=0)
        with np.errstate(under="ignore"):
            total = ((times / longest) ** self.exponent).sum(axis=0)
        result: Floats = 1 / (longest * total ** (1 / self.exponent))
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What all workloads have in common: the servers' times by bytes, and the knee."""

    work: float
    """Seconds of server time per update of REFERENCE bytes."""
    power: float
    """Server time grows with bytes to this power."""
    serial: float
    """Seconds per update of REFERENCE bytes that no further server shortens; as bytes."""
    exponent: float

    def at(self, size: Floats) -> tuple[Floats, Floats]:
        """Server work and serial time of updates of `size` bytes, seconds."""
        relative = size / REFERENCE
        return self.work * relative**self.power, self.serial * relative

    def to_json(self) -> dict[str, float]:
        """Return plain JSON."""
        return {
            "work_s": self.work,
            "power": self.power,
            "serial_s": self.serial,
            "exponent": self.exponent,
        }

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        return cls(
            work=float(stored["work_s"]),
            power=float(stored["power"]),
            serial=float(stored["serial_s"]),
            exponent=float(stored["exponent"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One GPU type and workload on one number of servers, with its fitted times."""

    gpu: str
    workload: str
    servers: float
    size: float
    """Bytes of the workload."""
    most: float
    """The largest number of workers among its samples."""
    worker: float
    work: float
    serial: float
    exponent: float


def name_series(
    clusters: Clusters, rows: Indices, *, times: tuple[float, float, float, float]
) -> Series:
    """Name the fitted worker speed, work, serial time and exponent of one series."""
    gpu, workload, servers = clusters.keys()[rows[0]]
    worker, work, serial, exponent = times
    return Series(
        gpu=gpu,
        workload=workload,
        servers=servers,
        size=float(clusters.size[rows[0]]),
        most=float(clusters.workers[rows].max()),
        worker=worker,
        work=work,
        serial=serial,
        exponent=exponent,
    )


# ---------------------------------------------------------------- one fit for all series


@dataclass(frozen=True, slots=True, kw_only=True)
class _Design:
    """
    The logarithms of the three times and of the exponent as linear functions of the unknowns.

    Unknowns, in order: the speed of each (GPU, workload) on its fewest servers; by how much each
    further number of servers speeds one worker up, never below 0; each workload's own ceiling;
    then exponent, work, power, serial.
    """

    pairs: list[tuple[str, str]]
    rises: list[Key]
    workloads: list[str]

    @classmethod
    def of(cls, clusters: Clusters) -> Self:
        """List the unknowns for some samples."""
        keys = sorted(set(clusters.keys()))
        pairs = sorted({(gpu, workload) for gpu, workload, _ in keys})
        fewest = {pair: min(key[2] for key in keys if key[:2] == pair) for pair in pairs}
        return cls(
            pairs=pairs,
            rises=[key for key in keys if key[2] > fewest[key[:2]]],
            workloads=sorted({workload for _, workload in pairs}),
        )

    @property
    def unknowns(self) -> int:
        """How many there are."""
        return len(self.pairs) + len(self.rises) + len(self.workloads) + 4

    def worker(self, key: Key) -> Floats:
        """The row that gives the logarithm of one worker's speed."""
        row = np.zeros(self.unknowns)
        row[self.pairs.index(key[:2])] = 1
        for number, (gpu, workload, servers) in enumerate(self.rises):
            if (gpu, workload) == key[:2] and servers <= key[2]:
                row[len(self.pairs) + number] = 1
        return row

    def ceilings(self, key: Key, size: float) -> tuple[Floats, Floats]:
        """The rows that give the logarithms of work and serial time."""
        relative = np.log(size / REFERENCE)
        work, serial = np.zeros(self.unknowns), np.zeros(self.unknowns)
        own = len(self.pairs) + len(self.rises) + self.workloads.index(key[1])
        work[own] = serial[own] = 1
        work[-3], work[-2] = 1, relative
        serial[-1] = 1
        return work, serial

    def priors(self, clusters: Clusters) -> tuple[Floats, Floats]:
        """Mean and standard deviation of each unknown before the data."""
        alone = [_alone(clusters, pair) for pair in self.pairs]
        rises, owns = len(self.rises), len(self.workloads)
        tail = (EXPONENT, WORK, POWER, SERIAL)
        mean = [*alone, *[0.0] * (rises + owns), *(mean for mean, _ in tail)]
        spread = [
            *[FREE] * len(alone),
            *[MORE_SERVERS] * rises,
            *[OWN_CEILING] * owns,
            *(sd for _, sd in tail),
        ]
        return np.array(mean), np.array(spread)


def _alone(clusters: Clusters, pair: tuple[str, str]) -> float:
    """The logarithm of one worker's speed, from the smallest cluster of a (GPU, workload)."""
    mine = (clusters.gpu == pair[0]) & (clusters.workload == pair[1])
    fewest = mine & (clusters.workers == clusters.workers[mine].min())
    return float(np.log(np.median(clusters.speed[fewest] / clusters.workers[fewest])))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Problem:
    """The residuals of all samples and of all priors, with their derivatives."""

    offsets: Matrix
    """Logarithms of the three times where all unknowns are 0: 3 x samples."""
    slopes: NDArray[np.float64]
    """Their derivatives: 3 x samples x unknowns."""
    measured: Floats
    """Logarithms of the measured speeds."""
    mean: Floats
    spread: Floats

    def residuals(self, unknowns: Floats) -> Floats:
        """By how many standard deviations each sample and each prior is missed."""
        speed, _, _ = self._speed(unknowns)
        missed: Floats = np.concatenate(
            [(speed - self.measured) / NOISE, (unknowns - self.mean) / self.spread]
        )
        return missed

    def derivatives(self, unknowns: Floats) -> Matrix:
        """The Jacobian of `residuals`."""
        speed, times, shares = self._speed(unknowns)
        slope = -np.einsum("tn,tnu->nu", shares, self.slopes)
        # by the logarithm of the exponent: (the longest norm) - (the mean of the times)
        slope[:, -4] = -speed - (shares * times).sum(axis=0)
        return np.concatenate([slope / NOISE, np.diag(1 / self.spread)])

    def _speed(self, unknowns: Floats) -> tuple[Floats, Matrix, Matrix]:
        """Logarithm of the speed, of the three times, and each one's share in it."""
        exponent = np.exp(unknowns[-4])
        times = self.offsets + self.slopes @ unknowns
        longest = times.max(axis=0)
        powers = np.exp(exponent * (times - longest))
        total = powers.sum(axis=0)
        return -(longest + np.log(total) / exponent), times, powers / total


def fit_shared(clusters: Clusters) -> tuple[Shared, list[Series]]:
    """
    Fit all series at once, each workload pulled towards what its bytes say.

    Robust (soft L1), so that one bad reading does not rule; bytes never make it faster, further
    servers never slower.
    """
    from scipy.optimize import least_squares  # noqa: PLC0415 -- loaded only where something is fit

    design = _Design.of(clusters)
    problem = _problem(clusters, design)
    lowest = np.full(design.unknowns, -np.inf)
    first, end = len(design.pairs), len(design.pairs) + len(design.rises)
    lowest[first:end] = 0.0
    lowest[-2] = 0.0
    start = problem.mean.copy()
    start[first:end] = MORE_SERVERS / 10
    found: Floats = least_squares(
        problem.residuals,
        start,
        jac=problem.derivatives,
        bounds=(lowest, np.inf),
        loss="soft_l1",
        ftol=PRECISION,
    ).x
    shared = Shared(
        exponent=float(np.exp(found[-4])),
        work=float(np.exp(found[-3])),
        power=float(found[-2]),
        serial=float(np.exp(found[-1])),
    )
    keys = clusters.keys()
    series = [
        name_series(
            clusters,
            rows,
            times=_times(design, keys[rows[0]], float(clusters.size[rows[0]]), found=found),
        )
        for rows in clusters.series()
    ]
    return shared, series


def _problem(clusters: Clusters, design: _Design) -> _Problem:
    rows = [
        (design.worker(key), *design.ceilings(key, size))
        for key, size in zip(clusters.keys(), clusters.size, strict=True)
    ]
    slopes = np.stack([np.stack([-worker, work, serial]) for worker, work, serial in rows], axis=1)
    serial_by_bytes = np.log(clusters.size / REFERENCE)
    mean, spread = design.priors(clusters)
    return _Problem(
        offsets=np.stack([-np.log(clusters.workers), -np.log(clusters.servers), serial_by_bytes]),
        slopes=slopes,
        measured=np.log(clusters.speed),
        mean=mean,
        spread=spread,
    )


def _times(
    design: _Design, key: Key, size: float, *, found: Floats
) -> tuple[float, float, float, float]:
    """Worker speed, work, serial time and exponent of one series."""
    work, serial = design.ceilings(key, size)
    return (
        float(np.exp(design.worker(key) @ found)),
        float(np.exp(work @ found)),
        float(np.exp(serial @ found) * size / REFERENCE),
        float(np.exp(found[-4])),
    )
