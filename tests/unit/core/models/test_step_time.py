"""Step times of workloads known here, known elsewhere, and never seen; and data without sense."""

import functools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebbtide.core.models.quality import Errors, Quality, hold_out, judge, leave_one_out
from ebbtide.core.models.step_time import KIND
from ebbtide.core.models.step_time.model import StepTimeModel
from ebbtide.core.models.step_time.setups import GPU, STEP_TIME, WORKLOAD
from ebbtide.core.models.stored import seal
from ebbtide.core.models.table import DataError, Table
from ebbtide.data.shapes import cm_dare

DATA = Path(__file__).resolve().parents[3] / "data" / "cm-dare"
MEANS = cm_dare.read_means((DATA / "derived" / "models20.csv").read_text(encoding="utf-8"))
READINGS = cm_dare.read_steps(
    (DATA / "raw" / "speed_data" / "0latency_norm_computation.csv").read_text(encoding="utf-8")
)
NAMES = tuple(KIND.methods)


@functools.cache
def held_out(method: str) -> Quality:
    """Leave one model out of the means, on both GPU types."""
    fit = KIND.methods[method]
    names = MEANS.texts(WORKLOAD)
    found = hold_out(MEANS, leave_one_out(names), lambda rest: fit(rest).predict)
    return judge(
        MEANS.numbers(STEP_TIME)[found.rows],
        found.forecast,
        groups=MEANS.texts(GPU)[found.rows],
        split="leave-one-out:workload",
        samples=len(MEANS),
    )


def mape(quality: Quality, gpu: str) -> float:
    errors = quality.by_group[gpu]
    assert isinstance(errors, Errors)
    return errors.mape


def table(*rows: Sequence[Any]) -> Table:
    """Rows of gpu, workload, flops, tensors, batch, seconds."""
    names = ("gpu", "workload", "flops", "tensors", "local_batch", "step_time_s")
    return Table.of(**{name: [row[place] for row in rows] for place, name in enumerate(names)})


def physical(samples: Table) -> StepTimeModel:
    model = KIND.methods["physical"](samples)
    assert isinstance(model, StepTimeModel)
    return model


def grid(gpu: str, *, slower: float = 1.0) -> list[tuple[Any, ...]]:
    """Six workloads that follow the three terms, at four batches."""
    return [
        (
            gpu,
            f"net{number}",
            number * 1e9,
            20 * number * number,
            batch,
            slower * (0.01 + 1e-12 * number * 1e9 * batch + 1e-4 * 20 * number * number),
        )
        for number in range(1, 7)
        for batch in (16, 32, 64, 128)
    ]


# ---------------------------------------------------------------- workloads never seen


def test_an_unseen_workload_is_met_better_than_by_terms_of_each_gpu_type_alone() -> None:
    shared, alone = held_out("physical"), held_out("physical-alone")

    assert mape(alone, "K80") == pytest.approx(0.0373, abs=0.0001)
    assert mape(alone, "P100") == pytest.approx(0.0790, abs=0.0001)
    assert mape(shared, "K80") <= 0.0365
    assert mape(shared, "P100") <= 0.0775
    assert shared.coverage is not None
    assert 0.85 <= shared.coverage <= 0.95


def test_the_regressions_of_the_paper_are_farther_off_for_unseen_workloads() -> None:
    physics = held_out("physical")

    for method in ("linear", "svr-rbf", "agnostic-linear"):
        regression = held_out(method)
        assert mape(regression, "K80") > 2 * mape(physics, "K80"), method
        assert mape(regression, "P100") > 1.8 * mape(physics, "P100"), method


def test_a_model_knows_its_held_out_error() -> None:
    quality = physical(READINGS).quality

    assert quality.samples == 520
    assert quality.split == "leave-one-out:workload"
    assert mape(quality, "K80") == pytest.approx(0.0363, abs=0.001)
    assert quality.coverage == pytest.approx(0.9)


def test_a_new_gpu_type_with_two_workloads_takes_the_proportions_of_the_others() -> None:
    few = [row for row in grid("new", slower=0.5) if row[1] in {"net2", "net5"}]
    model = physical(table(*grid("old"), *few))

    asked = table(("new", "other", 4e9, 300, 64, 1.0))

    truth = 0.5 * (0.01 + 1e-12 * 4e9 * 64 + 1e-4 * 300)
    assert model.predict(asked).value[0] == pytest.approx(truth, rel=0.02)


def test_a_workload_outside_the_range_of_those_seen_is_marked_and_its_interval_is_wider() -> None:
    model = physical(MEANS)

    found = model.predict(table(("K80", "a", 5e9, 200, 128, 1.0), ("K80", "b", 5e11, 200, 128, 1)))

    assert found.beyond.tolist() == [False, True]
    assert found.high[1] / found.value[1] > found.high[0] / found.value[0]


def test_few_workloads_give_time_by_flops_and_all_is_beyond_the_data() -> None:
    model = physical(table(("V100", "one", 1e9, 50, 32, 0.1)))

    found = model.predict(table(("V100", "two", 2e9, 80, 32, 1.0)))

    assert found.value[0] == pytest.approx(0.2)
    assert found.beyond[0]
    assert found.low[0] < 0.1
    assert found.high[0] > 0.4
    assert model.quality.errors is None


def test_tensors_that_some_samples_lack_are_taken_from_others_of_their_workload() -> None:
    rows = grid("old")
    gaps = [(*row[:3], "-" if place % 4 else row[3], *row[4:]) for place, row in enumerate(rows)]

    full, patched = physical(table(*rows)), physical(table(*gaps))

    assert patched.parameters() == full.parameters()


def test_without_any_tensors_two_terms_are_left() -> None:
    rows = [(*row[:3], "-", *row[4:]) for row in grid("old")]
    model = physical(table(*rows))

    found = model.predict(table(("old", "other", 3e9, "-", 32, 1.0)))

    assert 0.05 < found.value[0] < 0.3
    assert not found.beyond[0]


# ---------------------------------------------------------------- workloads measured here


def test_a_known_workload_answers_by_its_own_curve() -> None:
    model = physical(table(*grid("old")))

    found = model.predict(table(("old", "net3", "-", "-", 48, 1.0)))

    assert found.value[0] == pytest.approx(0.01 + 1e-12 * 3e9 * 48 + 1e-4 * 180, rel=1e-6)
    assert found.high[0] / found.low[0] < 1.03
    assert not found.beyond[0]


def test_a_batch_never_measured_is_marked() -> None:
    model = physical(table(*grid("old")))

    found = model.predict(table(("old", "net3", "-", "-", 512, 1.0)))

    assert found.beyond[0]


def test_a_known_workload_that_changed_is_slower_by_the_terms_and_marked() -> None:
    model = physical(table(*grid("old")))

    found = model.predict(
        table(("old", "net3", 3e9, 180, 32, 1.0), ("old", "net3", 6e9, 180, 32, 1.0))
    )

    assert found.value[1] - found.value[0] == pytest.approx(1e-12 * 3e9 * 32, rel=0.01)
    assert found.beyond.tolist() == [False, True]


def test_readings_of_one_setup_tell_how_far_it_varies() -> None:
    model = physical(READINGS)

    found = model.predict(READINGS)
    seconds = READINGS.numbers(STEP_TIME)

    inside = (found.low <= seconds) & (seconds <= found.high)
    assert 0.85 <= inside.mean() <= 0.95
    assert np.abs(found.value / seconds - 1).mean() < 0.015


# ---------------------------------------------------------------- workloads measured elsewhere


def oddly(rows: list[tuple[Any, ...]], factors: Sequence[float]) -> list[tuple[Any, ...]]:
    """Make each workload slower or faster than the terms say."""
    return [(*row[:5], row[5] * factors[int(row[1][3:]) - 1]) for row in rows]


ODD = (0.8, 1.3, 0.9, 1.2, 0.7, 1.25)


def test_a_workload_takes_its_oddity_along_where_gpu_types_agree_on_it() -> None:
    rows = oddly(grid("old"), ODD) + oddly(grid("new", slower=0.4), ODD)
    known = [row for row in rows if row[:2] != ("new", "net5")]
    held = [row for row in rows if row[:2] == ("new", "net5")]

    found = physical(table(*known)).predict(table(*held))
    seconds = np.array([row[5] for row in held])

    unseen = [(*row[:1], "other", *row[2:]) for row in held]
    plain = physical(table(*known)).predict(table(*unseen))
    assert np.abs(found.value / seconds - 1).max() < 0.15
    assert np.abs(found.value / seconds - 1).mean() < 0.5 * np.abs(plain.value / seconds - 1).mean()


def test_where_gpu_types_do_not_agree_the_terms_answer() -> None:
    """Readings of K80 say nothing about P100 that FLOPs and tensors do not (correlation -0.05)."""
    names, gpus = MEANS.texts(WORKLOAD), MEANS.texts(GPU)
    off = []
    for name in sorted(set(names.tolist())):
        held = (names == name) & (gpus == "P100")
        found = physical(MEANS.take(~held)).predict(MEANS.take(held))
        off.append(abs(found.value[0] / MEANS.take(held).numbers(STEP_TIME)[0] - 1))

    assert np.mean(off) < 0.08


def test_without_flops_a_ratio_of_gpu_types_is_learned() -> None:
    def plain(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return [(*row[:2], "-", "-", *row[4:]) for row in rows]

    rows = plain(grid("old") + grid("new", slower=0.4))
    known = [row for row in rows if row[:2] != ("new", "net4")]
    model = physical(table(*known))

    found = model.predict(table(("new", "net4", "-", "-", 64, 1.0)))

    truth = 0.4 * (0.01 + 1e-12 * 4e9 * 64 + 1e-4 * 320)
    assert found.value[0] == pytest.approx(truth, rel=0.05)
    assert model.quality.errors is None
    with pytest.raises(DataError, match="row 2: 'fresh' was not measured on new"):
        model.predict(table(("new", "fresh", 1e9, 50, 64, 1.0)))


def test_two_gpu_types_with_one_workload_in_common_have_a_ratio_with_a_wide_interval() -> None:
    model = physical(
        table(
            ("A", "one", "-", "-", "-", 0.1),
            ("B", "one", "-", "-", "-", 0.05),
            ("A", "two", "-", "-", "-", 0.3),
        )
    )

    found = model.predict(table(("B", "two", "-", "-", "-", 1.0)))

    assert found.value[0] == pytest.approx(0.15)
    assert found.high[0] / found.low[0] > 3


# ---------------------------------------------------------------- data without sense


@pytest.mark.parametrize(
    ("samples", "complaint"),
    [
        pytest.param(
            [("K80", "a", 1e9, 5, 8, 83_000)],
            "row 2: 83000 is not a number of s .* at most 3600",
            id="83",
        ),
        pytest.param([("K80", "a", 1e9, 5, 8, 0)], "row 2: 0 is not a number", id="zero"),
        pytest.param([("K80", "a", 1e9, 5, 8, -1)], "row 2: -1 is not a number", id="negative"),
        pytest.param([("K80", "a", 1e9, 5, 8, "nan")], "row 2: 'nan' is not a number", id="NaN"),
        pytest.param([("", "a", 1e9, 5, 8, 1)], "column gpu, row 2: empty", id="no gpu"),
        pytest.param([("K80", "a", 1e12, 5, 800, 1e-6)], "more than any GPU", id="too fast"),
        pytest.param([("K80", "a", 1e3, 5, 8, 100)], "less than anything", id="too slow"),
        pytest.param(
            [("K80", "a", 1e9, 5, 8, 0.1), ("P100", "a", 1e9, 5, 8, 50)],
            "row 3: 50 s, but row 2 has 0.1 s of the same workload a",
            id="types apart",
        ),
        pytest.param(
            [("K80", "a", 1e9, 5, 8, 0.1), ("K80", "b", 2e9, 5, "-", 0.2)],
            "column local_batch, row 3: absent, but row 2 has one",
            id="batch now and then",
        ),
        pytest.param(
            [("K80", "a", 1e9, 5, 8, 0.1), ("K80", "a", 3e9, 5, 8, 0.2)],
            "column flops, row 3: 3e.09, but row 2 says 1e.09 of workload a",
            id="two values of one workload",
        ),
    ],
)
@pytest.mark.parametrize("method", ["physical", "svr-rbf"])
def test_samples_without_sense_are_refused_by_column_and_row(
    samples: list[tuple[Any, ...]], complaint: str, method: str
) -> None:
    with pytest.raises(DataError, match=complaint):
        KIND.methods[method](table(*samples))


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_table_is_refused(name: str) -> None:
    with pytest.raises(DataError, match="no rows"):
        KIND.methods[name](MEANS.take(np.zeros(len(MEANS), dtype=np.bool_)))


@pytest.mark.parametrize("place", [0, 27, 39])
def test_one_step_time_in_milliseconds_among_others_in_seconds_is_refused(place: int) -> None:
    seconds = READINGS.cells["step_time_s"].copy()
    seconds[place] = float(seconds[place]) * 1_000

    mixed = Table({**READINGS.cells, "step_time_s": seconds}, READINGS.rows)

    with pytest.raises(DataError, match=f"column step_time_s, row {place + 2}: .* in seconds"):
        physical(mixed)


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        pytest.param(
            ("A100", "x", 1e9, 5, 8, 1), "'A100' is unknown; measured were: K80", id="gpu"
        ),
        pytest.param(("K80", "x", "-", 5, 8, 1), "column flops, row 2: absent", id="flops"),
        pytest.param(("K80", "x", 1e9, "-", 8, 1), "column tensors, row 2: absent", id="tensors"),
        pytest.param(("K80", "x", 1e9, 5, "-", 1), "local_batch, row 2: it is needed", id="batch"),
        pytest.param(("K80", "x", 0, 5, 8, 1), "column flops, row 2: 0 is not", id="zero"),
    ],
)
def test_questions_without_sense_are_refused(asked: tuple[Any, ...], complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        physical(MEANS).predict(table(asked))


def test_a_batch_is_refused_where_the_samples_had_none() -> None:
    model = physical(table(("A", "one", 1e9, 9, "-", 0.1)))

    with pytest.raises(DataError, match="not to be given"):
        model.predict(table(("A", "one", 1e9, 9, 8, 0.1)))


@pytest.mark.parametrize("name", NAMES)
def test_copies_of_a_row_change_nothing_but_the_count(name: str) -> None:
    doubled = MEANS.take(np.repeat(np.arange(len(MEANS)), 2))

    once, twice = KIND.methods[name](MEANS), KIND.methods[name](doubled)

    assert twice.quality.samples == 2 * once.quality.samples
    near = 0.06 if name.startswith(("svr", "agnostic-svr")) else 1e-6
    assert twice.predict(MEANS).value == pytest.approx(once.predict(MEANS).value, rel=near)


def test_copies_of_a_row_are_no_proof_that_it_is_exact() -> None:
    model = physical(table(*[("K80", "a", 1e9, 5, 8, 0.1)] * 50))

    found = model.predict(table(("K80", "a", 1e9, 5, 8, 0.1)))

    assert found.low[0] < 0.1 < found.high[0]


# ---------------------------------------------------------------- the regressions of the paper


@pytest.mark.parametrize("name", NAMES[2:])
def test_a_regression_needs_two_workloads(name: str) -> None:
    with pytest.raises(DataError, match="needs two workloads"):
        KIND.methods[name](
            Table.of(
                gpu=["K80"],
                workload=["a"],
                flops=[1e9],
                params=[1e6],
                tensors=[9],
                local_batch=[8],
                step_time_s=[0.1],
            )
        )


def test_a_regression_of_two_workloads_cannot_hold_one_out() -> None:
    model = KIND.methods["linear"](
        table(("K80", "a", 1e9, 9, 8, 0.1), ("K80", "b", 2e9, 9, 8, 0.2))
    )

    assert model.quality.errors is None
    found = model.predict(table(("K80", "c", 1.5e9, 9, 8, 1.0)))
    assert found.value[0] == pytest.approx(0.15)
    assert found.high[0] / found.low[0] >= 4


def test_a_line_below_zero_is_cut_and_marked() -> None:
    model = KIND.methods["linear"](
        table(*[("K80", f"n{n}", n * 1e9, 9, 8, 0.1 * n - 0.09) for n in range(1, 6)])
    )

    found = model.predict(table(("K80", "small", 1e8, 9, 8, 1.0)))

    assert found.value[0] == pytest.approx(0.001)
    assert found.beyond[0]


def test_a_regression_names_the_gpu_type_that_it_does_not_know() -> None:
    with pytest.raises(DataError, match="row 2: 'V100' is unknown; measured were: K80, P100"):
        KIND.methods["linear"](MEANS).predict(table(("V100", "a", 1e9, 9, 8, 1.0)))
    with pytest.raises(DataError, match="the peak of 'TPU' is not known"):
        KIND.methods["agnostic-linear"](MEANS).predict(table(("TPU", "a", 1e9, 9, 8, 1.0)))


def test_an_agnostic_regression_answers_for_a_gpu_type_never_measured() -> None:
    found = KIND.methods["agnostic-linear"](MEANS).predict(table(("V100", "a", 2e10, 9, 128, 1.0)))

    assert 0.05 < found.value[0] < 1


def test_a_regression_names_the_feature_that_it_misses() -> None:
    with pytest.raises(DataError, match="column params, row 2: absent, but this method needs it"):
        KIND.methods["multivariate"](table(("K80", "a", 1e9, 9, 8, 0.1)))


# ---------------------------------------------------------------- storage, time


@pytest.mark.parametrize("name", NAMES)
def test_a_model_comes_back_from_json_as_it_was(name: str) -> None:
    model = KIND.methods[name](MEANS)
    text = json.dumps(seal(KIND.name, model), allow_nan=False)

    again = KIND.from_json(json.loads(text))

    assert json.dumps(seal(KIND.name, again)) == text
    assert np.array_equal(again.predict(MEANS).high, model.predict(MEANS).high)


def test_models_without_terms_come_back_from_json_too() -> None:
    model = physical(table(("A", "one", "-", "-", "-", 0.1), ("B", "one", "-", "-", "-", 0.2)))

    again = KIND.from_json(json.loads(json.dumps(seal(KIND.name, model))))

    assert again.parameters() == model.parameters()
    assert math.isclose(again.predict(table(("A", "one", "-", "-", "-", 1))).value[0], 0.1)


def test_a_fit_is_the_same_each_time() -> None:
    assert physical(MEANS).parameters() == physical(MEANS).parameters()


def test_a_workload_known_at_one_batch_follows_the_terms_at_others() -> None:
    rows = [row for row in grid("K80") if row[1] != "net3"]
    one = next(row for row in grid("K80") if row[1] == "net3")
    gpu, workload, flops, tensors, batch, seconds = one
    model = physical(table(*rows, one))
    unseen = [(gpu, "new", flops, tensors, size, 1.0) for size in (batch, 4 * batch)]
    asked = [(gpu, workload, flops, tensors, size, 1.0) for size in (batch, 4 * batch)]

    terms = model.predict(table(*unseen)).value
    known = model.predict(table(*asked))

    assert known.value[0] == pytest.approx(seconds)
    assert known.value[1] / known.value[0] == pytest.approx(terms[1] / terms[0])
    assert known.beyond.tolist() == [False, True]
