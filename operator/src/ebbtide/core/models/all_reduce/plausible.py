"""
A whole file of another unit, found by what links carry.

What is faster than any link cannot be. What is slower than the slowest, at the best of all large
sizes of a system, is hard to believe.
"""

from typing import Final

import numpy as np

from ebbtide.core.models.all_reduce.calls import TIME, Calls, read_times
from ebbtide.core.models.all_reduce.ring import GIGA, ring_factor
from ebbtide.core.models.table import DataError, Flags, Floats, Table

FASTEST_LINK: Final = 900.0
"""1e9 bytes/s to one side: NVLink 5 of a B200, which NVIDIA gives as 1.8 TB/s to both."""
ADDING: Final = 4.0
"""Times what links carry: switches that add save a half at most, and clocks and sizes are round."""
SLOWEST_LINK: Final = 0.985
"""1e9 bytes/s: one lane of PCI Express 3.0, of 8 GT/s in 128 of 130 bits."""
LEAST_SHARE: Final = 0.003
"""Of the network cards; TCP on one of several reaches some hundredths."""
LARGE: Final = 2.0**26
"""Bytes from which bandwidth rules, not latency."""
SMALLER: Final = (("milliseconds", 1e-3), ("microseconds", 1e-6))


def doubt(table: Table) -> list[str]:
    """Return what is hard to believe; raises DataError for what cannot be."""
    calls, seconds = read_times(table)
    members = calls.gpus * calls.nodes
    bus = calls.size * ring_factor(members) / seconds / GIGA
    inside = calls.nodes == 1
    for index in np.flatnonzero(inside & (bus > ADDING * FASTEST_LINK)):
        raise DataError(
            f"column {TIME.name}, row {table.rows[index]}: {seconds[index]:g} s means"
            f" {bus[index]:.4g}e9 bytes/s between GPUs of one node, more than"
            f" {ADDING * FASTEST_LINK:g}e9: times are in seconds, sizes in bytes of the whole sum"
        )
    notes = []
    large = calls.size >= LARGE
    for name in dict.fromkeys(calls.system.tolist()):
        here = (calls.system == name) & large
        notes += _doubt_slow(table, seconds, bus / SLOWEST_LINK, here & inside)
        notes += _doubt_slow(table, seconds, _share(calls, seconds) / LEAST_SHARE, here & ~inside)
    return notes


def _share(calls: Calls, seconds: Floats) -> Floats:
    """Return which part of the network cards the least possible traffic takes."""
    found: Floats = calls.bound / seconds
    return found


def _doubt_slow(table: Table, seconds: Floats, used: Floats, chosen: Flags) -> list[str]:
    """Doubt rows of which the fastest uses less than 1: the least that is believed."""
    rows = np.flatnonzero(chosen)
    if not len(rows) or used[rows].max() >= 1:
        return []
    best = rows[used[rows].argmax()]
    note = (
        f"column {TIME.name}, row {table.rows[best]}: {seconds[best]:g} s is"
        f" {1 / used[best]:.3g} times what the slowest link would take, and no other large size"
        f" of the system is faster: {_suggest(float(used[best]))}"
    )
    return [note]


def _suggest(used: float) -> str:
    for unit, scale in SMALLER:
        if used / scale >= 1:
            return f"if times are in {unit}, that is gone; give seconds"
    return "times are in seconds, sizes in bytes"
