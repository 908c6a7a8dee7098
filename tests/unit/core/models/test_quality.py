"""What was held out is asked about once, and no group is on both sides."""

import json

import numpy as np
import pytest

from ebbtide.core.models import quality
from ebbtide.core.models.forecast import Forecast, Spread
from ebbtide.core.models.quality import Asked, Errors, Quality, Scores
from ebbtide.core.models.table import Column, DataError, Table
from support.plain_model import PLAIN, SECONDS, WORKLOAD

GROUPS = np.array(["a", "b", "a", "c", "d", "e", "e"], dtype=object)


def chance(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def test_one_group_after_the_other_is_left_out() -> None:
    splits = list(quality.leave_one_out(GROUPS))

    assert [held.tolist() for _, held in splits] == [[0, 2], [1], [3], [4], [5, 6]]
    for known, held in splits:
        assert sorted([*known, *held]) == list(range(7))
        assert not set(GROUPS[known]) & set(GROUPS[held])


def test_folds_hold_out_whole_groups_and_every_row_once() -> None:
    splits = list(quality.fold_by(GROUPS, chance=chance(), folds=3))

    assert len(splits) == 3
    assert sorted(np.concatenate([held for _, held in splits])) == list(range(7))
    for known, held in splits:
        assert not set(GROUPS[known]) & set(GROUPS[held])


def test_rows_at_random_are_each_held_out_once() -> None:
    splits = list(quality.at_random(11, chance=chance()))

    assert len(splits) == 5
    assert sorted(np.concatenate([held for _, held in splits])) == list(range(11))
    assert all(len(known) + len(held) == 11 for known, held in splits)


def test_the_same_seed_deals_the_same() -> None:
    first, second, other = (
        [held.tolist() for _, held in quality.at_random(50, chance=chance(seed))]
        for seed in (1, 1, 2)
    )

    assert first == second
    assert first != other


def test_what_cannot_be_dealt_says_why() -> None:
    with pytest.raises(DataError, match=r"only one group \(a\)"):
        next(quality.leave_one_out(GROUPS[[0, 2]]))
    with pytest.raises(DataError, match="4 groups cannot be dealt into 5 folds"):
        next(quality.fold_by(GROUPS[:5], chance=chance()))
    with pytest.raises(DataError, match="4 rows cannot be dealt into 5 folds"):
        next(quality.at_random(4, chance=chance()))


def test_a_fit_never_sees_what_it_is_asked_about() -> None:
    table = Table.of(workload=["a", "a", "b", "c"], seconds=[1, 3, 10, 20])
    seen: list[set[object]] = []

    def fit(known: Table) -> Asked:
        seen.append(set(known.texts(WORKLOAD)))
        return PLAIN.methods["means"](known).predict

    held = quality.hold_out(table, quality.leave_one_out(table.texts(WORKLOAD)), fit)

    assert seen == [{"b", "c"}, {"a", "c"}, {"a", "b"}]
    assert held.rows.tolist() == [0, 1, 2, 3]
    assert held.forecast.value.tolist() == [15, 15, 8, pytest.approx(14 / 3)]
    assert held.forecast.beyond.all()


def test_errors_are_of_all_and_of_each_group() -> None:
    measured = np.array([1.0, 2.0, 4.0])
    forecast = Spread(low=0.9, high=1.2).around(np.array([1.1, 2.0, 2.0]))

    found = quality.judge(
        measured,
        forecast,
        groups=np.array(["x", "x", "y"], dtype=object),
        split="leave-one-out:w",
        samples=3,
    )

    assert found.errors is not None
    assert found.errors.to_json() == pytest.approx({"mae": 0.7, "mape": 0.2, "samples": 3})
    assert found.by_group["y"] == Errors(mae=2.0, mape=0.5, samples=1)
    assert list(found.by_group) == ["x", "y"]
    assert found.coverage == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    "original",
    [
        pytest.param(Quality(samples=1, split="none"), id="nothing held out"),
        pytest.param(
            Quality(
                samples=3,
                split="random",
                errors=Errors(mae=1 / 3, mape=0.1, samples=3),
                by_group={"a": Errors(mae=0.2, mape=2 / 7, samples=2)},
                coverage=0.9,
            ),
            id="held out",
        ),
        pytest.param(
            Quality(
                samples=30,
                split="fold:pool",
                errors=Scores(ks=1 / 7, integrated_brier=0.1, samples=30),
                by_group={"a": Scores(ks=0.2, integrated_brier=0.12, samples=30)},
                coverage=0.9,
            ),
            id="survival",
        ),
    ],
)
def test_quality_comes_back_from_json_as_it_was(original: Quality) -> None:
    assert Quality.from_json(json.loads(json.dumps(original.to_json()))) == original


def test_a_forecast_holds_arrays_of_its_rows() -> None:
    forecast = PLAIN.methods["overall"](Table.of(workload=["a"], seconds=[2])).predict(
        Table.of(workload=["a", "b"])
    )

    assert isinstance(forecast, Forecast)
    assert {len(part) for part in (forecast.value, forecast.low, forecast.high)} == {2}
    assert Column(name="x", unit="text").is_text
    assert not SECONDS.is_text
