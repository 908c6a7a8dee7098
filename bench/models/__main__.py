"""Collect the rows of every part, print them as one table, judge the bars."""

import argparse
import importlib
import sys
import time
from collections.abc import Sequence
from typing import Final

from rows import Row, report, yardstick

PARTS: Final = (
    "step_time",
    "checkpoint",
    "iteration",
    "all_reduce",
    "parameter_server",
    "lifetime",
    "coverage",
    "speed",
)


def collect(parts: Sequence[str]) -> list[Row]:
    """Run parts one after the other and say on standard error how far it is."""
    found: list[Row] = []
    for number, part in enumerate(parts, start=1):
        begun = time.monotonic()
        print(f"[{number}/{len(parts)}] {part} ...", end="", flush=True, file=sys.stderr)
        rows = importlib.import_module(f"models.{part}").rows()
        print(f" {len(rows)} rows, {time.monotonic() - begun:.1f} s", file=sys.stderr)
        found.extend(rows)
    return found


def main() -> int:
    """Run what the command line names; all parts where it names none."""
    parser = argparse.ArgumentParser(prog="bench-models", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    chosen = parser.parse_args().parts or list(PARTS)
    unknown = sorted(set(chosen) - set(PARTS))
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are: {', '.join(PARTS)}")
    before = yardstick()
    rows = collect(chosen)
    # The calmer of two moments would hide a burst: the busier one counts.
    return report("models", rows, yardstick_s=max(before, yardstick()))


if __name__ == "__main__":
    sys.exit(main())
