"""A model that says the mean of its group: the least that the frame of the models asks for."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ebbtide.core.models.forecast import Forecast, Spread
from ebbtide.core.models.kinds import Kind
from ebbtide.core.models.quality import Quality
from ebbtide.core.models.stored import Model
from ebbtide.core.models.table import Column, DataError, Table, check

WORKLOAD = Column(name="workload", unit="text")
SIZE = Column(name="size", unit="MB", optional=True)
SECONDS = Column(name="seconds", unit="s")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainModel:
    """Mean seconds of each workload; of all, and beyond, for one that was never seen."""

    method: str
    quality: Quality
    means: dict[str, float]
    overall: float

    def predict(self, table: Table) -> Forecast:
        """Answer for each row."""
        names = table.texts(WORKLOAD)
        value = np.array([self.means.get(name, self.overall) for name in names], dtype=np.float64)
        beyond = np.array([name not in self.means for name in names], dtype=np.bool_)
        return Spread(low=0.5, high=2.0).around(value, beyond=beyond)

    def parameters(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"means": self.means, "overall": self.overall}


def fit_means(table: Table) -> PlainModel:
    """Take the mean of each workload; the size must be under 1,000 where it is given."""
    check(table, (WORKLOAD, SIZE, SECONDS))
    size = table.numbers(SIZE)
    for row in table.rows[size > 1000]:
        raise DataError(f"column size, row {row}: more than 1000 MB")
    names, seconds = table.texts(WORKLOAD), table.numbers(SECONDS)
    return PlainModel(
        method="means",
        quality=Quality(samples=len(table), split="none"),
        means={name: float(seconds[names == name].mean()) for name in sorted(set(names.tolist()))},
        overall=float(seconds.mean()),
    )


def fit_overall(table: Table) -> PlainModel:
    """Take one mean of all."""
    check(table, (WORKLOAD, SECONDS))
    return PlainModel(
        method="overall",
        quality=Quality(samples=len(table), split="none"),
        means={},
        overall=float(table.numbers(SECONDS).mean()),
    )


def read_plain(method: str, quality: Quality, parameters: dict[str, Any]) -> Model:
    """Build it from what was stored."""
    return PlainModel(
        method=method,
        quality=quality,
        means=dict(parameters["means"]),
        overall=float(parameters["overall"]),
    )


PLAIN = Kind(
    name="plain",
    inputs=(WORKLOAD, SIZE),
    target=SECONDS,
    group="workload",
    methods={"means": fit_means, "overall": fit_overall},
    read=read_plain,
)
