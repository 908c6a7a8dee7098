"""A law of life on a grid, and what is assumed beyond it."""

import numpy as np
import pytest

from ebbtide.core.models.survival import Survival


def test_a_law_is_sampled_and_read_between_its_ages() -> None:
    lives = Survival.of(lambda ages: np.exp(-ages / 3600), unit_s=60, until_s=7200)

    assert lives.end_s == 7200
    assert lives.at(np.array([0.0, 1830.0, 7200.0])) == pytest.approx(
        np.exp([0, -1830 / 3600, -2]), rel=1e-3
    )


def test_the_area_is_the_mean_time_lived() -> None:
    lives = Survival.of(lambda ages: np.exp(-ages / 3600), unit_s=60, until_s=7200)
    ages = np.array([0.0, 90.0, 7200.0, 20_000.0, 1e6])

    assert lives.area(ages) == pytest.approx(3600 * -np.expm1(-ages / 3600), rel=1e-3)


def test_b091_nodes_do_not_live_for_ever_beyond_the_record() -> None:
    lives = Survival(unit_s=3600, alive=np.array([1.0, 0.999, 0.998, 0.998]))

    forty_hours = lives.at(np.array([40 * 3600.0]))[0]

    assert 0.97 < forty_hours < 0.98
    assert lives.at(np.array([1e12]))[0] == pytest.approx(0, abs=1e-12)


def test_without_any_loss_none_is_assumed() -> None:
    lives = Survival(unit_s=10, alive=np.ones(3))

    assert lives.rate == 0
    assert lives.at(np.array([500.0]))[0] == 1
    assert lives.area(np.array([5.0, 500.0])).tolist() == [5, 500]


def test_nobody_lives_beyond_a_cap() -> None:
    lives = Survival(unit_s=10, alive=np.array([1.0, 0.5, 0.0]))

    assert lives.at(np.array([20.0, 30.0])).tolist() == [0, 0]
    assert lives.area(np.array([15.0, 20.0, 99.0])) == pytest.approx([9.375, 10, 10])


@pytest.mark.parametrize(
    ("unit", "survival", "complaint"),
    [
        (0.0, [1.0, 0.5], "unit_s 0"),
        (1.0, [1.0], "at least two ages"),
        (1.0, [0.9, 0.5], "start at 1"),
        (1.0, [1.0, 0.5, 0.6], "and fall"),
        (1.0, [1.0, -0.1], "at most to 0"),
        (1.0, [1.0, float("nan")], "start at 1 and fall"),
    ],
)
def test_a_law_without_sense_is_refused(unit: float, survival: list[float], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Survival(unit_s=unit, alive=np.array(survival))
