"""The files of CM-DARE become samples."""

from pathlib import Path

import pytest

from ebbtide.core.models import checkpoint, start_up
from ebbtide.core.models.step_time.setups import FLOPS, GPU, LOCAL_BATCH, STEP_TIME, WORKLOAD
from ebbtide.core.models.table import DataError
from ebbtide.data.shapes import cm_dare

DATA = Path(__file__).resolve().parents[2] / "data" / "cm-dare"


def text(*parts: str) -> str:
    return DATA.joinpath(*parts).read_text(encoding="utf-8")


def test_the_table_of_twenty_gives_a_row_for_each_gpu_type() -> None:
    table = cm_dare.read_means(text("derived", "models20.csv"))

    assert len(table) == 40
    assert table.texts(GPU)[20] == "P100"
    assert table.texts(WORKLOAD)[20] == "ResNet-15"
    assert table.numbers(FLOPS)[20] == 630_989_589
    assert table.numbers(LOCAL_BATCH)[20] == 128
    assert table.numbers(STEP_TIME)[20] == 0.040626


def test_readings_keep_what_the_file_leaves_empty() -> None:
    table = cm_dare.read_steps(text("raw", "speed_data", "0latency_p100_new2.csv"))

    assert len(table) == 260
    assert table.cells["tensors"].tolist().count("") == 52


def test_checkpoints_come_as_means_and_one_by_one() -> None:
    means = cm_dare.read_checkpoint_means(text("derived", "models20.csv"))
    single = cm_dare.read_checkpoints(text("raw", "checkpoint", "whole_data.csv"))

    assert (len(means), len(single)) == (20, 100)
    assert means.numbers(checkpoint.SIZE)[0] == single.numbers(checkpoint.SIZE)[0] == 6.27


def test_each_start_gives_three_stages() -> None:
    table = cm_dare.read_start_ups({"spot": text("raw", "startup_time", "pre_west_p100.csv")})

    assert len(table) == 24
    assert set(table.texts(start_up.STAGE)) == set(start_up.NODE_STAGES)


def test_windows_of_the_warm_up_are_left_out() -> None:
    assert len(cm_dare.read_speeds(text("raw", "speed_base", "res15k80.csv"))) == 38


@pytest.mark.parametrize("read", [cm_dare.read_means, cm_dare.read_steps, cm_dare.read_speeds])
def test_another_shape_is_refused(read: object) -> None:
    assert callable(read)
    with pytest.raises(DataError, match="no column"):
        list(read("a,b\n1,2\n"))
