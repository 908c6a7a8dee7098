from pathlib import Path

import pytest

from ebbtide.data.shapes import all_reduce, mlperf, pollux

DATA = Path(__file__).parents[2] / "data"


def read(path: str) -> str:
    return (DATA / path).read_text(encoding="utf-8")


def test_a_placement_of_digits_is_gpus_of_each_node_in_rising_order() -> None:
    text = "placement,local_bsz,step_time,sync_time\n1421,8,0.5,0.2\n"

    table = pollux.read_placements("bert", text)

    assert {name: cells[0] for name, cells in table.cells.items()} == {
        "workload": "bert",
        "placement": "1-1-2-4",
        "local_batch": 8,
        "step_time_s": 0.5,
        "sync_time_s": 0.2,
    }


def test_replicas_are_spread_evenly_over_nodes() -> None:
    text = "num_nodes,num_replicas,local_bsz,step_time,sync_time\n3,8,4,1,0.1\n"

    assert pollux.read_scalability("x", text).cells["placement"].tolist() == ["2-3-3"]


def test_all_rows_of_pollux_are_read() -> None:
    tables = [
        pollux.read_placements(path.parent.name, path.read_text(encoding="utf-8"))
        for path in sorted((DATA / "pollux-profiles").glob("*/placements.csv"))
    ]

    table = pollux.join(tables)

    assert len(table) == 5542
    assert len(set(table.cells["placement"])) == 69


def test_bandwidths_of_all_reduces_become_times() -> None:
    table = all_reduce.read(read("ml-engineering-allreduce/allreduce_bandwidth.csv"))

    rows = {
        (row[0], row[2], row[4]): row
        for row in zip(*(cells.tolist() for cells in table.cells.values()), strict=True)
    }
    assert len(table) == 98  # two of a hundred are rounded to next to nothing
    assert rows["8xB200", 4, 2**32][5] == pytest.approx(0.02205, abs=5e-6)
    assert rows["8xB200", 4, 2**32][3] == 3200
    assert rows["8xB200", 1, 2**32][5] == pytest.approx(0.01015, abs=5e-6)
    assert rows["8xA100", 1, 32768][5] == pytest.approx(43.83e-6)
    assert rows["8xH200", 1, 2**30][5] == pytest.approx(2**30 / 264.9e9)


def test_measurements_with_another_algorithm_are_systems_of_their_own() -> None:
    table = all_reduce.read(read("ml-engineering-allreduce/allreduce_bandwidth.csv"))

    assert sorted(set(table.cells["system"])) == [
        "8xA100",
        "8xB200",
        "8xB200, NVLS off",
        "8xH200",
        "8xH200, NVLS off",
    ]


def test_mlperf_scales_as_published() -> None:
    scales = mlperf.read(read("mlperf-training/runs_v2.1.csv"))
    found = {(scale.submitter, scale.benchmark, scale.accelerators): scale for scale in scales}

    eight, many = found["Azure", "resnet", 8], found["Azure", "resnet", 64]
    assert eight.global_batch == many.global_batch == 3264
    assert eight.minutes == pytest.approx(29.39, abs=0.005)
    assert many.minutes == pytest.approx(4.587, abs=0.001)
    assert eight.minutes / many.minutes == pytest.approx(6.41, abs=0.005)
    assert eight.minutes / many.minutes / 8 == pytest.approx(0.80, abs=0.005)
    bert = {
        (scale.accelerators, scale.global_batch): scale.minutes
        for scale in scales
        if scale.benchmark == "bert" and scale.system.startswith("dgxa100")
    }
    assert bert == pytest.approx({(8, 448): 16.55, (64, 3072): 2.497}, abs=0.005)


def test_aborted_runs_do_not_count() -> None:
    scales = mlperf.read(read("mlperf-training/runs_v2.1.csv"))

    runs = [scale.runs for scale in scales if scale.system == "dgxh100_preview"]
    assert runs == [9]
