"""The time of checkpoints from size and tensors, the checks of CM-DARE, and bad samples."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import KFold, train_test_split

from ebbtide.core.models.checkpoint import DURATION, KIND, WORKLOAD, CheckpointModel, size_mb
from ebbtide.core.models.quality import Errors, Quality, hold_out, judge, leave_one_out
from ebbtide.core.models.regression import (
    Regression,
    fit_linear,
    fit_principal,
    fit_support_vectors,
)
from ebbtide.core.models.stored import seal
from ebbtide.core.models.table import DataError, Floats, Table
from ebbtide.data.shapes import cm_dare

DATA = Path(__file__).resolve().parents[3] / "data" / "cm-dare"
MODELS = (DATA / "derived" / "models20.csv").read_text(encoding="utf-8")
WHOLE = (DATA / "raw" / "checkpoint" / "whole_data.csv").read_text(encoding="utf-8")
MEANS = cm_dare.read_checkpoint_means(MODELS)
NAMES = tuple(KIND.methods)


def held_out(method: str) -> Quality:
    fit = KIND.methods[method]
    names = MEANS.texts(WORKLOAD)
    found = hold_out(MEANS, leave_one_out(names), lambda rest: fit(rest).predict)
    return judge(
        MEANS.numbers(DURATION)[found.rows],
        found.forecast,
        groups=names[found.rows],
        split="leave-one-out:workload",
        samples=len(MEANS),
    )


def table(*rows: tuple[Any, ...]) -> Table:
    names = ("workload", "size_mb", "tensors", "duration_s")
    return Table.of(**{name: [row[place] for row in rows] for place, name in enumerate(names)})


def physical(samples: Table) -> CheckpointModel:
    model = KIND.methods["physical"](samples)
    assert isinstance(model, CheckpointModel)
    return model


@pytest.mark.parametrize(
    ("method", "bar"),
    [
        pytest.param("physical-size", 0.0705, id="from size"),
        pytest.param("physical", 0.058, id="with tensors"),
    ],
)
def test_an_unseen_model_is_met_as_well_as_the_bar_asks(method: str, bar: float) -> None:
    quality = held_out(method)

    assert isinstance(quality.errors, Errors)
    assert quality.errors.mape <= bar
    assert quality.coverage is not None
    assert 0.85 <= quality.coverage <= 0.95


def test_support_vectors_fail_for_unseen_models() -> None:
    quality = held_out("svr-rbf")

    assert isinstance(quality.errors, Errors)
    assert quality.errors.mape > 0.15


# ---------------------------------------------------------------- checks of CM-DARE


def column(title: str) -> Floats:
    return np.array([float(row[title]) for row in csv.DictReader(io.StringIO(WHOLE))])


def support_vectors(features: Floats, target: Floats) -> Regression:
    return fit_support_vectors(features, target, kernel="rbf", cost=10.0, margin=0.14)


def principal(features: Floats, target: Floats) -> Regression:
    return fit_principal(features, target, components=2)


@pytest.mark.parametrize(
    ("how", "titles", "k_fold", "mae", "mape"),
    [
        pytest.param(fit_linear, ["Checkpoint Size (MB)"], 0.345, 0.356, 7.98, id="linear"),
        pytest.param(
            fit_linear, ["Weight File Size", "Meta File Size"], 0.291, 0.353, 7.75, id="two files"
        ),
        pytest.param(
            principal,
            ["Weight File Size", "Meta File Size", "Index File Size"],
            0.286,
            0.354,
            7.80,
            id="principal",
        ),
        pytest.param(
            support_vectors, ["Checkpoint Size (MB)"], 0.198, 0.245, 5.38, id="support vectors"
        ),
    ],
)
def test_check_9_regressions_of_the_paper(
    how: Any, titles: list[str], k_fold: float, mae: float, mape: float
) -> None:
    features, seconds = np.column_stack([column(title) for title in titles]), column("Duration")
    known, asked, target, truth = train_test_split(features, seconds, test_size=0.2, random_state=0)

    folds = [
        np.abs(how(known[a], target[a]).at(known[b]) - target[b]).mean()
        for a, b in KFold(10).split(known)
    ]
    off = np.abs(how(known, target).at(asked) - truth)

    assert np.mean(folds) == pytest.approx(k_fold, abs=0.002)
    assert off.mean() == pytest.approx(mae, abs=0.002)
    assert 100 * (off / truth).mean() == pytest.approx(mape, abs=0.2)


def test_check_9_what_the_regressions_predict() -> None:
    features, seconds = column("Checkpoint Size (MB)")[:, None], column("Duration")
    known, _, target, _ = train_test_split(features, seconds, test_size=0.2, random_state=0)

    radial = support_vectors(known, target).at(np.array([[204.04]]))
    line = fit_linear(known, target).at(np.array([[15.99]]))

    assert radial[0] == pytest.approx(7.46, abs=0.05)
    assert line[0] == pytest.approx(3.96, abs=0.02)


def test_check_10_sizes_follow_from_parameters_and_one_slot() -> None:
    rows = list(csv.DictReader(io.StringIO(MODELS)))

    off = [size_mb(float(row["params"])) / float(row["ckpt_data_mb"]) - 1 for row in rows]
    sums = {
        row["model"]: float(row["ckpt_data_mb"])
        + float(row["ckpt_meta_mb"])
        + float(row["ckpt_index_kb"]) / 1024
        - float(row["ckpt_size_mb"])
        for row in rows
    }

    assert np.abs(off).max() < 0.005
    assert [name for name, left in sums.items() if abs(left) > 0.0101] == ["Shake 64"]


# ---------------------------------------------------------------- answers, bad samples


def test_optimisers_with_two_slots_make_larger_checkpoints() -> None:
    assert size_mb(2**20) == 8
    assert size_mb(2**20, slots=2) == 12
    assert size_mb(2**20, slots=0) == 4


@pytest.mark.parametrize(("params", "slots"), [(0, 1), (-5, 1), (float("nan"), 1), (1e6, -1)])
def test_a_size_without_sense_is_refused(params: float, slots: int) -> None:
    with pytest.raises(DataError, match="parameter"):
        size_mb(params, slots=slots)


def test_a_checkpoint_larger_than_any_seen_is_marked() -> None:
    found = physical(MEANS).predict(table(("x", 100, 216, 1), ("x", 1_000, 216, 1)))

    assert found.beyond.tolist() == [False, True]
    assert found.value[1] > found.value[0]


def test_one_size_alone_gives_its_mean_with_a_wide_interval_elsewhere() -> None:
    model = physical(table(("a", 100, 50, 4.0), ("a", 100, 50, 6.0)))

    found = model.predict(table(("x", 100, 50, 1), ("x", 200, 50, 1)))

    assert found.value.tolist() == [5.0, 5.0]
    assert found.beyond.tolist() == [False, True]
    assert found.high[1] >= 20
    assert model.quality.errors is None


def test_samples_without_tensors_are_answered_by_size() -> None:
    model = physical(cm_dare.read_checkpoints(WHOLE))

    found = model.predict(Table.of(size_mb=[100.0]))

    assert not model.needs_tensors
    assert 5 < found.value[0] < 7


def test_a_question_without_the_tensors_that_the_model_needs_is_refused() -> None:
    with pytest.raises(DataError, match="column tensors, row 2: absent"):
        physical(MEANS).predict(Table.of(size_mb=[100.0]))


def test_a_line_below_zero_is_cut_and_marked() -> None:
    model = KIND.methods["linear"](table(*[("w" + str(n), n, 5, n - 0.9) for n in range(1, 6)]))

    found = model.predict(table(("x", 0.5, 5, 1)))

    assert found.value[0] == pytest.approx(0.01)
    assert found.beyond[0]


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        pytest.param([("a", 100, 5, 0)], "column duration_s, row 2: 0 is not", id="zero"),
        pytest.param([("a", -1, 5, 1)], "column size_mb, row 2: -1 is not", id="negative"),
        pytest.param([("a", "nan", 5, 1)], "column size_mb, row 2: 'nan' is not", id="NaN"),
        pytest.param([("a", 1, 5, 1e6)], "at most 86400", id="more than a day"),
        pytest.param([("", 1, 5, 1)], "column workload, row 2: empty", id="no name"),
        pytest.param(
            [("a", 10, 5, 3), ("b", 20, 5, 4), ("c", 30, 5, 5_000)],
            "column duration_s, row 4: 5000 s, but half of the times are below 4 s",
            id="milliseconds",
        ),
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_samples_without_sense_are_refused_by_column_and_row(
    rows: list[tuple[Any, ...]], complaint: str, name: str
) -> None:
    with pytest.raises(DataError, match=complaint):
        KIND.methods[name](table(*rows))


def test_an_empty_table_is_refused() -> None:
    with pytest.raises(DataError, match="no rows"):
        physical(MEANS.take(np.zeros(len(MEANS), dtype=np.bool_)))


@pytest.mark.parametrize("name", NAMES)
def test_a_model_comes_back_from_json_as_it_was(name: str) -> None:
    model = KIND.methods[name](MEANS)
    text = json.dumps(seal(KIND.name, model), allow_nan=False)

    again = KIND.from_json(json.loads(text))

    assert json.dumps(seal(KIND.name, again)) == text
    assert np.array_equal(again.predict(MEANS).low, model.predict(MEANS).low)
