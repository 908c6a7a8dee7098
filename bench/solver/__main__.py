"""Collect the rows of both parts, print them as one table, judge the bars."""

import argparse
import sys
import time

from rows import report, yardstick
from solver import agreement, speed

PARTS = {"speed": speed.rows, "agreement": agreement.rows}


def main() -> int:
    """Run what the command line names; both parts where it names none."""
    parser = argparse.ArgumentParser(prog="bench-solver", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    chosen = parser.parse_args().parts or list(PARTS)
    unknown = sorted(set(chosen) - set(PARTS))
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are: {', '.join(PARTS)}")
    before = yardstick()
    found = []
    for part in chosen:
        begun = time.monotonic()
        found += PARTS[part]()
        print(f"{part}: {time.monotonic() - begun:.0f} s", file=sys.stderr)
    return report("solver", found, yardstick_s=max(before, yardstick()))


if __name__ == "__main__":
    sys.exit(main())
