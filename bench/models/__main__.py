"""Collect the rows of every part, print them as one table, judge the bars."""

import importlib
import sys
from functools import partial
from typing import Final

from rows import Row, run

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


def rows_of(part: str) -> list[Row]:
    """Measure one part, loaded only now: a part alone needs none of the others."""
    found: list[Row] = importlib.import_module(f"models.{part}").rows()
    return found


if __name__ == "__main__":
    sys.exit(run("models", {part: partial(rows_of, part) for part in PARTS}, about=__doc__))
