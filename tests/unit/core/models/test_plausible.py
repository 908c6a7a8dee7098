"""Whole files of another unit: noticed by what GPUs and links can do, and real data believed."""

from pathlib import Path

import numpy as np
import pytest

from ebbtide.core.models import kinds
from ebbtide.core.models.kinds import Peaks
from ebbtide.core.models.table import DataError, Table
from ebbtide.data import defaults
from ebbtide.data.shapes import all_reduce, cm_dare

DATA = Path(__file__).parents[3] / "data"
STEPS = cm_dare.read_means((DATA / "cm-dare/derived/models20.csv").read_text(encoding="utf-8"))
CALLS = all_reduce.read(
    (DATA / "ml-engineering-allreduce/allreduce_bandwidth.csv").read_text(encoding="utf-8")
)
PEAKS: Peaks = {
    name: max(gpu.flops_fp32, gpu.flops_tensor or 0.0)
    for name, gpu in defaults.embedded_catalogue().gpus.items()
}
FAST = 1e13
"""FLOPs a second of the made-up GPU type."""


def doubt(kind: str, table: Table, peaks: Peaks = PEAKS) -> list[str]:
    how = kinds.find(kind).doubt
    assert how is not None
    return list(how(table, peaks))


def scaled(table: Table, column: str, factor: float) -> Table:
    values = table.cells[column].astype(np.float64) * factor
    return Table({**table.cells, column: values.astype(object)}, table.rows)


def steps(*seconds: float, flops: float = 1e10, batch: float = 100.0, gpu: str = "fast") -> Table:
    rows = len(seconds)
    return Table.of(
        gpu=[gpu] * rows,
        workload=[f"net-{number}" for number in range(rows)],
        flops=[flops] * rows,
        params=[1e6] * rows,
        tensors=[50] * rows,
        local_batch=[batch] * rows,
        step_time_s=seconds,
    )


def calls(
    bus: float, *, nodes: int = 1, nic: float | str = "-", size: float = 1e9, scale: float = 1.0
) -> Table:
    """One call of 8 GPUs a node at a bus bandwidth in 1e9 bytes/s."""
    members = 8 * nodes
    return Table.of(
        system=["made-up"],
        gpus_per_node=[8],
        nodes=[nodes],
        nic_gbps=[nic],
        bytes=[size],
        time_s=[size * 2 * (members - 1) / members / (bus * 1e9) * scale],
    )


# ---------------------------------------------------------------- step times


def test_real_step_times_are_believed() -> None:
    assert doubt("step-time", STEPS) == []
    readings = DATA / "cm-dare/raw/speed_data/0latency_norm_computation.csv"
    table = cm_dare.read_steps(readings.read_text(encoding="utf-8"))
    assert set(table.cells["gpu"]) <= set(PEAKS)
    assert doubt("step-time", table) == []


def test_a_whole_file_of_step_times_in_milliseconds_is_noticed() -> None:
    found = doubt("step-time", scaled(STEPS, "step_time_s", 1000))

    assert len(found) == len({"K80", "P100"})
    for note, gpu in zip(found, ("K80", "P100"), strict=True):
        assert f"that a {gpu} can do" in note
        assert "row" in note
        assert "if times are in milliseconds" in note


def test_step_times_in_microseconds_are_noticed() -> None:
    (found,) = doubt("step-time", steps(500, 700, 900, flops=1e7), {"fast": FAST})

    assert "row 2: 500 s means 2e+06 FLOPs a second, 2e-07 of the 1e+13" in found
    assert "if times are in microseconds, it is 0.2 of it" in found


def test_one_row_that_uses_the_gpu_clears_its_type() -> None:
    assert doubt("step-time", steps(500, 700, 0.5), {"fast": FAST}) == []
    assert len(doubt("step-time", steps(500, 700), {"fast": FAST})) == 1


def test_so_slow_that_no_unit_fits_is_said_without_one() -> None:
    (found,) = doubt("step-time", steps(3000), {"fast": 1e20})

    assert "milliseconds" not in found
    assert "flops are those of one sample" in found


def test_more_than_a_gpu_can_do_is_refused_with_row_value_and_limit() -> None:
    with pytest.raises(DataError, match=r"row 3: 0\.001 s means 1e\+15 .* more than the 1e\+13"):
        doubt("step-time", steps(0.5, 0.001), {"fast": FAST})


def test_flops_of_a_whole_step_are_told_from_those_of_a_sample() -> None:
    with pytest.raises(DataError, match="of one sample, not of a step of 100 samples"):
        doubt("step-time", steps(0.5, flops=1e12), {"fast": FAST})
    with pytest.raises(DataError, match="times are in seconds"):
        doubt("step-time", steps(0.5, flops=1e16), {"fast": FAST})


def test_a_type_that_the_catalogue_does_not_know_is_believed() -> None:
    assert doubt("step-time", steps(1e-3), {"other": FAST}) == []


def test_names_of_types_may_be_written_in_any_case() -> None:
    with pytest.raises(DataError, match="that a FAST can do"):
        doubt("step-time", steps(1e-3, gpu="FAST"), {"fast": FAST})


def test_rows_that_do_not_tell_their_flops_are_believed() -> None:
    table = steps(0.5, 0.6)
    bare = Table({**table.cells, "flops": np.array(["-", "-"], dtype=object)}, table.rows)

    assert doubt("step-time", bare, {"fast": FAST}) == []


# ---------------------------------------------------------------- all-reduces


def test_real_all_reduces_are_believed() -> None:
    assert doubt("all-reduce", CALLS) == []


@pytest.mark.parametrize(("unit", "factor"), [("milliseconds", 1e3), ("microseconds", 1e6)])
def test_a_whole_file_of_all_reduces_in_another_unit_is_noticed(unit: str, factor: float) -> None:
    short = CALLS.take(CALLS.cells["time_s"].astype(np.float64) * factor < 3600)

    found = doubt("all-reduce", scaled(short, "time_s", factor))

    assert any(f"if times are in {unit}" in note for note in found)
    assert all("row" in note for note in found)


@pytest.mark.parametrize(
    ("bus", "nodes", "nic"),
    [pytest.param(5.0, 1, "-", id="through-the-host"), pytest.param(0.5, 4, 100.0, id="slow-tcp")],
)
def test_slow_links_are_believed(bus: float, nodes: int, nic: float | str) -> None:
    assert doubt("all-reduce", calls(bus, nodes=nodes, nic=nic)) == []


@pytest.mark.parametrize(
    ("bus", "nodes", "nic"),
    [pytest.param(200.0, 1, "-", id="one-node"), pytest.param(10.0, 4, 100.0, id="four-nodes")],
)
def test_slower_than_any_link_is_doubted(bus: float, nodes: int, nic: float | str) -> None:
    (found,) = doubt("all-reduce", calls(bus, nodes=nodes, nic=nic, scale=1000))

    assert "row 2" in found
    assert "times what the slowest link would take" in found
    assert "milliseconds" in found


def test_so_slow_that_no_unit_fits_an_all_reduce_is_said_without_one() -> None:
    (found,) = doubt("all-reduce", calls(4e-5, nodes=4, nic=1e5, size=7e7))

    assert "seconds, sizes in bytes" in found


def test_small_sizes_say_nothing_about_links() -> None:
    assert doubt("all-reduce", calls(0.001, size=1e6)) == []


def test_faster_than_any_link_is_refused() -> None:
    with pytest.raises(DataError, match=r"row 2: .* between GPUs of one node, more than 3600e9"):
        doubt("all-reduce", calls(4000.0))
    assert doubt("all-reduce", calls(900.0)) == []
