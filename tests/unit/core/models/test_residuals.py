"""Intervals from few residuals and from many."""

import numpy as np
import pytest

from ebbtide.core.models.residuals import is_covered, spread_of


def test_no_residual_gives_the_widest_interval() -> None:
    spread = spread_of(np.zeros(0))

    assert (spread.low, spread.high) == (0.5, 2.0)


@pytest.mark.parametrize("number", [1, 2, 5, 9, 19, 60])
def test_nine_of_ten_residuals_to_come_lie_inside(number: int) -> None:
    chance = np.random.default_rng(number)
    held = 0
    for _ in range(2_000):
        spread = spread_of(chance.normal(0, 0.2, number))
        held += spread.low <= np.exp(chance.normal(0, 0.2)) <= spread.high

    assert 0.87 <= held / 2_000 <= 0.97


@pytest.mark.parametrize("number", [3, 30])
def test_copies_leave_some_width(number: int) -> None:
    spread = spread_of(np.zeros(number))

    assert spread.low < 0.991
    assert spread.high > 1.009


def test_a_residual_is_judged_by_the_others() -> None:
    residuals = np.array([0.01] * 15 + [-0.01] * 15 + [2.0])

    assert is_covered(residuals).tolist() == [True] * 30 + [False]
