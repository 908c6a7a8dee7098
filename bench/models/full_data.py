"""The whole public data set of each model, as a table, and how it is held out."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from ebbtide.core.models import kinds
from ebbtide.core.models.quality import Split, fold_by, leave_one_out
from ebbtide.core.models.table import Column, Table, Texts
from ebbtide.data.shapes import cluster_speed, cm_dare

DATA: Final = Path(__file__).resolve().parents[2] / "tests" / "data"
MOST_LEFT_OUT: Final = 25
"""With more groups than this they are dealt into folds, over a few seeds."""
SEEDS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Samples of one model."""

    kind: str
    read: Callable[[], Table]
    group: Callable[[Table], Texts]
    """What must not be on both sides of a split."""


def text(path: str) -> str:
    """Return a file of the data sets."""
    return (DATA / path).read_text(encoding="utf-8")


def by(*names: str) -> Callable[[Table], Texts]:
    """Group rows by the values of columns together."""

    def group(table: Table) -> Texts:
        parts = [table.texts(Column(name=name, unit="text")) for name in names]
        return np.array([" ".join(row) for row in zip(*parts, strict=True)], dtype=object)

    return group


SOURCES: Final[Mapping[str, Source]] = {
    "step-time": Source(
        kind="step-time",
        read=lambda: cm_dare.read_means(text("cm-dare/derived/models20.csv")),
        group=by("workload"),
    ),
    "checkpoint": Source(
        kind="checkpoint",
        read=lambda: cm_dare.read_checkpoint_means(text("cm-dare/derived/models20.csv")),
        group=by("workload"),
    ),
    "parameter-server": Source(
        kind="parameter-server",
        read=lambda: cluster_speed.read(text("cm-dare/derived/cluster_speed.csv")),
        group=by("workers"),
    ),
}


def kind_of(source: Source) -> kinds.Kind:
    """Return the model that a source is for."""
    return kinds.find(source.kind)


def splits(source: Source, table: Table) -> Iterator[Split]:
    """Hold out whole groups."""
    groups = source.group(table)
    if len(set(groups.tolist())) <= MOST_LEFT_OUT:
        yield from leave_one_out(groups)
        return
    for seed in range(SEEDS):
        yield from fold_by(groups, chance=np.random.default_rng(seed))
