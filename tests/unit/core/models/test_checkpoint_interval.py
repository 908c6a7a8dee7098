"""Checkpoint intervals: the formulas against each other and against the expected time itself."""

import numpy as np
import pytest

from ebbtide.core.models import checkpoint_interval, training_time
from ebbtide.core.models.survival import Survival
from ebbtide.core.models.table import Floats

HOUR = 3600.0


def constant(mean_s: float, *, unit_s: float = 120, until_s: float = 24 * HOUR) -> Survival:
    return Survival.of(lambda ages: np.exp(-ages / mean_s), unit_s=unit_s, until_s=until_s)


def bathtub(*, unit_s: float = 120) -> Survival:
    """A third dies in the first hours, most of the rest at the cap of 24 h."""

    def law(ages: Floats) -> Floats:
        hours = ages / HOUR
        early = 0.35 * -np.expm1(-hours / 1.2)
        late = 0.6 * np.exp((hours - 24) / 0.8)
        alive: Floats = np.clip(1 - early - late + 0.6 * np.exp(-24 / 0.8), 0, 1)
        return alive

    return Survival.of(law, unit_s=unit_s, until_s=24 * HOUR)


def test_young_is_the_root_of_twice_the_product() -> None:
    found = checkpoint_interval.young(save_s=120, between_failures_s=8 * HOUR)

    assert found == pytest.approx(2629.07, abs=0.01)


def test_the_exact_interval_has_the_least_expected_time() -> None:
    save, mean = 120.0, 2 * HOUR

    def relative(interval: float) -> float:
        return float(np.expm1((interval + save) / mean) / interval)

    best = checkpoint_interval.exact(save_s=save, between_failures_s=mean)

    assert relative(best) < relative(best * 0.99)
    assert relative(best) < relative(best * 1.01)
    assert best < checkpoint_interval.young(save_s=save, between_failures_s=mean)


@pytest.mark.parametrize("save", [1.0, 60.0, 600.0])
def test_daly_is_close_to_the_exact_interval(save: float) -> None:
    exact = checkpoint_interval.exact(save_s=save, between_failures_s=2 * HOUR)

    assert checkpoint_interval.daly(save_s=save, between_failures_s=2 * HOUR) == pytest.approx(
        exact, rel=0.002
    )


def test_daly_takes_the_mean_itself_where_a_save_takes_longer_than_two() -> None:
    assert checkpoint_interval.daly(save_s=201, between_failures_s=100) == 100


def test_the_exact_interval_of_tiny_saves_is_young_s() -> None:
    found = checkpoint_interval.exact(save_s=1e-9, between_failures_s=1e6)

    assert found == checkpoint_interval.young(save_s=1e-9, between_failures_s=1e6)


@pytest.mark.parametrize("values", [(0.0, 1.0), (1.0, 0.0), (1.0, float("inf"))])
def test_seconds_without_sense_are_refused(values: tuple[float, float]) -> None:
    for rule in (checkpoint_interval.young, checkpoint_interval.daly, checkpoint_interval.exact):
        with pytest.raises(ValueError, match="above 0 are needed"):
            rule(save_s=values[0], between_failures_s=values[1])


# ---------------------------------------------------------------- any law of life


def test_a_constant_rate_leads_to_the_exact_interval_at_every_age() -> None:
    plan = checkpoint_interval.plan_by_age(
        constant(2 * HOUR, unit_s=60), work_s=4 * HOUR, save_s=60, restart_s=240
    )

    exact = checkpoint_interval.exact(save_s=60, between_failures_s=2 * HOUR)
    chosen = [plan.interval_s(age_s=age, left_s=4 * HOUR) for age in (0, HOUR, 9 * HOUR)]
    assert chosen == [chosen[0]] * 3
    # the work is divided into equal parts near it
    assert chosen[0] == pytest.approx(exact, rel=0.1)


def test_the_plan_is_never_worse_than_any_fixed_interval() -> None:
    lives = bathtub()
    plan = checkpoint_interval.plan_by_age(lives, work_s=4 * HOUR, save_s=120, restart_s=240)

    for minutes in (10, 20, 30, 44, 60, 120, 240):
        fixed = training_time.of_lives(
            lives, work_s=4 * HOUR, interval_s=minutes * 60, save_s=120, restart_s=240
        )
        assert plan.expected_s <= fixed * 1.0005


def test_old_nodes_save_less_often_until_their_cap_is_near() -> None:
    plan = checkpoint_interval.plan_by_age(bathtub(), work_s=4 * HOUR, save_s=120, restart_s=240)

    young, settled, old = (
        plan.interval_s(age_s=age * HOUR, left_s=4 * HOUR) for age in (0, 10, 22.5)
    )

    assert young < settled
    assert old < settled


def test_a_save_between_two_units_is_counted_as_it_is() -> None:
    lives = constant(2 * HOUR)
    times = [
        checkpoint_interval.plan_by_age(
            lives, work_s=2 * HOUR, save_s=save, restart_s=60
        ).expected_s
        for save in (120, 150, 180)
    ]

    assert times == sorted(times)
    assert times[1] == pytest.approx((times[0] + times[2]) / 2, rel=0.005)


def test_without_losses_there_is_one_save() -> None:
    lives = Survival(unit_s=60, alive=np.ones(100))

    plan = checkpoint_interval.plan_by_age(lives, work_s=HOUR, save_s=30, restart_s=60)

    assert plan.expected_s == HOUR + 30
    assert plan.interval_s(age_s=0, left_s=HOUR) == HOUR


def test_a_question_beyond_the_plan_is_answered_at_its_edge() -> None:
    plan = checkpoint_interval.plan_by_age(constant(2 * HOUR), work_s=HOUR, save_s=60, restart_s=60)

    assert plan.interval_s(age_s=1e9, left_s=1e9) == plan.interval_s(age_s=1e6, left_s=HOUR)
    assert plan.interval_s(age_s=-5, left_s=0) == 120


def test_a_node_that_dies_before_one_unit_is_saved_is_no_plan() -> None:
    lives = Survival(unit_s=60, alive=np.array([1.0, 1.0, 0.0]))

    with pytest.raises(ValueError, match="no node lives for 121 s"):
        checkpoint_interval.plan_by_age(lives, work_s=600, save_s=61, restart_s=0)
    plan = checkpoint_interval.plan_by_age(lives, work_s=600, save_s=50, restart_s=0)
    # a new node lives 60 to 120 s and saves one unit in 110 s with a chance of 1/6; what then is
    # left of it, 5 s in the mean, is in vain; so are 85 s in the mean of each of five nodes before
    assert plan.expected_s == pytest.approx(10 * (110 + 5 * 85) + 9 * 5)


def test_too_fine_a_grid_and_a_negative_restart_are_refused() -> None:
    with pytest.raises(ValueError, match="take a coarser grid"):
        checkpoint_interval.plan_by_age(constant(HOUR), work_s=1e6, save_s=60, restart_s=60)
    with pytest.raises(ValueError, match="restart_s -1"):
        checkpoint_interval.plan_by_age(constant(HOUR), work_s=600, save_s=60, restart_s=-1)
