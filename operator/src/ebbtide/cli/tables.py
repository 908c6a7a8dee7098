"""Samples from files: CSV with a header, or JSON lines; and tables for people."""

import csv
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:  # numpy takes longer to import than `ebbtide --help` may take
    from ebbtide.core.models.table import Table

MOST_BYTES: Final = 64 * 2**20
"""A file that is larger is no table of samples, or one to thin out first."""
MOST_COLUMNS: Final = 1_000
STANDARD_INPUT: Final = "-"


def use_one_thread() -> None:
    """
    Let numpy compute on one thread, unless the user says otherwise; before it is imported.

    Models are small: on a machine that does other work threads wait for each other, and a fit of
    one second takes ten.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")


class FileError(click.ClickException):
    """Something in a file that cannot be used, in one line."""

    def __init__(self, file: str, message: str) -> None:
        self.file = file
        self.finding = " ".join(message.split())
        super().__init__(f"{file}: {self.finding}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """What one file holds: each record with the number of the line that it begins on."""

    file: str
    names: tuple[str, ...]
    cells: tuple[tuple[object, ...], ...]
    lines: tuple[int, ...]


def read_tables(files: Sequence[str]) -> "Table":
    """Read files into one table whose rows are called "LINE of FILE"; raises FileError."""
    import numpy as np

    from ebbtide.core.models.table import ABSENT, Table

    twice = sorted({file for file in files if files.count(file) > 1})
    if twice:
        raise click.UsageError(f"given twice, its rows would count twice: {', '.join(twice)}")
    found = [read_records(file) for file in files]
    names = dict.fromkeys(name for records in found for name in records.names)
    columns: dict[str, list[object]] = {name: [] for name in names}
    labels: list[str] = []
    for records in found:
        labels += [f"{line} of {records.file}" for line in records.lines]
        for name in names:
            if name in records.names:
                place = records.names.index(name)
                columns[name] += [row[place] for row in records.cells]
            else:
                columns[name] += [ABSENT] * len(records.cells)
    table = Table.of(**columns) if columns else Table({}, np.arange(0))
    return Table(table.cells, np.array(labels, dtype=object))


def read_records(file: str) -> Records:
    """Read one file; raises FileError with the row where it stops making sense."""
    text = _decode(file, read_bytes(file))
    if not text.strip():
        raise FileError(file, "it is empty: a header and at least one row are needed")
    records = _read_json(file, text) if text.lstrip()[0] in "{[" else _read_csv(file, text)
    if not records.cells:
        raise FileError(file, "there is a header and no row: at least one sample is needed")
    return records


def read_bytes(file: str) -> bytes:
    """Read a file, or standard input where it is called `-`; raises FileError."""
    try:
        if file == STANDARD_INPUT:
            content: bytes = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with Path(file).open("rb") as stream:
                content = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise FileError(file, f"cannot be read: {error.strerror}") from error
    if len(content) > MOST_BYTES:
        raise FileError(file, f"larger than {MOST_BYTES // 2**20} MiB: take a part of the samples")
    return content


def _decode(file: str, content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FileError(file, f"row {line}: this is not UTF-8 text") from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise FileError(file, f"row {line}: a zero byte; UTF-8 text is wanted (not UTF-16)")
    return text


# ---------------------------------------------------------------- CSV


def _read_csv(file: str, text: str) -> Records:
    lines: list[int] = []
    cells: list[tuple[object, ...]] = []
    names: tuple[str, ...] = ()
    for line, record in _csv_records(file, text):
        if not any(cell.strip() for cell in record):
            continue
        if not names:
            names = _check_names(file, record, line=line)
            continue
        if len(record) != len(names):
            what = f"row {line}: {len(record)} fields under a header of {len(names)}"
            raise FileError(file, what)
        lines.append(line)
        cells.append(tuple(record))
    return Records(file=file, names=names, cells=tuple(cells), lines=tuple(lines))


def _csv_records(file: str, text: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    while True:
        line = reader.line_num + 1
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise FileError(file, f"row {line}: this is no CSV: {error}") from error
        yield line, record


def _check_names(file: str, header: Sequence[str], *, line: int) -> tuple[str, ...]:
    names = tuple(name.strip() for name in header)
    for mark, word in ((";", "semicolons"), ("\t", "tabs")):
        if len(names) == 1 and mark in names[0]:
            raise FileError(file, f"row {line}: separated by {word}; commas are wanted")
    if len(names) > MOST_COLUMNS:
        raise FileError(file, f"row {line}: {len(names)} columns, at most {MOST_COLUMNS}")
    if "" in names:
        raise FileError(file, f"row {line}: column {names.index('') + 1} has no name")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise FileError(file, f"row {line}: a column name stands twice: {', '.join(twice)}")
    return names


# ---------------------------------------------------------------- JSON lines


def _read_json(file: str, text: str) -> Records:
    from ebbtide.core.models.table import ABSENT

    found: list[dict[str, object]] = []
    lines: list[int] = []
    for line, written in enumerate(text.split("\n"), start=1):
        if written.strip():
            found.append(_parse_line(file, written, line=line))
            lines.append(line)
    names = tuple(dict.fromkeys(name for record in found for name in record))
    if len(names) > MOST_COLUMNS:
        raise FileError(file, f"{len(names)} different fields, at most {MOST_COLUMNS}")
    cells = tuple(tuple(record.get(name, ABSENT) for name in names) for record in found)
    return Records(file=file, names=names, cells=cells, lines=tuple(lines))


def _parse_line(file: str, written: str, *, line: int) -> dict[str, object]:
    try:
        record = json.loads(written, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise FileError(file, f"row {line}: no JSON object on one line: {error}") from error
    if not isinstance(record, dict):
        raise FileError(file, f"row {line}: no JSON object on one line, {written[:20]!r} instead")
    for name, value in record.items():
        if isinstance(value, dict | list):
            what = f"column {name}, row {line}: a number or a name is wanted, not a structure"
            raise FileError(file, what)
    return record


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the field {name} stands twice")
        found[name] = value
    return found


# ---------------------------------------------------------------- for people


def lay_out(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return aligned lines; numbers to the right and with four figures."""
    cells = [[_show(cell) for cell in row] for row in rows]
    right = [
        all(_is_number(cell) for cell in column if cell) for column in zip(*cells, strict=True)
    ] or [False] * len(head)
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in [list(head), *cells]
    ]
    return "\n".join(lines)


def _show(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:.4g}"
    return "" if cell is None else str(cell)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
