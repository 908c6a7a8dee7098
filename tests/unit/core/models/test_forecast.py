"""Intervals: from residuals of what was held out, and wider where nothing was measured."""

import json

import numpy as np
import pytest

from ebbtide.core.models.forecast import BEYOND, Spread


def spread_of(ratios: list[float]) -> Spread:
    return Spread.of(np.array(ratios), np.ones(len(ratios)))


def test_an_interval_reaches_to_the_residuals_that_leave_five_in_a_hundred_out() -> None:
    ratios = np.exp(np.linspace(-0.5, 0.5, 99))

    spread = spread_of(ratios.tolist())

    # (99 + 1) x 0.05 = the 5th smallest, (99 + 1) x 0.95 = the 95th.
    assert spread.low == pytest.approx(ratios[4])
    assert spread.high == pytest.approx(ratios[94])


def test_few_residuals_give_their_extremes() -> None:
    spread = spread_of([0.8, 1.3, 1.0])

    assert (spread.low, spread.high) == pytest.approx((0.8, 1.3))


def test_without_any_residual_an_interval_is_wide() -> None:
    assert spread_of([]) == Spread(low=0.5, high=2.0)


@pytest.mark.parametrize("ratios", [[1.2, 1.3], [0.7, 0.9], [1.0]])
def test_the_value_itself_always_lies_inside(ratios: list[float]) -> None:
    spread = spread_of(ratios)

    assert spread.low <= 1 <= spread.high


def test_nine_of_ten_new_measurements_lie_inside() -> None:
    chance = np.random.Generator(np.random.PCG64(4))
    inside = []
    for _ in range(200):
        spread = spread_of(np.exp(chance.normal(0, 0.2, 40)).tolist())
        fresh = np.exp(chance.normal(0, 0.2, 40))
        inside.append(((spread.low <= fresh) & (fresh <= spread.high)).mean())

    assert 0.89 <= np.mean(inside) <= 0.95


def test_beyond_the_data_an_interval_is_wider_to_both_sides() -> None:
    spread = Spread(low=0.8, high=1.25)

    near, far = (
        spread.around(np.array([10.0]), beyond=np.array([beyond])) for beyond in (False, True)
    )

    assert (near.low[0], near.high[0]) == (8.0, 12.5)
    assert far.low[0] == pytest.approx(10 * 0.8**BEYOND)
    assert far.high[0] == pytest.approx(10 * 1.25**BEYOND)
    assert far.beyond.all()


def test_nothing_is_beyond_unless_it_is_said() -> None:
    assert not Spread(low=0.5, high=2.0).around(np.ones(3)).beyond.any()


def test_a_spread_comes_back_from_json_as_it_was() -> None:
    spread = Spread(low=1 / 3, high=np.pi)

    assert Spread.from_json(json.loads(json.dumps(spread.to_json()))) == spread
