"""All-reduces measured or asked about, read from a table and checked."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from ebbtide.core.models.all_reduce.ring import ring_bound
from ebbtide.core.models.odd_rows import find_odd
from ebbtide.core.models.table import (
    Column,
    DataError,
    Flags,
    Floats,
    Indices,
    Table,
    Texts,
    check,
)

SYSTEM: Final = Column(name="system", unit="text")
GPUS: Final = Column(name="gpus_per_node", unit="GPUs", most=1024, whole=True)
NODES: Final = Column(name="nodes", unit="nodes", most=100_000, whole=True)
NIC: Final = Column(name="nic_gbps", unit="Gbit/s", least=1e-3, most=100_000, optional=True)
"""Of all network cards of a node together. May be absent within one node."""
BYTES: Final = Column(name="bytes", unit="bytes", least=1, most=1e15, open_below=False)
TIME: Final = Column(name="time_s", unit="s", least=1e-7, most=3600.0)
"""No call is shorter than a launch of a kernel."""
INPUTS: Final = (SYSTEM, GPUS, NODES, NIC, BYTES)

TOO_FAST: Final = 0.25
"""A measured time below this share of the ring's bound says that units are mixed up: switches
that add save a half at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """All-reduces as arrays of equal length."""

    system: Texts
    gpus: Floats
    """On each node."""
    nodes: Floats
    nic_gbps: Floats
    """NaN within one node where it is not known."""
    size: Floats
    """Bytes."""

    def __len__(self) -> int:
        return len(self.size)

    def take(self, chosen: Flags | Indices) -> "Calls":
        """Return those of a mask or of indices."""
        return Calls(
            system=self.system[chosen],
            gpus=self.gpus[chosen],
            nodes=self.nodes[chosen],
            nic_gbps=self.nic_gbps[chosen],
            size=self.size[chosen],
        )

    @property
    def bound(self) -> Floats:
        """Seconds below which no sum of nodes can be."""
        return ring_bound(self.size, self.nodes, self.nic_gbps)


def read_calls(table: Table) -> Calls:
    """Read what is asked; raises DataError."""
    check(table, INPUTS)
    calls = Calls(
        system=table.texts(SYSTEM),
        gpus=table.numbers(GPUS),
        nodes=table.numbers(NODES),
        nic_gbps=table.numbers(NIC),
        size=table.numbers(BYTES),
    )
    for index in np.flatnonzero((calls.nodes > 1) & np.isnan(calls.nic_gbps)):
        raise DataError(
            f"column nic_gbps, row {table.rows[index]}: absent, but {calls.nodes[index]:g} nodes"
            " need a network: give Gbit/s of all cards of one node"
        )
    for index in np.flatnonzero(calls.gpus * calls.nodes < 2):  # noqa: PLR2004 -- two to a sum
        raise DataError(
            f"column gpus_per_node, row {table.rows[index]}: one GPU has nothing to sum with,"
            " at least two are needed"
        )
    return calls


def read_times(table: Table) -> tuple[Calls, Floats]:
    """Read what was measured; raises DataError."""
    check(table, (*INPUTS, TIME))
    calls, seconds = read_calls(table), table.numbers(TIME)
    for index in np.flatnonzero(seconds < TOO_FAST * calls.bound):
        raise DataError(
            f"column time_s, row {table.rows[index]}: {seconds[index]:g} s is impossible over"
            f" {calls.nic_gbps[index]:g} Gbit/s, which take {calls.bound[index]:g} s:"
            " give seconds, bytes, and 1e9 bits/s of a whole node"
        )
    _check_units(table, calls, seconds)
    return calls, seconds


def _check_units(table: Table, calls: Calls, seconds: Floats) -> None:
    """Refuse a time that another size on the same cluster makes absurd."""
    clusters: dict[tuple[object, ...], list[int]] = {}
    cards = np.nan_to_num(calls.nic_gbps)
    for index, key in enumerate(zip(calls.system, calls.gpus, calls.nodes, cards, strict=True)):
        clusters.setdefault(key, []).append(index)
    for rows in clusters.values():
        odd = find_odd(calls.size[rows], seconds[rows])
        if odd is not None:
            row, other = (rows[place] for place in odd)
            raise DataError(
                f"column time_s, row {table.rows[row]}: {seconds[row]:g} s for"
                f" {calls.size[row]:g} bytes, but row {table.rows[other]} has {seconds[other]:g} s"
                f" for {calls.size[other]:g} bytes on the same cluster: give all in seconds and"
                " bytes"
            )
