"""
Lives of nodes: Google's preemptible nodes (HPDC 2020), GPU nodes (ICAC 2019, ICDCS 2020).

Each gives a table with the columns of the lifetime model. Nothing that is known only at the end of
a life is read, but how long it was and who ended it.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from ebbtide.core.models.table import DataError, Table, read_rows

CAP_H: Final = 24.0
NEAR_CAP_H: Final = 23.5
"""Lives of GPU nodes in this length were ended by the cap, or with the experiment."""
GPU_TYPES: Final = ("K80", "P100", "V100")
NODE: Final = re.compile(r"a-(?:p100-|v100-)?(?P<zone>[a-z]+-[a-z]+\d-[a-z])-\d+(?:less)?")


def read_preemptions(text: str) -> Table:
    """
    Read lives of preemptible nodes.

    A pool is a machine type in a zone; the type stands where a GPU type would. Ends at the cap are
    revocations; `stop` is the user's own end, so the life is cut off there.
    """
    found = []
    for number, row in _rows(text, "zone", "machine_type", "lifetime_s", "end", "insert_time"):
        start = _moment(row["insert_time"], number)
        found.append(
            {
                "pool": f"{row['machine_type']}@{row['zone']}",
                "zone": row["zone"],
                "gpu": row["machine_type"],
                "start_hour": start.hour + start.minute / 60,
                "lifetime_h": _number(row["lifetime_s"], "lifetime_s", number) / 3600,
                "revoked": int(row["end"] == "preempted"),
            }
        )
    return read_rows(found)


def read_hourly(text: str) -> Table:
    """
    Read revocations by hour of life: one row for each node, spread evenly over its hour.

    Nodes that outlived the last hour were alive at the cap.
    """
    found: list[Mapping[str, object]] = []
    for number, row in _rows(text, "gpu", "region", "h0", "h23", "survived_24h"):
        pool = {
            "pool": f"{row['gpu']}@{row['region']}",
            "zone": row["region"],
            "gpu": row["gpu"],
            "start_hour": "-",
        }
        for hour in range(24):
            dead = int(_number(row[f"h{hour}"], f"h{hour}", number))
            found += [
                {**pool, "lifetime_h": hour + (place + 0.5) / dead, "revoked": 1}
                for place in range(dead)
            ]
        lives = {**pool, "lifetime_h": CAP_H, "revoked": 0}
        found += [lives] * int(_number(row["survived_24h"], "survived_24h", number))
    return read_rows(found)


def read_blocks(text: str) -> Table:
    """Read lives of GPU nodes from blocks under the name of their type."""
    found = []
    gpu = ""
    for number, line in enumerate(csv.reader(io.StringIO(text)), start=1):
        name, begun, ended = ([*line, "", "", ""])[:3]
        if name and not begun and not ended:
            gpu = name if name in GPU_TYPES else ""
            continue
        match = NODE.fullmatch(name)
        if not gpu or match is None:
            continue
        start, end = _moment(begun, number), _moment(ended, number)
        life = (end - start).total_seconds() / 3600
        found.append(
            {
                "pool": f"{gpu}@{match['zone']}",
                "zone": match["zone"],
                "gpu": gpu,
                "start_hour": start.hour + start.minute / 60,
                "lifetime_h": life,
                "revoked": int(life < NEAR_CAP_H),
            }
        )
    return read_rows(found)


def _rows(text: str, *needed: str) -> Iterator[tuple[int, dict[str, str]]]:
    reader = csv.DictReader(io.StringIO(text))
    missing = [name for name in needed if name not in (reader.fieldnames or ())]
    if missing:
        raise DataError(f"there is no column {missing[0]}; columns are: {reader.fieldnames}")
    return enumerate(reader, start=2)


def _number(cell: str, column: str, row: int) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError):
        raise DataError(f"column {column}, row {row}: {cell!r} is not a number") from None


def _moment(text: str | None, row: int) -> datetime:
    text = text or "nothing"  # a row that is too short
    try:
        if "/" in text:
            return datetime.strptime(text, "%m/%d/%y %H:%M").replace(tzinfo=UTC)
        return datetime.fromisoformat(text)
    except ValueError:
        raise DataError(f"row {row}: {text!r} is not a moment") from None
