"""Collect the rows of the parts, print them as one table, judge the bars."""

import signal
import sys
from collections.abc import Callable

from rows import Row, run
from runtime import (
    fuzz,
    kept,
    kills,
    profiler,
    recovery,
    relaunch,
    served_fuzz,
    servers,
    stall,
    transport,
    warm,
)

PARTS: dict[str, Callable[[], list[Row]]] = {
    "fuzz": fuzz.rows,
    "kept": kept.rows,
    "kills": kills.rows,
    "profiler": profiler.rows,
    "recovery": recovery.rows,
    "relaunch": relaunch.rows,
    "server-fuzz": served_fuzz.rows,
    "servers": servers.rows,
    "stall": stall.rows,
    "transport": transport.rows,
    "warm": warm.rows,
}

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    sys.exit(run("runtime", PARTS, about=__doc__))
