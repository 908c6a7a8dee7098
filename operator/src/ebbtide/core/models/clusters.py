"""Measured speeds of clusters with parameter servers, checked and with repeats averaged."""

from dataclasses import dataclass
from typing import Final, Self, TypeAlias

import numpy as np

from ebbtide.core.models.table import Column, DataError, Floats, Indices, Table, Texts, check

Key: TypeAlias = tuple[str, str, float]
"""GPU type, workload, servers."""

GPU: Final = Column(name="gpu", unit="text")
WORKLOAD: Final = Column(name="workload", unit="text")
WORKERS: Final = Column(
    name="workers", unit="ranks", least=1, most=1e6, open_below=False, whole=True
)
SERVERS: Final = Column(
    name="servers", unit="servers", least=1, most=1e5, open_below=False, whole=True
)
BYTES: Final = Column(name="bytes", unit="bytes", least=1e3, most=1e14, open_below=False)
"""Of the gradients in one update. Fewer than 1,000 is a size in MB, not a model."""
SPEED: Final = Column(name="steps_per_s", unit="steps/s", least=1e-6, most=1e6)
INPUTS: Final = (GPU, WORKLOAD, WORKERS, SERVERS, BYTES)

SAME_SIZE: Final = 2.0
"""Sizes of one workload within this factor are one size (half precision on newer GPUs)."""
ODD: Final = 30.0
"""A speed so many times another per worker, both in one series, is of another unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clusters:
    """One row for each GPU type, workload, number of servers and of workers, in that order."""

    gpu: Texts
    workload: Texts
    workers: Floats
    servers: Floats
    size: Floats
    """Bytes; one figure for each workload and GPU type."""
    speed: Floats
    """Steps per second, the geometric mean of repeats."""

    @classmethod
    def of(cls, table: Table) -> Self:
        """Check a table and average its repeats; raises DataError."""
        check(table, (*INPUTS, SPEED))
        gpu, workload = table.texts(GPU), table.texts(WORKLOAD)
        workers, servers = table.numbers(WORKERS), table.numbers(SERVERS)
        size, speed = table.numbers(BYTES), table.numbers(SPEED)
        _check_sizes(table, workload, size)
        _check_speeds(table, list(zip(gpu, workload, servers, strict=True)), workers, speed)
        rows: dict[tuple[str, str, float, float], list[int]] = {}
        for row, key in enumerate(zip(gpu, workload, servers, workers, strict=True)):
            rows.setdefault(key, []).append(row)
        order = sorted(rows)
        first = np.array([rows[key][0] for key in order], dtype=np.intp)
        sizes = {
            pair: float(np.median(size[(gpu == pair[0]) & (workload == pair[1])]))
            for pair in {key[:2] for key in order}
        }
        return cls(
            gpu=gpu[first],
            workload=workload[first],
            workers=workers[first],
            servers=servers[first],
            size=np.array([sizes[key[:2]] for key in order]),
            speed=np.array([float(np.exp(np.log(speed[rows[key]]).mean())) for key in order]),
        )

    def take(self, rows: Indices) -> "Clusters":
        """Return some rows."""
        return Clusters(
            gpu=self.gpu[rows],
            workload=self.workload[rows],
            workers=self.workers[rows],
            servers=self.servers[rows],
            size=self.size[rows],
            speed=self.speed[rows],
        )

    def keys(self) -> list[Key]:
        """The series of each row."""
        return [
            (str(gpu), str(workload), float(servers))
            for gpu, workload, servers in zip(self.gpu, self.workload, self.servers, strict=True)
        ]

    def series(self) -> list[Indices]:
        """The rows of each series, in order of their keys."""
        rows: dict[Key, list[int]] = {}
        for row, key in enumerate(self.keys()):
            rows.setdefault(key, []).append(row)
        return [np.array(rows[key], dtype=np.intp) for key in sorted(rows)]


def _check_sizes(table: Table, workload: Texts, size: Floats) -> None:
    """Refuse a workload whose size differs from row to row: its unit does."""
    for name in sorted(set(workload.tolist())):
        mine = np.flatnonzero(workload == name)
        usual = float(np.median(size[mine]))
        far = np.abs(np.log(size[mine] / usual))
        if far.max() > np.log(SAME_SIZE):
            row = int(mine[int(far.argmax())])
            raise DataError(
                f"column bytes, row {table.rows[row]}: {size[row]:g} where other rows of {name}"
                f" have {usual:g}; one workload has one size, all rows in bytes"
            )


def _check_speeds(table: Table, keys: list[Key], workers: Floats, speed: Floats) -> None:
    """Refuse a series in which one speed is of another unit than the rest."""
    each = speed / workers
    for key in sorted(set(keys)):
        mine = np.array([row for row, other in enumerate(keys) if other == key], dtype=np.intp)
        usual = float(np.median(each[mine]))
        over = each[mine] / usual
        # saturation makes workers slow, at most in proportion to their number
        under = usual / each[mine] / (workers[mine] / workers[mine].min())
        worst = np.maximum(over, under)
        if worst.max() > ODD:
            row = int(mine[int(worst.argmax())])
            raise DataError(
                f"column steps_per_s, row {table.rows[row]}: {speed[row]:g} with"
                f" {workers[row]:g} workers, where others of {key[0]}, {key[1]} with"
                f" {key[2]:g} servers do about {usual:g} for each worker; steps per second are"
                " needed in all rows"
            )
