"""Collect the rows of all parts, print them as one table, judge the bars."""

import sys
from collections.abc import Callable
from functools import partial

from ebbtide.core.planner.solver.sizes import compile_solver
from rows import Row, run
from solver import agreement, speed

PARTS: dict[str, Callable[[], list[Row]]] = {
    **{f"speed-{family}": partial(speed.rows, family) for family in speed.FAMILIES},
    "warm": speed.warm_rows,
    "seven-types": agreement.seven_rows,
    "agreement": agreement.fuzzed_rows,
}

if __name__ == "__main__":
    print("compiling the loops of the solver, unless they are cached ...", file=sys.stderr)
    if not compile_solver():
        sys.exit("the bench is of the compiled solver: numba (the extra `fast`) is not installed")
    sys.exit(run("solver", PARTS, about=__doc__))
