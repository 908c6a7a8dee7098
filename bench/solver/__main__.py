"""Collect the rows of both parts, print them as one table, judge the bars."""

import sys

from rows import run
from solver import agreement, speed

PARTS = {"speed": speed.rows, "agreement": agreement.rows}

if __name__ == "__main__":
    sys.exit(run("solver", PARTS, about=__doc__))
