"""Lives of nodes as they were seen: how long, and whether the provider ended them."""

from dataclasses import dataclass
from typing import Final, Self, TypeAlias

import numpy as np

from ebbtide.core.models.table import Column, DataError, Flags, Floats, Indices, Table

Pool: TypeAlias = tuple[str, str, str]
"""Name, zone and GPU type; what is not known is empty."""

SECOND: Final = 1 / 3600
"""In hours. A life of 0 counts as this long: a node that was granted and gone at once."""
MOST_SKEW: Final = 24.0
"""Clocks that disagree make lives below 0, in hours; below minus this it is no clock."""
LONGEST: Final = 17520.0
"""Two years in hours. What is longer was written in seconds or minutes."""
MOST_REFUSED: Final = 0.1
"""With a larger share of lives below 0 than this, the table itself is wrong."""

POOL: Final = Column(name="pool", unit="text")
ZONE: Final = Column(name="zone", unit="text", optional=True)
GPU: Final = Column(name="gpu", unit="text", optional=True)
START: Final = Column(
    name="start_hour", unit="h", least=0.0, most=24.0, open_below=False, optional=True
)
"""The hour of day at which the node became Ready, by one clock for the whole table."""
LIFE: Final = Column(name="lifetime_h", unit="h", least=-MOST_SKEW, most=LONGEST, open_below=False)
REVOKED: Final = Column(name="revoked", unit="", least=0, most=1, open_below=False, whole=True)
"""1: the provider took the node. 0: it was still alive when it was last seen."""
AGE: Final = Column(name="age_h", unit="h", least=0.0, open_below=False, optional=True)
HORIZON: Final = Column(name="horizon_h", unit="h", optional=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lives:
    """Arrays of equal length, one value for each node."""

    pools: tuple[Pool, ...]
    """The pools seen, in an order that does not hang on their names."""
    pool: np.ndarray[tuple[int], np.dtype[np.intp]]
    """Index into `pools`."""
    start: Floats
    """Hour of day at the start; NaN where it is not known."""
    hours: Floats
    revoked: Flags
    refused: int = 0
    """Rows left out, because a clock made their life negative."""
    lifted: int = 0
    """Lives of 0 that count as one second."""

    def __len__(self) -> int:
        return len(self.hours)

    @classmethod
    def read(cls, table: Table) -> Self:
        """Read and check a table; raises DataError."""
        if not len(table):
            raise DataError("there are no rows: at least one life of a node is needed")
        hours = table.numbers(LIFE)
        _complain_of_too_many_negatives(table, hours)
        keys = list(zip(*(table.texts(column) for column in (POOL, ZONE, GPU)), strict=True))
        revoked = table.numbers(REVOKED) > 0
        start = table.numbers(START) % 24
        kept = hours >= 0
        return cls.of(
            [key for key, keep in zip(keys, kept, strict=True) if keep],
            hours=np.maximum(hours[kept], SECOND),
            revoked=revoked[kept],
            start=start[kept],
            refused=int((~kept).sum()),
            lifted=int((hours[kept] < SECOND).sum()),
        )

    @classmethod
    def of(
        cls,
        keys: list[Pool],
        *,
        hours: Floats,
        revoked: Flags,
        start: Floats,
        refused: int = 0,
        lifted: int = 0,
    ) -> Self:
        """Number the pools by what they lived through, so that their names change nothing."""
        rows: dict[Pool, list[int]] = {}
        for row, key in enumerate(keys):
            rows.setdefault(key, []).append(row)

        def history(key: Pool) -> tuple[object, ...]:
            own = rows[key]
            return (-len(own), sorted(zip(hours[own], revoked[own], strict=True)), key)

        pools = tuple(sorted(rows, key=history))
        number = {key: index for index, key in enumerate(pools)}
        return cls(
            pools=pools,
            pool=np.array([number[key] for key in keys], dtype=np.intp),
            start=start,
            hours=hours,
            revoked=revoked,
            refused=refused,
            lifted=lifted,
        )

    def take(self, chosen: Flags | Indices) -> "Lives":
        """Return some of the lives; the pools stay as they are."""
        return Lives(
            pools=self.pools,
            pool=self.pool[chosen],
            start=self.start[chosen],
            hours=self.hours[chosen],
            revoked=self.revoked[chosen],
        )

    def deal(self, folds: int) -> "np.ndarray[tuple[int], np.dtype[np.intp]]":
        """
        Number each life with its fold: every pool and every length of life in every fold.

        The order of rows and the names of pools play no part.
        """
        order = np.lexsort((self.start, self.revoked, self.hours, self.pool))
        fold = np.empty(len(self), dtype=np.intp)
        fold[order] = np.arange(len(self)) % folds
        return fold


def _complain_of_too_many_negatives(table: Table, hours: Floats) -> None:
    below = np.flatnonzero(hours < 0)
    if len(below) > max(1, MOST_REFUSED * len(hours)) or len(below) == len(hours):
        row = below[0]
        raise DataError(
            f"column {LIFE.name}, row {table.rows[row]}: {hours[row]:g} is below 0, as are"
            f" {len(below)} of {len(hours)} lives; hours from start to end are needed"
        )
