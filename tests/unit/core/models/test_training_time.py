"""Expected ends of training: CM-DARE's equation, and the exact forms against simulated lives."""

import numpy as np
import pytest

from ebbtide.core.models import training_time
from ebbtide.core.models.survival import Survival
from ebbtide.core.models.table import Floats
from ebbtide.core.models.training_time import Costs

HOUR = 3600.0
# CM-DARE's eleven runs of ResNet-32 on four K80, one worker revoked once: step, seconds after it.
STEPS = [6170, 12201, 32096, 48086, 643, 2904, 58214, 22929, 28220, 53678, 44687]
ESTIMATED = [3223, 2892, 1798, 919, 3527, 3402, 363, 2296, 2011, 613, 1107]
ACTUAL = [3201, 2886, 1808, 934, 3533, 3394, 374, 2302, 2021, 620, 1117]

SHAPE, SCALE = 0.6, 3 * HOUR


def weibull(*, unit_s: float = 60) -> Survival:
    """Infant mortality: as most clouds show it."""
    return Survival.of(
        lambda ages: np.exp(-((ages / SCALE) ** SHAPE)), unit_s=unit_s, until_s=48 * HOUR
    )


def chance() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(11))


def left_after(replace_s: float) -> Floats:
    return np.array(
        [
            training_time.after_one_loss(
                steps_left=64_000 - step, speed_now=13.65, speed_then=18.2, replace_s=replace_s
            )
            for step in STEPS
        ]
    )


# ---------------------------------------------------------------- CM-DARE


def test_check_20_time_after_one_revocation_is_that_of_the_authors() -> None:
    found = left_after(180)

    off = np.sort(np.abs(found - ESTIMATED))
    assert off[:10].max() <= 1
    assert off[10] <= 6
    assert np.abs(found / ACTUAL - 1).mean() * 100 == pytest.approx(0.83, abs=0.02)


def test_check_20_with_the_replacement_time_of_other_tables_it_is_nearly_as_good() -> None:
    assert np.abs(left_after(163) / ACTUAL - 1).mean() * 100 == pytest.approx(1.10, abs=0.1)


def test_work_that_ends_before_the_replacement_comes_does_not_wait_for_it() -> None:
    found = training_time.after_one_loss(steps_left=100, speed_now=10, speed_then=20, replace_s=60)

    assert found == 10


def test_nothing_runs_while_the_only_worker_is_replaced() -> None:
    found = training_time.after_one_loss(steps_left=100, speed_now=0, speed_then=20, replace_s=60)

    assert found == 65


COSTS = Costs(save_s=4, start_s=81, replace_s=79)


def test_the_equation_adds_work_saves_and_replacements() -> None:
    quiet = training_time.by_equation(
        steps=64_000, speeds=[4.55] * 4, steps_between_saves=4_000, costs=COSTS
    )
    lossy = training_time.by_equation(
        steps=64_000,
        speeds=[4.55] * 4,
        steps_between_saves=4_000,
        costs=COSTS,
        lost_by=lambda _: 0.25,
    )

    assert quiet == pytest.approx(64_000 / 18.2 + 16 * 4)
    assert lossy == pytest.approx(quiet + 160)


def test_revocations_prolong_the_time_in_which_they_happen() -> None:
    once = training_time.by_equation(
        steps=64_000,
        speeds=[4.55] * 4,
        steps_between_saves=4_000,
        costs=COSTS,
        lost_by=lambda seconds: -float(np.expm1(-seconds / HOUR)),
    )

    chance_of_loss = -np.expm1(-once / HOUR)
    assert once == pytest.approx(64_000 / 18.2 + 64 + 4 * chance_of_loss * 160, abs=0.01)


def test_a_chance_of_loss_that_falls_with_time_settles_nowhere_and_still_ends() -> None:
    found = training_time.by_equation(
        steps=100,
        speeds=[1.0],
        steps_between_saves=100,
        costs=Costs(save_s=0, start_s=10, replace_s=0),
        lost_by=lambda seconds: float(seconds < 105),
    )

    assert found in {100, 110}


# ---------------------------------------------------------------- lost as one


def simulate_gang(
    number: int, *, work_s: float, interval_s: float, save_s: float, restart_s: float
) -> Floats:
    """Ends of jobs whose node dies by the law above; whole segments only."""
    lives = chance()
    segment, left = interval_s + save_s, np.full(number, round(work_s / interval_s))
    total = np.zeros(number)
    going = left > 0
    while going.any():
        life = SCALE * lives.weibull(SHAPE, number)
        done = np.minimum(life // segment, left).astype(np.intp)
        is_done = done == left
        total += np.where(going, np.where(is_done, left * segment, life + restart_s), 0.0)
        left = np.where(going, left - done, left)
        going &= ~is_done
    return total


def test_expected_end_is_that_of_a_hundred_thousand_simulated_jobs() -> None:
    case = {"work_s": 4 * HOUR, "interval_s": 1800.0, "save_s": 120.0, "restart_s": 240.0}

    simulated = simulate_gang(100_000, **case).mean()

    assert training_time.of_lives(weibull(), **case) == pytest.approx(simulated, rel=0.005)


def test_a_constant_rate_is_dalys_when_restarts_are_free() -> None:
    lives = Survival.of(lambda ages: np.exp(-ages / (3 * HOUR)), unit_s=30, until_s=24 * HOUR)

    exact = training_time.of_lives(lives, work_s=4 * HOUR, interval_s=2700, save_s=120, restart_s=0)

    closed = training_time.of_constant_rate(
        work_s=4 * HOUR, interval_s=2700, save_s=120, restart_s=0, between_failures_s=3 * HOUR
    )
    assert exact == pytest.approx(closed, rel=1e-4)


def test_losses_in_restarts_count_where_the_rate_is_constant() -> None:
    case = {"work_s": HOUR, "interval_s": 600.0, "save_s": 60.0, "between_failures_s": HOUR}

    free = training_time.of_constant_rate(**case, restart_s=0)

    assert training_time.of_constant_rate(**case, restart_s=HOUR) == pytest.approx(free * np.e)


def test_rare_losses_leave_work_and_saves() -> None:
    lives = Survival(unit_s=60, alive=np.ones(10))

    found = training_time.of_lives(lives, work_s=1000, interval_s=300, save_s=10, restart_s=99)

    assert found == pytest.approx(1000 + 4 * 10)
    assert training_time.of_constant_rate(
        work_s=1000, interval_s=300, save_s=10, restart_s=99, between_failures_s=1e12
    ) == pytest.approx(found)


def test_an_interval_that_no_node_survives_is_refused() -> None:
    lives = Survival(unit_s=60, alive=np.array([1.0, 0.5, 0.0]))

    with pytest.raises(ValueError, match="no node lives for 130 s"):
        training_time.of_lives(lives, work_s=1000, interval_s=120, save_s=10, restart_s=0)


def test_an_interval_far_longer_than_nodes_last_is_refused() -> None:
    with pytest.raises(ValueError, match="intervals of 10000 s never end where nodes last 1 s"):
        training_time.of_constant_rate(
            work_s=1e4, interval_s=1e4, save_s=1, restart_s=1, between_failures_s=1
        )


def test_a_cap_in_the_middle_of_the_work_costs_one_restart() -> None:
    survival = np.ones(11)
    survival[-1] = 0
    lives = Survival(unit_s=60, alive=survival)

    # nodes live 540 to 600 s, 570 in the mean: five segments of 100 s
    found = training_time.of_lives(lives, work_s=1000, interval_s=100, save_s=0, restart_s=30)

    assert found == pytest.approx(1000 + 570 - 500 + 30)


# ---------------------------------------------------------------- survivors train on


def simulate_cluster(workers: int, *, work_s: float, replace_s: float) -> float:
    """When one cluster's work is done, survivors training on."""
    lives, ends = chance(), []
    for _ in range(500):
        events: list[tuple[float, int]] = []
        for _worker in range(workers):
            now = 0.0
            while now < 3 * work_s:
                life = SCALE * float(lives.weibull(SHAPE))
                events += [(now, 1), (now + life, -1)]
                now += life + replace_s
        at, up, done = 0.0, 0, 0.0
        for moment, change in sorted(events):
            more = up * (moment - at) / workers
            if done + more >= work_s:
                ends.append(at + (work_s - done) * workers / up)
                break
            done, at, up = done + more, moment, up + change
    return float(np.mean(ends))


@pytest.mark.parametrize("workers", [2, 8])
def test_expected_end_of_a_cluster_is_that_of_simulated_ones(workers: int) -> None:
    found = training_time.of_cluster(weibull(), work_s=4 * HOUR, replace_s=600)

    simulated = simulate_cluster(workers, work_s=4 * HOUR, replace_s=600)
    assert found == pytest.approx(simulated, rel=0.01)


def test_in_the_long_run_the_share_that_trains_is_life_over_life_and_replacement() -> None:
    lives = Survival.of(lambda ages: np.exp(-ages / 1000), unit_s=10, until_s=10_000)

    share = training_time.availability(lives, replace_s=250, until_s=10_000)

    assert share[0] == 1
    assert share[-1] == pytest.approx(1000 / 1250, rel=1e-4)


def test_replacements_at_once_lose_nothing() -> None:
    lives = Survival.of(lambda ages: np.exp(-ages / 1000), unit_s=10, until_s=5_000)

    assert training_time.of_cluster(lives, work_s=5_000, replace_s=0) == pytest.approx(
        5_000, rel=0.001
    )


def test_replacements_that_never_come_lose_what_dies() -> None:
    lives = Survival(unit_s=10, alive=np.linspace(1, 0, 11))

    share = training_time.availability(lives, replace_s=1e6, until_s=200)

    assert share[:11] == pytest.approx(np.linspace(1, 0, 11))
    assert share[11:].max() == 0


def test_a_cluster_that_gets_nowhere_is_refused() -> None:
    lives = Survival(unit_s=10, alive=np.array([1.0, 0.0]))

    with pytest.raises(ValueError, match="the work is not done after"):
        training_time.of_cluster(lives, work_s=5_000, replace_s=50_000)


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        pytest.param(
            lambda: training_time.by_equation(
                steps=1, speeds=[], steps_between_saves=1, costs=COSTS
            ),
            "speed 0",
            id="no workers",
        ),
        pytest.param(
            lambda: training_time.after_one_loss(
                steps_left=1, speed_now=1, speed_then=0, replace_s=1
            ),
            "speed_then 0",
            id="no speed",
        ),
        pytest.param(
            lambda: training_time.of_lives(
                weibull(), work_s=0, interval_s=1, save_s=1, restart_s=1
            ),
            "work_s 0",
            id="no work",
        ),
        pytest.param(
            lambda: training_time.of_cluster(weibull(), work_s=1, replace_s=-1),
            "replace_s -1",
            id="negative",
        ),
    ],
)
def test_numbers_without_sense_are_refused(call: object, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        call()  # type: ignore[operator]  # a lambda of the list above
