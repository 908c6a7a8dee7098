"""Collect the rows of all parts, print them as one table, judge the bars."""

import sys
from collections.abc import Callable
from functools import partial

from rows import Row, run
from solver import agreement, speed

PARTS: dict[str, Callable[[], list[Row]]] = {
    **{f"speed-{family}": partial(speed.rows, family) for family in speed.FAMILIES},
    "warm": speed.warm_rows,
    "seven-types": agreement.seven_rows,
    "agreement": agreement.fuzzed_rows,
}

if __name__ == "__main__":
    sys.exit(run("solver", PARTS, about=__doc__))
