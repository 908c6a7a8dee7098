"""When a pool can be had."""

import json

import numpy as np
import pytest

from ebbtide.core.models.lifetime.ages import BINS, Curves
from ebbtide.core.models.lifetime.availability import Availability
from ebbtide.core.models.table import DataError

ENDLESS = np.full(2, np.inf)


def two_rates(*, down: float, up: float) -> Availability:
    rates = np.repeat(np.array([[1 / down], [1 / up]]), BINS, axis=1)
    return Availability(curves=Curves(rates=rates, walls=ENDLESS), spells=0)


def drawn(seed: int = 4) -> Availability:
    """Spells of up are long if they have lasted: shape 0.5."""
    chance = np.random.default_rng(seed)
    hours = np.concatenate([6 * chance.weibull(0.5, 300), chance.exponential(2.0, 300)])
    up = np.arange(600) < 300
    return Availability.of(np.maximum(hours, 0.01), up=up, ended=np.ones(600, dtype=np.bool_))


def test_steady_rates_have_a_closed_form() -> None:
    model = two_rates(down=2.0, up=6.0)
    hours = np.array([0.0, 0.5, 2.0, 10.0])

    was_up = model.chance_up(hours, up=True, age=3.0)
    was_down = model.chance_up(hours, up=False, age=0.0)

    fading = np.exp(-hours * (1 / 2 + 1 / 6))
    assert was_up == pytest.approx(0.75 + 0.25 * fading, abs=2e-3)
    assert was_down == pytest.approx(0.75 - 0.75 * fading, abs=2e-3)
    assert model.long_run() == pytest.approx(0.75)
    assert model.expected_left(up=True, age=5.0) == pytest.approx(6.0)


def test_what_has_lasted_lasts() -> None:
    model = drawn()

    young, old = (model.chance_up(np.array([1.0]), up=True, age=age)[0] for age in (0.05, 10.0))

    assert old > young + 0.1
    assert model.expected_left(up=True, age=10.0) > 1.5 * model.expected_left(up=True, age=0.0)
    assert model.long_run() == pytest.approx(12 / 14, abs=0.05)


def test_far_ahead_the_present_hardly_counts() -> None:
    model = two_rates(down=1.0, up=1.5)
    far = np.array([30.0])

    assert model.chance_up(far, up=True, age=0.0) == pytest.approx(model.long_run(), abs=0.01)
    assert model.chance_up(far, up=False, age=0.0) == pytest.approx(model.long_run(), abs=0.01)


def test_a_spell_that_still_holds_counts_for_what_it_lasted() -> None:
    hours, up = np.array([50.0, 50.0, 1.0]), np.array([True, True, False])

    holding = Availability.of(hours, up=up, ended=np.array([False, False, True]))
    ended = Availability.of(hours, up=up, ended=np.array([True, True, True]))

    assert holding.expected_left(up=True, age=0.0) > ended.expected_left(up=True, age=0.0)


def test_without_spells_the_prior_speaks() -> None:
    model = Availability.of(
        np.array([]), up=np.array([], dtype=np.bool_), ended=np.array([], dtype=np.bool_)
    )

    assert 0 < model.long_run() < 1
    assert np.isfinite(model.expected_left(up=True, age=0.0))


def test_it_comes_back_from_json_as_it_was() -> None:
    model = drawn()

    again = Availability.from_json(json.loads(json.dumps(model.to_json(), allow_nan=False)))

    assert again.to_json() == model.to_json()


@pytest.mark.parametrize("length", [0.0, -1.0, float("nan"), float("inf")])
def test_spells_without_length_are_named(length: float) -> None:
    with pytest.raises(DataError, match="spell 1"):
        Availability.of(
            np.array([1.0, length]), up=np.array([True, True]), ended=np.array([True, True])
        )


@pytest.mark.parametrize("ahead", [-1.0, float("nan")])
def test_the_time_ahead_is_finite_and_not_past(ahead: float) -> None:
    with pytest.raises(ValueError, match="hours from 0"):
        drawn().chance_up(np.array([ahead]), up=True, age=0.0)
