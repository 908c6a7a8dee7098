"""Step time by the local batch: lines, breakpoints, and batches never measured."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from ebbtide.core.models.batch_curve import (
    Curve,
    fit_curve,
    fit_line,
    fit_two_lines,
    left_out,
)
from ebbtide.core.models.table import DataError, Floats

PROFILES = Path(__file__).resolve().parents[3] / "data" / "pollux-profiles"


def one_gpu(workload: str) -> tuple[Floats, Floats]:
    with (PROFILES / workload / "placements.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["placement"] == "1"]
    batch = np.array([float(row["local_bsz"]) for row in rows])
    return batch, np.array([float(row["step_time"]) for row in rows])


def percent_off(curve: Curve, batch: Floats, seconds: Floats) -> float:
    return float(100 * np.abs(curve.at(batch) / seconds - 1).mean())


@pytest.mark.parametrize(
    ("workload", "line", "two_lines", "start"),
    [
        pytest.param("bert", 0.8, 0.3, 8, id="bert"),
        pytest.param("cifar10", 1.8, 0.6, 64, id="cifar10"),
        pytest.param("deepspeech2", 5.3, 0.9, 40, id="deepspeech2"),
        pytest.param("imagenet", 3.1, 0.3, 40, id="imagenet"),
        pytest.param("ncf", 3.8, 1.0, 1025, id="ncf"),
        pytest.param("yolov3", 14.7, 7.3, 8, id="yolov3"),
    ],
)
def test_lines_are_as_close_to_the_profiles_as_srifty_checks_1_and_2_say(
    workload: str, line: float, two_lines: float, start: int
) -> None:
    batch, seconds = one_gpu(workload)

    broken = fit_two_lines(batch, seconds)

    assert broken is not None
    assert broken.after == start
    assert percent_off(fit_line(batch, seconds), batch, seconds) == pytest.approx(line, abs=0.1)
    assert percent_off(broken, batch, seconds) == pytest.approx(two_lines, abs=0.1)


@pytest.mark.parametrize(
    ("workload", "constant", "per_sample"),
    [
        pytest.param("imagenet", 0.0719, 0.004313, id="imagenet"),
        pytest.param("bert", 0.2233, 0.05825, id="bert"),
    ],
)
def test_a_line_has_the_coefficients_of_srifty_check_1(
    workload: str, constant: float, per_sample: float
) -> None:
    line = fit_line(*one_gpu(workload)).first

    assert line.constant == pytest.approx(constant, rel=0.02)
    assert line.per_sample == pytest.approx(per_sample, rel=0.02)


@pytest.mark.parametrize(
    ("workload", "is_broken"),
    [
        pytest.param("deepspeech2", True, id="deepspeech2"),
        pytest.param("imagenet", True, id="imagenet"),
        pytest.param("ncf", True, id="ncf"),
        pytest.param("bert", False, id="bert: five points say nothing"),
    ],
)
def test_a_breakpoint_is_taken_where_points_left_out_are_met_better(
    workload: str, *, is_broken: bool
) -> None:
    curve = fit_curve(*one_gpu(workload))

    assert (curve.second is not None) == is_broken


def test_a_noisy_line_seldom_gets_a_breakpoint() -> None:
    chance = np.random.default_rng(1)
    batch = np.array([8.0, 12, 16, 24, 32, 48, 64, 96, 128, 192])

    curves = [
        fit_curve(batch, (0.1 + 0.01 * batch) * np.exp(chance.normal(0, 0.03, len(batch))))
        for _ in range(40)
    ]

    assert sum(curve.second is not None for curve in curves) <= 8


def test_repeats_of_a_batch_count_as_one_point() -> None:
    batch, seconds = np.array([1.0, 2, 4, 8]), np.array([1.0, 2, 4, 8.5])

    once = fit_line(batch, seconds)
    often = fit_line(np.concatenate([batch, batch[3:]]), np.concatenate([seconds, seconds[3:]]))

    assert often == once


def test_one_batch_gives_time_in_proportion_above_and_no_less_below() -> None:
    curve = fit_curve(np.array([32.0]), np.array([0.5]))

    assert curve.at(np.array([8.0, 32, 64])).tolist() == [0.5, 0.5, 1.0]
    assert curve.is_beyond(np.array([8.0, 32, 64])).tolist() == [True, False, True]


def test_a_batch_between_two_lines_lies_on_the_way_from_one_to_the_other() -> None:
    batch, seconds = one_gpu("imagenet")
    curve = fit_curve(batch, seconds)
    assert curve.second is not None

    ends = curve.at(np.array([curve.before, curve.after]))
    middle = curve.at(np.array([(curve.before + curve.after) / 2]))

    assert middle[0] == pytest.approx(ends.mean())


def test_a_time_that_falls_with_the_batch_is_taken_for_flat() -> None:
    curve = fit_line(np.array([1.0, 2, 3]), np.array([3.0, 2.9, 2.8]))

    assert curve.first.per_sample == 0
    assert 2.8 < curve.first.constant < 3


def test_a_line_is_positive_where_times_grow_by_powers() -> None:
    curve = fit_line(np.array([1.0, 2, 3]), np.array([1.0, 100, 10_000]))

    assert curve.at(np.array([0.01, 1, 2, 3])).min() > 0


@pytest.mark.parametrize(
    ("batch", "seconds", "complaint"),
    [
        pytest.param([], [], "one of each is needed", id="nothing"),
        pytest.param([1.0, 2], [1.0], "one of each is needed", id="lengths differ"),
        pytest.param([1.0, np.nan], [1.0, 1], "no finite number", id="NaN"),
        pytest.param([1.0, 2], [1.0, 0], "zero or negative", id="zero"),
    ],
)
def test_points_without_sense_are_refused(
    batch: list[float], seconds: list[float], complaint: str
) -> None:
    with pytest.raises(DataError, match=complaint):
        fit_curve(np.array(batch), np.array(seconds))


def test_too_few_points_have_no_breakpoint() -> None:
    assert fit_two_lines(np.array([1.0, 2, 3]), np.array([1.0, 2, 3])) is None


def test_a_curve_comes_back_from_json_as_it_was() -> None:
    for curve in (fit_curve(*one_gpu("ncf")), fit_curve(*one_gpu("bert"))):
        assert Curve.from_json(json.loads(json.dumps(curve.to_json()))) == curve


def test_points_left_out_keep_the_breakpoint() -> None:
    batch, seconds = one_gpu("ncf")
    curve = fit_curve(batch, seconds)

    residuals = left_out(curve, batch, seconds)

    assert len(residuals) == len(batch)
    assert np.abs(residuals).mean() < 0.03
