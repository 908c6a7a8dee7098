"""
Speeds of clusters with parameter servers: CM-DARE (ICDCS 2020) and its predecessor of ICAC 2019.

`read` takes the table of mean speeds by GPU type, servers, model and workers. `read_runs` takes
the times of whole runs of ResNet-32 over 64,000 steps, `read_mixed` those of them whose workers
had several GPU types. In both sources one worker is one GPU, hence one rank.
"""

import csv
import io
import re
from dataclasses import dataclass
from typing import Final

from ebbtide.core.models.table import DataError, Table, read_rows

PARAMETERS: Final = {
    "res15": 693_818,
    "res32": 1_857_722,
    "shakesmall": 2_926_986,
    "shakebig": 26_204_362,
}
"""Parameters of each model, from CM-DARE's table of twenty; gradients are 4 bytes for each."""
BYTES_EACH: Final = 4
RUN_STEPS: Final = 64_000

GPUS: Final = {"k": "K80", "p": "P100", "v": "V100"}
SINGLES: Final = {
    "k80_on_demand/k80-demand": ("K80", 1),
    "k80_on_demand/2-demand": ("K80", 2),
    "k80_on_demand/4-demand": ("K80", 4),
    "k80_on_demand/8-demand": ("K80", 8),
    "p100_v100_spot/p100": ("P100", 1),
    "p100_v100_spot/v100": ("V100", 1),
    "p100_v100_spot/4p100": ("P100", 4),
    "p100_v100_spot/4v100": ("V100", 4),
}
"""Runs with one server whose names do not say so. Spot clusters of K80 are left out: revocations
stretch their times."""
SERVERS: Final = re.compile(r"experiment_1ps_vs_2ps/(\d)ps(\d)([kpv])")
MIXED: Final = re.compile(r"experiment_mixed_gpu/((?:\d[kpv])+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedRuns:
    """Runs of one cluster with several GPU types and one server."""

    workers: dict[str, int]
    """GPU type to number of workers."""
    speed: float
    """Steps per second, from the mean time of its runs."""
    runs: int


def bytes_of(workload: str) -> int:
    """Return the bytes of one update of a model; raises DataError for one that is not known."""
    if workload not in PARAMETERS:
        raise DataError(f"no model {workload}; known are {', '.join(PARAMETERS)}")
    return PARAMETERS[workload] * BYTES_EACH


def read(text: str) -> Table:
    """Read `gpu,n_ps,model,workers,speed,...` (steps/s) into the columns of parameter-server."""
    return read_rows(
        {
            "gpu": row["gpu"],
            "workload": row["model"],
            "workers": row["workers"],
            "servers": row["n_ps"],
            "bytes": bytes_of(row["model"]),
            "steps_per_s": row["speed"],
        }
        for row in csv.DictReader(io.StringIO(text))
    )


def read_runs(text: str) -> Table:
    """Read `experiment,...,duration_s,...` (s); one row for each run of one GPU type."""
    found = []
    for row in csv.DictReader(io.StringIO(text)):
        cluster = _cluster_of(row["experiment"])
        if cluster is None:
            continue
        gpu, workers, servers = cluster
        found.append(
            {
                "gpu": gpu,
                "workload": "res32",
                "workers": workers,
                "servers": servers,
                "bytes": bytes_of("res32"),
                "steps_per_s": RUN_STEPS / float(row["duration_s"]),
            }
        )
    return read_rows(found)


def read_all(speeds: str, runs: str) -> Table:
    """Read both: the rows of `read`, then those of `read_runs`."""
    first, second = read(speeds), read_runs(runs)
    return Table.of(**{name: [*first.cells[name], *second.cells[name]] for name in first.cells})


def read_mixed(text: str) -> list[MixedRuns]:
    """Read the runs of clusters with several GPU types, in order of their names."""
    seconds: dict[str, list[float]] = {}
    for row in csv.DictReader(io.StringIO(text)):
        matched = MIXED.fullmatch(row["experiment"])
        if matched:
            seconds.setdefault(matched[1], []).append(float(row["duration_s"]))
    return [
        MixedRuns(
            workers={GPUS[kind]: int(number) for number, kind in zip(*_parts(name), strict=True)},
            speed=RUN_STEPS * len(times) / sum(times),
            runs=len(times),
        )
        for name, times in sorted(seconds.items())
    ]


def _parts(name: str) -> tuple[str, str]:
    return name[::2], name[1::2]


def _cluster_of(experiment: str) -> tuple[str, int, int] | None:
    """GPU type, workers and servers of a run; None where they are mixed or far apart."""
    if experiment in SINGLES:
        gpu, workers = SINGLES[experiment]
        return gpu, workers, 1
    matched = SERVERS.fullmatch(experiment)
    return (GPUS[matched[3]], int(matched[2]), int(matched[1])) if matched else None
