"""Samples in columns: what a model is fitted from and asked about, checked when it is read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ebbtide.core.values.errors import EbbtideError

Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Indices: TypeAlias = NDArray[np.intp]
Texts: TypeAlias = NDArray[np.object_]
Labels: TypeAlias = NDArray[Any]

ABSENT: Final = "-"
"""How a table says that a value is not known."""
NO_NAMES: Final = frozenset({"nan", "<na>", "#n/a", "#ref!"})
"""What spreadsheets and data frames write where a name is missing."""


class DataError(EbbtideError, ValueError):
    """Samples that a model cannot use; names the column, the row, the value and what would be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What a model expects of one column."""

    name: str
    unit: str
    """As in "s" or "bytes"; "text" for names."""
    least: float = 0.0
    """Values below are refused; equal ones only where `open_below`."""
    most: float = float("inf")
    open_below: bool = True
    optional: bool = False
    """Whether the column may be missing, or a value of it absent; that reads as NaN or ""."""
    whole: bool = False

    @property
    def is_text(self) -> bool:
        """Whether it holds names."""
        return self.unit == "text"

    @property
    def is_flag(self) -> bool:
        """Whether it holds 0 and 1 only, for which JSON has words."""
        return self.whole and (self.least, self.most) == (0, 1)


@dataclass(frozen=True, slots=True)
class Table:
    """
    Columns of equal length.

    `cells` holds text as it was written or numbers; `rows` what each row is called by whoever
    wrote it: its number (the header of a file is row 1), or that and the file, as "3 of a.csv".
    """

    cells: Mapping[str, Texts]
    rows: Labels

    @classmethod
    def of(cls, **columns: Sequence[object] | NDArray[np.generic]) -> Self:
        """Build a table from sequences of equal length."""
        lengths = {len(values) for values in columns.values()}
        if len(lengths) != 1:
            raise DataError(f"columns of different lengths: {sorted(lengths)}")
        cells = {name: _as_objects(values) for name, values in columns.items()}
        return cls(cells, np.arange(lengths.pop()) + 2)

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, chosen: Flags | Indices) -> "Table":
        """Return the rows of a mask or of indices."""
        return Table({name: cells[chosen] for name, cells in self.cells.items()}, self.rows[chosen])

    def distinct(self, columns: Iterable[Column]) -> "Table":
        """Return the rows without those that repeat an earlier one in all of some columns."""
        names = [column.name for column in columns if self.has(column.name)]
        rows = zip(*(map(str, self.cells[name]) for name in names), strict=True)
        first = {row: index for index, row in reversed(list(enumerate(rows)))}
        return self.take(np.array(sorted(first.values()), dtype=np.intp))

    def has(self, name: str) -> bool:
        """Tell whether there is such a column."""
        return name in self.cells

    def texts(self, column: Column) -> Texts:
        """Return a column of names; absent ones are empty where the column allows that."""
        cells = self._cells(column)
        found = np.array(
            ["" if _is_absent(cell) else str(cell).strip() for cell in cells], dtype=object
        )
        for row, value in zip(self.rows, found, strict=True):
            if not (value or column.optional):
                raise DataError(f"column {column.name}, row {row}: empty, a name is needed")
            if value.lower() in NO_NAMES:
                raise DataError(
                    f"column {column.name}, row {row}: {value!r} is what is left of a name that"
                    " was lost: give the name"
                )
        return found

    def numbers(self, column: Column) -> Floats:
        """Return a column of numbers; absent ones are NaN where the column allows that."""
        cells = self._cells(column)
        found = np.array(
            [_as_number(cell, is_flag=column.is_flag) for cell in cells], dtype=np.float64
        )
        for index in np.flatnonzero(~self._is_right(found, column)):
            if not (column.optional and _is_absent(cells[index])):
                raise DataError(self._complaint(column, int(index)))
        return found

    def _cells(self, column: Column) -> Texts:
        if column.name in self.cells:
            return self.cells[column.name]
        if column.optional:
            return np.full(len(self), ABSENT, dtype=object)
        present = ", ".join(self.cells) or "none"
        raise DataError(f"there is no column {column.name} ({column.unit}); columns are: {present}")

    def _is_right(self, found: Floats, column: Column) -> Flags:
        with np.errstate(invalid="ignore"):
            above = found > column.least if column.open_below else found >= column.least
            whole = np.isfinite(found) & (np.floor(found) == found) if column.whole else True
            right: Flags = np.isfinite(found) & above & (found <= column.most) & whole
        return right

    def _complaint(self, column: Column, index: int) -> str:
        low = f"{'above' if column.open_below else 'at least'} {column.least:g}"
        high = f" and at most {column.most:g}" if np.isfinite(column.most) else ""
        kind = "a whole number" if column.whole else "a number"
        unit = f" of {column.unit}" if column.unit else ""
        value = self.cells[column.name][index]
        place = f"column {column.name}, row {self.rows[index]}"
        return f"{place}: {value!r} is not {kind}{unit} {low}{high}"


def read_rows(records: Iterable[Mapping[str, object]]) -> Table:
    """Build a table from records; a key that a record lacks is absent in its row."""
    found = list(records)
    names = dict.fromkeys(name for record in found for name in record)
    columns = {name: [record.get(name, ABSENT) for record in found] for name in names}
    return Table.of(**columns) if columns else Table({}, np.arange(0))


def check(table: Table, columns: Sequence[Column]) -> None:
    """Raise DataError unless a table has rows, and the columns as they must be."""
    if not len(table):
        raise DataError("there are no rows: at least one sample is needed")
    for column in columns:
        if column.is_text:
            table.texts(column)
        else:
            table.numbers(column)


def _as_objects(values: Sequence[object] | NDArray[np.generic]) -> Texts:
    cells = np.empty(len(values), dtype=object)
    cells[:] = list(values)
    return cells


def _as_number(cell: object, *, is_flag: bool) -> float:
    """Read a number as tables write it: Python's own 1_000, and true for 1, are none."""
    if isinstance(cell, str) and ("_" in cell or not cell.isascii()):
        return float("nan")
    if isinstance(cell, bool | np.bool_) and not is_flag:
        return float("nan")
    try:
        return float(cell)  # type: ignore[arg-type]  # what is no number is answered below
    except (OverflowError, TypeError, ValueError):
        return float("nan")


def _is_absent(cell: object) -> bool:
    return cell is None or str(cell).strip() in {"", ABSENT}
