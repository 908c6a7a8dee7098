"""
What a bench found: rows with bar and peers beside each figure, as a table and as JSON.

A row whose bar is of the machine (seconds, not a ratio) is judged only where a fixed yardstick
says that the machine is quiet; but a bar that holds on a busy machine holds on a quiet one too.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TextIO, TypeAlias

import numpy as np

ROOT: Final = Path(__file__).resolve().parents[1]
BUILD: Final = ROOT / "build" / "bench"

YARDSTICK_LIMIT_S: Final = 0.06
"""Two and a half times what it takes on an idle core of a server of 2023."""
MOST_PEERS: Final = 4
"""So many stand beside a figure in the table."""
MISSED: Final = 1
NOISY: Final = 2

Verdict: TypeAlias = Literal["holds", "MISSED", "noisy", ""]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure; `bar` and `peers` are in the unit of `value`."""

    name: str
    value: float
    unit: str
    better: Literal["lower", "higher"]
    bar: float | None = None
    peers: Mapping[str, float] = field(default_factory=dict)
    of_machine: bool = False
    """Whether the bar depends on how fast and how quiet the machine is."""

    @property
    def holds(self) -> bool | None:
        """Whether the bar is met; None where there is none. NaN meets no bar."""
        if self.bar is None:
            return None
        return self.value <= self.bar if self.better == "lower" else self.value >= self.bar


def yardstick() -> float:
    """Return the seconds of a fixed piece of work, the best of seven: loops, sorting, products."""
    return min(_fixed_work() for _ in range(7))


def _fixed_work() -> float:
    numbers = np.sin(np.arange(200_000, dtype=np.float64) * 12.9898)
    square = numbers[:40_000].reshape(200, 200)
    begun = time.perf_counter()
    total = 0
    for number in range(300_000):
        total += number & 7
    np.sort(numbers)
    for _ in range(10):
        square @ square
    return time.perf_counter() - begun


def verdict(row: Row, *, is_quiet: bool) -> Verdict:
    """Say how a row stands."""
    if row.holds is None:
        return ""
    if row.holds:
        return "holds"
    return "noisy" if row.of_machine and not is_quiet else "MISSED"


def report(name: str, rows: Sequence[Row], *, yardstick_s: float, out: TextIO = sys.stdout) -> int:
    """Print the table, write `build/bench/NAME.json`, and return the exit status."""
    is_quiet = yardstick_s <= YARDSTICK_LIMIT_S
    verdicts = [verdict(row, is_quiet=is_quiet) for row in rows]
    out.write("\n".join(_lines(rows, verdicts)) + "\n\n")
    state = "quiet" if is_quiet else "noisy: bars of seconds that are missed are not judged"
    limit = f"limit {YARDSTICK_LIMIT_S * 1000:.0f} ms"
    out.write(f"yardstick {yardstick_s * 1000:.0f} ms, {limit}: the machine is {state}\n")
    commit = _commit()
    records = [_record(row, found, commit) for row, found in zip(rows, verdicts, strict=True)]
    BUILD.mkdir(parents=True, exist_ok=True)
    path = BUILD / f"{name}.json"
    path.write_text(json.dumps(records, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    missed = [row.name for row, found in zip(rows, verdicts, strict=True) if found == "MISSED"]
    out.write(f"{len(rows)} rows, {_count(verdicts)}; written to {path.relative_to(ROOT)}\n")
    out.writelines(f"missed: {row}\n" for row in missed)
    if missed:
        return MISSED
    return NOISY if "noisy" in verdicts else 0


def _count(verdicts: Sequence[Verdict]) -> str:
    judged = [found for found in verdicts if found]
    return f"{sum(found == 'holds' for found in judged)} of {len(judged)} bars hold"


def _record(row: Row, found: Verdict, commit: str) -> dict[str, Any]:
    return {
        "name": row.name,
        "value": _finite(row.value),
        "unit": row.unit,
        "bar": row.bar,
        "better": row.better,
        "holds": None if found in {"", "noisy"} else found == "holds",
        "peers": {peer: _finite(value) for peer, value in row.peers.items()},
        "commit": commit,
    }


def _finite(value: float) -> float:
    """JSON has no word for what is not finite: the largest number stands for it."""
    return float(np.nan_to_num(value, nan=sys.float_info.max))


def _commit() -> str:
    command = ["git", "-c", "safe.directory=*", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


# ---------------------------------------------------------------- the table


def _lines(rows: Sequence[Row], verdicts: Sequence[Verdict]) -> list[str]:
    head = ("what", "value", "bar", "", "unit", "peers")
    cells = [head, *(_cells(row, found) for row, found in zip(rows, verdicts, strict=True))]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    lines = [_join(line, widths) for line in cells]
    return [lines[0], "-" * max(len(line) for line in lines), *lines[1:]]


def _cells(row: Row, found: Verdict) -> tuple[str, ...]:
    sign = "<=" if row.better == "lower" else ">="
    bar = "" if row.bar is None else f"{sign} {_short(row.bar)}"
    return row.name, _short(row.value), bar, found, row.unit, _peers(row)


def _peers(row: Row) -> str:
    """The best of the peers, best first; the JSON has them all."""
    best = sorted(row.peers.items(), key=lambda peer: peer[1], reverse=row.better == "higher")
    shown = ", ".join(f"{peer} {_short(value)}" for peer, value in best[:MOST_PEERS])
    rest = len(best) - MOST_PEERS
    return f"{shown}, and {rest} more" if rest > 0 else shown


def _join(line: Sequence[str], widths: Sequence[int]) -> str:
    first, value, *rest = (
        cell.rjust(width) if place == 1 else cell.ljust(width)
        for place, (cell, width) in enumerate(zip(line, widths, strict=True))
    )
    return "  ".join([first, value, *rest]).rstrip()


def _short(value: float) -> str:
    return f"{value:.4g}"


def run(name: str, parts: Mapping[str, Callable[[], Sequence[Row]]], *, about: str | None) -> int:
    """
    Measure the parts that the command line names, all where it names none, and report them.

    How far it is, is said on standard error. Returns the exit status.
    """
    parser = argparse.ArgumentParser(prog=f"bench-{name}", description=about)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(parts))
    chosen = parser.parse_args().parts or list(parts)
    unknown = sorted(set(chosen) - set(parts))
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are: {', '.join(parts)}")
    before = yardstick()
    found: list[Row] = []
    for number, part in enumerate(chosen, start=1):
        begun = time.monotonic()
        print(f"[{number}/{len(chosen)}] {part} ...", end="", flush=True, file=sys.stderr)
        rows = parts[part]()
        print(f" {len(rows)} rows, {time.monotonic() - begun:.1f} s", file=sys.stderr)
        found.extend(rows)
    # The calmer of two moments would hide a burst: the busier one counts.
    return report(name, found, yardstick_s=max(before, yardstick()))
