"""
Bandwidths of all-reduces by payload, as the Machine Learning Engineering Open Book prints them.

`read` takes `system,nodes,gpus,collective,payload_bytes,time_us,algbw_gbps_bytes,...` where
bandwidths count 1e9 bytes/s. A row gives a time, an algorithm bandwidth or a bus bandwidth: the
first that is there is taken. Bandwidths are rounded to 0.01; rows where that is more than a tenth
of the value say too little and are left out.
"""

import csv
import io
import re
from typing import Final

from ebbtide.core.models.table import Table, read_rows

GIGA: Final = 1e9
BITS: Final = 8
LEAST_GBYTES: Final = 0.05
"""Below, half a unit of the last place is more than a tenth."""
CARDS: Final = re.compile(r"(\d+)x(\d+)GBps")
"""Network cards of a node, in a note: how many, and 1e9 bytes/s of each."""
OTHER_WAYS: Final = ("NVLS off",)
"""Notes of measurements with another algorithm: systems of their own."""


def read(text: str) -> Table:
    """Read into the columns of all-reduce."""
    rows = (row for row in csv.DictReader(io.StringIO(text)) if row["collective"] == "all_reduce")
    found = ((row, _seconds(row)) for row in rows)
    return read_rows(
        {
            "system": _system(row),
            "gpus_per_node": int(row["gpus"]) // int(row["nodes"]),
            "nodes": int(row["nodes"]),
            "nic_gbps": _network(row["note"]),
            "bytes": int(row["payload_bytes"]),
            "time_s": seconds,
        }
        for row, seconds in found
        if seconds is not None
    )


def _seconds(row: dict[str, str]) -> float | None:
    if row["time_us"]:
        return float(row["time_us"]) / 1e6
    size, members = int(row["payload_bytes"]), int(row["gpus"])
    if row["algbw_gbps_bytes"]:
        return size / (float(row["algbw_gbps_bytes"]) * GIGA)
    bus = float(row["busbw_gbps_bytes"])
    return size * 2 * (members - 1) / members / (bus * GIGA) if bus > LEAST_GBYTES else None


def _system(row: dict[str, str]) -> str:
    other = [way for way in OTHER_WAYS if way in row["note"]]
    return ", ".join([row["system"].split()[0], *other])


def _network(note: str) -> float | str:
    matched = CARDS.search(note)
    return float(matched[1]) * float(matched[2]) * BITS if matched else "-"
