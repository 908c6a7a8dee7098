"""
Step times of data-parallel training on nodes of four T4 (Pollux, OSDI 2021).

`read_placements` takes `placement,local_bsz,step_time,sync_time` of one model; a placement such as
`1124` is four nodes with 1, 1, 2 and 4 GPUs, and must stay text. `read_scalability` takes
`num_nodes,num_replicas,local_bsz,step_time,sync_time`: replicas spread over nodes as evenly as
they go. Times are seconds for each step. `sync_time` is not zero on one GPU.
"""

import csv
import io
from collections.abc import Iterable

from ebbtide.core.models.iteration.layout import write_placement
from ebbtide.core.models.table import Table, read_rows


def read_placements(workload: str, text: str) -> Table:
    """Read into the columns of iteration; nodes in rising order, for their order says nothing."""
    return _table(
        workload,
        (([int(digit) for digit in row["placement"]], row) for row in _rows(text)),
    )


def read_scalability(workload: str, text: str) -> Table:
    """Read into the columns of iteration."""
    return _table(
        workload,
        ((_spread(int(row["num_replicas"]), int(row["num_nodes"])), row) for row in _rows(text)),
    )


def join(tables: Iterable[Table]) -> Table:
    """Put tables of several workloads together."""
    found = list(tables)
    return read_rows(
        {name: cells[index] for name, cells in table.cells.items()}
        for table in found
        for index in range(len(table))
    )


def _rows(text: str) -> Iterable[dict[str, str]]:
    return csv.DictReader(io.StringIO(text))


def _table(workload: str, rows: Iterable[tuple[list[int], dict[str, str]]]) -> Table:
    return read_rows(
        {
            "workload": workload,
            "placement": write_placement(counts),
            "local_batch": int(row["local_bsz"]),
            "step_time_s": float(row["step_time"]),
            "sync_time_s": float(row["sync_time"]),
        }
        for counts, row in rows
    )


def _spread(replicas: int, nodes: int) -> list[int]:
    fewest, more = divmod(replicas, nodes)
    return [fewest + 1] * more + [fewest] * (nodes - more)
