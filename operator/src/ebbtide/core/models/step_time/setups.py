"""What a step time is asked by: its columns, read and checked."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from ebbtide.core.models.table import Column, DataError, Flags, Floats, Labels, Table, Texts, check

GPU: Final = Column(name="gpu", unit="text")
WORKLOAD: Final = Column(name="workload", unit="text")
FLOPS: Final = Column(
    name="flops", unit="FLOPs of one sample", least=1, most=1e20, open_below=False, optional=True
)
PARAMS: Final = Column(
    name="params", unit="parameters", least=1, most=1e15, open_below=False, optional=True
)
TENSORS: Final = Column(
    name="tensors", unit="tensors", least=1, most=1e9, open_below=False, optional=True
)
LOCAL_BATCH: Final = Column(name="local_batch", unit="samples", least=1e-3, most=1e9, optional=True)
STEP_TIME: Final = Column(name="step_time_s", unit="s", least=1e-7, most=3_600.0)
"""One step of one rank takes an hour at most, and no step is shorter than a launch of a kernel."""
INPUTS: Final = (GPU, WORKLOAD, FLOPS, PARAMS, TENSORS, LOCAL_BATCH)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Setups:
    """Columns of equal length; NaN where a number is absent."""

    rows: Labels
    gpu: Texts
    workload: Texts
    flops: Floats
    params: Floats
    tensors: Floats
    batch: Floats

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def work(self) -> Floats:
        """FLOPs of one step; those of one sample where no batch is given."""
        return self.flops * np.where(np.isnan(self.batch), 1.0, self.batch)

    @property
    def has_batch(self) -> bool:
        """Whether a local batch is given: in every row, or in none."""
        return bool(np.isfinite(self.batch).any())

    def take(self, chosen: Flags) -> "Setups":
        """Return the set-ups of a mask."""
        return Setups(
            rows=self.rows[chosen],
            gpu=self.gpu[chosen],
            workload=self.workload[chosen],
            flops=self.flops[chosen],
            params=self.params[chosen],
            tensors=self.tensors[chosen],
            batch=self.batch[chosen],
        )


def read_setups(table: Table) -> Setups:
    """Read what is asked about; raises DataError."""
    check(table, INPUTS)
    setups = Setups(
        rows=table.rows,
        gpu=table.texts(GPU),
        workload=table.texts(WORKLOAD),
        flops=table.numbers(FLOPS),
        params=table.numbers(PARAMS),
        tensors=table.numbers(TENSORS),
        batch=table.numbers(LOCAL_BATCH),
    )
    absent = np.isnan(setups.batch)
    if absent.any() and not absent.all():
        raise DataError(
            f"column {LOCAL_BATCH.name}, row {setups.rows[absent][0]}: absent, but row "
            f"{setups.rows[~absent][0]} has one: give it in all rows or in none"
        )
    return setups
