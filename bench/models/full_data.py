"""The whole public data set of each model, as a table, and how it is held out."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from ebbtide.core.models import kinds
from ebbtide.core.models.quality import Split, leave_one_out
from ebbtide.core.models.table import Column, Table
from ebbtide.data.shapes import all_reduce, cluster_speed, cm_dare, lifetimes
from models import all_reduce as all_reduce_part
from models import iteration as iteration_part

DATA: Final = Path(__file__).resolve().parents[2] / "tests" / "data"
HALVES: Final = 5
"""So many random halves of the lives are held out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Samples of one model."""

    read: Callable[[], Table]
    splits: Callable[[Table], Iterable[Split]]
    """Nothing that is measured anew under the same conditions is on both sides."""


def text(path: str) -> str:
    """Return a file of the data sets."""
    return (DATA / path).read_text(encoding="utf-8")


def leave_out(name: str) -> Callable[[Table], Iterator[Split]]:
    """Hold out each value of a column in its turn."""
    return lambda table: leave_one_out(table.texts(Column(name=name, unit="text")))


def halve(table: Table) -> Iterator[Split]:
    """Hold out random halves; each life is of another node."""
    for seed in range(HALVES):
        order = np.random.default_rng(seed).permutation(len(table))
        yield np.sort(order[: len(table) // 2]), np.sort(order[len(table) // 2 :])


SOURCES: Final[Mapping[str, Source]] = {
    "step-time": Source(
        read=lambda: cm_dare.read_means(text("cm-dare/derived/models20.csv")),
        splits=leave_out("workload"),
    ),
    "checkpoint": Source(
        read=lambda: cm_dare.read_checkpoint_means(text("cm-dare/derived/models20.csv")),
        splits=leave_out("workload"),
    ),
    "parameter-server": Source(
        read=lambda: cluster_speed.read(text("cm-dare/derived/cluster_speed.csv")),
        splits=leave_out("workers"),
    ),
    "all-reduce": Source(
        read=lambda: all_reduce.read(text("ml-engineering-allreduce/allreduce_bandwidth.csv")),
        splits=all_reduce_part.splits,
    ),
    "iteration": Source(
        read=lambda: iteration_part.read_placements_of(iteration_part.WORKLOADS),
        splits=lambda table: iteration_part.splits(table, 0),
    ),
    "lifetime": Source(
        read=lambda: lifetimes.read_preemptions(text("goog-preemption/lifetimes.csv")),
        splits=halve,
    ),
}
"""By kind of model."""


def kind_of(name: str) -> kinds.Kind:
    """Return the model that a source is for."""
    return kinds.find(name)
