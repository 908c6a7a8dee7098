"""The two tables of measured clusters become samples of the parameter-server model."""

from pathlib import Path

import numpy as np
import pytest

from ebbtide.core.models.clusters import BYTES, GPU, SERVERS, SPEED, WORKERS, WORKLOAD
from ebbtide.core.models.table import DataError
from ebbtide.data.shapes import cluster_speed

DATA = Path(__file__).resolve().parents[2] / "data" / "cm-dare"
RUNS = (DATA / "icac19" / "training_runs_resnet32_64k_steps.csv").read_text(encoding="utf-8")


def test_each_row_becomes_a_sample() -> None:
    table = cluster_speed.read((DATA / "derived" / "cluster_speed.csv").read_text(encoding="utf-8"))

    assert len(table) == 96
    assert table.take(table.texts(WORKLOAD) == "shakebig").numbers(BYTES)[0] == 104_817_448
    last = table.take(np.array([95]))
    assert (last.texts(GPU)[0], last.numbers(SERVERS)[0], last.numbers(WORKERS)[0]) == (
        "P100",
        2,
        8,
    )
    assert last.numbers(SPEED)[0] == 6.54


def test_a_model_whose_size_is_not_known_is_refused() -> None:
    with pytest.raises(DataError, match="no model vgg; known are res15"):
        cluster_speed.read("gpu,n_ps,model,workers,speed\nK80,1,vgg,1,2.0\n")


def test_runs_of_one_kind_of_worker_become_samples() -> None:
    table = cluster_speed.read_runs(RUNS)

    assert sorted(set(table.texts(GPU))) == ["K80", "P100", "V100"]
    v100 = (table.texts(GPU) == "V100") & (table.numbers(SERVERS) == 2)
    assert sorted(set(table.take(v100).numbers(WORKERS))) == [2, 3, 4, 5, 6, 7, 8]
    alone = table.take((table.texts(GPU) == "K80") & (table.numbers(WORKERS) == 1))
    assert 64_000 / (64_000 / alone.numbers(SPEED)).mean() == pytest.approx(4.545, abs=0.001)


def test_both_tables_go_one_below_the_other() -> None:
    speeds = (DATA / "derived" / "cluster_speed.csv").read_text(encoding="utf-8")

    both = cluster_speed.read_all(speeds, RUNS)

    assert len(both) == 96 + len(cluster_speed.read_runs(RUNS))
    assert both.texts(GPU)[0] == "K80"


def test_spot_clusters_that_lost_workers_are_no_samples() -> None:
    text = "experiment,duration_s\nk80_spot/4-spot,3749\nexperiment_cross_region/2e2c,4408\n"

    assert len(cluster_speed.read_runs(text)) == 0


def test_mixed_clusters_are_read_by_their_names() -> None:
    mixed = cluster_speed.read_mixed(RUNS)

    assert [(cluster.workers, cluster.runs) for cluster in mixed] == [
        ({"V100": 1, "P100": 1, "K80": 2}, 10),
        ({"V100": 1, "P100": 2, "K80": 1}, 10),
        ({"V100": 2, "P100": 1, "K80": 1}, 10),
    ]
    assert [cluster.speed for cluster in mixed] == pytest.approx([32.0, 35.8, 36.4], abs=0.05)
