"""The lifetime model: what it says, what it refuses, and the trial cases that belong to it."""

import json
from typing import Any

import numpy as np
import pytest

from ebbtide.core.models.kinds import find
from ebbtide.core.models.lifetime import KIND, prior
from ebbtide.core.models.lifetime.fitting import fit, fit_lives
from ebbtide.core.models.lifetime.lives import SECOND, Lives
from ebbtide.core.models.lifetime.model import Lifetimes
from ebbtide.core.models.quality import Quality, Scores
from ebbtide.core.models.stored import Model, seal
from ebbtide.core.models.table import DataError, Table
from support.lives import drawn, gpu_servers, questions, table_of

MINUTES_5 = 5 / 60


def fitted(table: Table, method: str = KIND.default) -> Lifetimes:
    """Fit without holding anything out, which takes six times as long."""
    return fit_lives(Lives.read(table), method=method)


def fleet(seed: int = 1) -> Table:
    chance = np.random.default_rng(seed)
    return table_of(
        drawn("good/east/T4", chance, mean=60, nodes=60, until=48),
        drawn("bad/east/V100", chance, mean=6, nodes=60, until=48),
        drawn("other/west/V100", chance, mean=8, nodes=40, until=48),
    )


@pytest.fixture(scope="module")
def servers() -> Lifetimes:
    return fitted(gpu_servers())


def is_finite(answer: Any) -> bool:
    return bool(
        np.isfinite(answer.value).all()
        and np.isfinite(answer.high).all()
        and (answer.low > 0).all()
        and (answer.low <= answer.value).all()
        and (answer.value <= answer.high).all()
    )


# ---------------------------------------------------------------- what it says


def test_the_kind_is_found_by_its_name() -> None:
    assert find("lifetime") is KIND
    assert KIND.default == "stacked"
    assert isinstance(KIND.methods[KIND.default](table_of(("a", [1.0], [1]))), Model)


def test_pools_are_told_apart_and_unknown_ones_follow_their_kin() -> None:
    model = fitted(fleet())

    asked = questions("good/east/T4", "bad/east/V100", "new/east/V100", "new/mars/V100", "new")
    answer = model.predict(asked)

    good, bad, kin, type_only, _ = answer.value
    assert good > 4 * bad
    assert 0.5 * bad < kin < 2 * bad
    assert 0.5 * bad < type_only < 2 * bad
    assert answer.beyond.tolist() == [False, False, False, True, True]
    assert is_finite(answer)


def test_a_pool_is_known_by_its_name_alone() -> None:
    model = fitted(fleet())

    full, short = model.predict(questions("bad/east/V100", "bad")).value

    assert short == full


def test_a_name_that_stands_for_two_pools_is_no_name() -> None:
    model = fitted(table_of(("a/east/V100", [1.0] * 9, [1] * 9), ("a/west/T4", [9.0] * 9, [1] * 9)))

    assert model.predict(questions("a")).beyond.tolist() == [True]


def test_only_a_zone_that_is_known_still_tells_something() -> None:
    model = fitted(fleet())

    zone, whole = model.predict(questions("new/west/H100", "new/mars/H100")).value

    assert zone < whole


def test_a_steady_rate_is_found_again() -> None:
    chance = np.random.default_rng(5)
    model = fitted(table_of(drawn("a", chance, mean=10, nodes=2000)))

    young = model.predict(questions("a")).value[0]
    old = model.predict(questions("a", age=12.0)).value[0]
    alive = model.survival(questions("a"), 10.0)[0]

    assert young == pytest.approx(10, rel=0.06)
    assert old == pytest.approx(10, rel=0.15)
    assert alive == pytest.approx(np.exp(-1), abs=0.03)


def test_life_beyond_a_horizon_does_not_count() -> None:
    model = fitted(fleet())
    asked = Table.of(pool=["good", "good"], horizon_h=[5.0, "-"])

    bounded, whole = model.predict(asked).value

    assert 0 < bounded < 5 < whole


def test_nodes_that_outlived_their_first_hours_have_more_before_them(servers: Lifetimes) -> None:
    asked = Table.of(pool=["V100@us-west1"] * 2, age_h=[0.0, 6.0])

    young, old = servers.predict(asked).value

    assert old > young + 4


def test_no_node_outlives_the_cap(servers: Lifetimes) -> None:
    asked = questions("K80@us-west1", age=20.0)

    answer = servers.predict(asked)

    assert answer.value[0] <= 4
    assert answer.high[0] <= 4
    assert servers.survival(asked, np.array([[3.9, 4.0, 5.0]]))[0] == pytest.approx(
        [1, 0, 0], abs=0.25
    )


def test_a_node_older_than_the_cap_is_beyond_and_has_next_to_nothing(servers: Lifetimes) -> None:
    answer = servers.predict(questions("K80@us-west1", age=30.0))

    assert answer.value[0] == pytest.approx(SECOND)
    assert answer.beyond[0]
    assert is_finite(answer)


def test_expected_losses_count_replacements_too(servers: Lifetimes) -> None:
    asked = Table.of(pool=["V100@us-west1"] * 2, age_h=[0.0, 10.0])

    young, old = servers.losses(asked, 6.0)
    once = 1 - servers.survival(asked, 6.0)

    assert young > once[0] > 0.4
    assert old >= once[1]
    assert old < young


def test_expected_losses_under_a_steady_rate_are_rate_times_time() -> None:
    chance = np.random.default_rng(5)
    model = fitted(table_of(drawn("a", chance, mean=4, nodes=3000)), "exponential")
    rate = model.laws["exponential"]["rate_per_hour"]

    found = model.losses(questions("a"), 6.0)[0]

    # the shift of a lone pool is near 1, not 1
    assert found == pytest.approx(6 * rate, rel=0.05)


@pytest.mark.parametrize("ahead", [0.0, -1.0, float("inf"), float("nan")])
def test_losses_need_a_time_ahead(servers: Lifetimes, ahead: float) -> None:
    with pytest.raises(ValueError, match="hours above 0"):
        servers.losses(questions("a"), ahead)


def test_drawn_lives_have_the_expected_mean(servers: Lifetimes) -> None:
    asked = questions(*["P100@us-west1"] * 5000)

    lives = servers.draw(asked, np.random.default_rng(0))

    assert lives.min() > 0
    assert lives.mean() == pytest.approx(servers.predict(asked).value[0], rel=0.05)


def test_the_law_of_a_remaining_life_starts_at_its_age(servers: Lifetimes) -> None:
    (law,) = servers.laws_of(questions("K80@us-west1", age=6.0), unit_s=600, until_s=3600 * 20)

    assert law.at(np.array([0.0]))[0] == 1
    assert law.at(np.array([3600.0 * 2]))[0] == pytest.approx(
        servers.survival(questions("K80@us-west1", age=6.0), 2.0)[0]
    )
    assert law.at(np.array([3600.0 * 19]))[0] == 0


def test_the_hour_of_day_counts_where_it_tells_something() -> None:
    chance = np.random.default_rng(8)
    start = chance.uniform(0, 24, 1500)
    to_noon = (12 - start) % 24
    revoked = chance.random(1500) < 0.5
    lives = np.where(revoked, to_noon + chance.uniform(0.01, 0.9, 1500), 20.0)
    table = Table.of(
        pool=["a"] * 1500, start_hour=start, lifetime_h=lives, revoked=revoked.astype(int)
    )

    model = fitted(table)
    morning, evening, unknown = model.survival(
        Table.of(pool=["a"] * 3, start_hour=[10.0, 14.0, "-"]), 4.0
    )

    assert model.hours is not None
    assert np.argmax(model.hours) == 12
    assert morning < unknown < evening


def test_the_hour_of_day_is_left_out_where_it_tells_nothing() -> None:
    chance = np.random.default_rng(8)
    lives = chance.exponential(6, 400)
    start = chance.uniform(0, 24, 400)
    table = Table.of(pool=["a"] * 400, start_hour=start, lifetime_h=lives, revoked=[1] * 400)

    assert fitted(table).hours is None


@pytest.mark.parametrize("method", KIND.methods)
def test_every_method_fits_answers_and_comes_back_from_json(method: str) -> None:
    model = fitted(fleet(), method)

    stored = json.loads(json.dumps(seal("lifetime", model), allow_nan=False))
    again = KIND.from_json(stored)

    asked = questions("good/east/T4", "new", age=3.0)
    assert seal("lifetime", again) == seal("lifetime", model)
    assert model.method == method
    assert again.predict(asked).value.tolist() == model.predict(asked).value.tolist()
    assert is_finite(model.predict(asked))


def test_a_model_knows_how_wrong_it_is() -> None:
    quality = fit(fleet(), method="weibull").quality

    assert isinstance(quality.errors, Scores)
    assert quality.samples == 160
    assert 0 < quality.errors.integrated_brier < 0.25
    assert 0 <= quality.errors.ks < 0.3
    assert set(quality.by_group) == {"good", "bad", "other"}
    assert quality.coverage is not None
    assert 0.75 <= quality.coverage <= 1


def test_other_splits_are_judged_too() -> None:
    table = fleet()
    pools = np.array(table.cells["zone"])
    splits = [(np.flatnonzero(pools != z), np.flatnonzero(pools == z)) for z in ("east", "west")]

    assert KIND.judge is not None
    quality = KIND.judge(table, splits, method="weibull", group="zone", split="leave-one-out:zone")

    assert quality.split == "leave-one-out:zone"
    assert set(quality.by_group) == {"east", "west"}


def test_own_history_takes_the_place_of_kin_and_learning_twice_changes_nothing(
    servers: Lifetimes,
) -> None:
    history = table_of(drawn("mine/us-west1/V100", np.random.default_rng(3), mean=200, nodes=50))
    asked = questions("mine/us-west1/V100", "V100@us-west1")

    once = servers.learn(history)
    twice = once.learn(history)

    assert once.predict(asked).value[0] > 3 * servers.predict(asked).value[0]
    assert once.predict(asked).value[1] == servers.predict(asked).value[1]
    assert twice.predict(asked).value.tolist() == once.predict(asked).value.tolist()


def test_a_pool_without_a_cap_is_learned_beside_pools_that_have_one(servers: Lifetimes) -> None:
    history = table_of(("aws/east/V100", [100.0, 150.0, 30.0], [1, 0, 0]))

    model = servers.learn(history)

    assert model.survival(questions("aws/east/V100"), 48.0)[0] > 0.1
    assert model.survival(questions("V100@us-west1"), 48.0)[0] == 0


# ---------------------------------------------------------------- the prior


def test_rare_interruption_classes_give_longer_lives() -> None:
    rates = [prior.class_rate(number) for number in range(5)]

    assert rates == sorted(rates)
    assert rates[0] == pytest.approx(0.025 / 24, rel=0.02)
    assert rates[4] < prior.RATE
    with pytest.raises(DataError, match="interruption class 5"):
        prior.class_rate(5)


def test_a_model_can_be_made_from_the_prior_alone() -> None:
    model = Lifetimes.of_prior(rate=prior.class_rate(4))

    answer = model.predict(questions("any"))
    learned = model.learn(table_of(("any", [0.1] * 4, [1] * 4))).predict(questions("any"))

    assert answer.value[0] == pytest.approx(1 / prior.class_rate(4), rel=1e-6)
    assert answer.beyond[0]
    assert learned.value[0] < answer.value[0] / 20


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("table", "words"),
    [
        pytest.param(Table.of(pool=[], lifetime_h=[], revoked=[]), "no rows", id="empty"),
        pytest.param(table_of(("a", [float("nan")], [1])), "lifetime_h, row 2", id="NaN"),
        pytest.param(table_of(("a", [5.0, 83000.0], [1, 1])), "lifetime_h, row 3", id="seconds"),
        pytest.param(table_of(("a", [5.0], [2])), "revoked, row 2", id="not a flag"),
        pytest.param(table_of(("", [5.0], [1])), "pool, row 2", id="no name"),
        pytest.param(table_of(("a", [-1.0], [1])), "below 0, as are 1 of 1", id="all negative"),
        pytest.param(
            table_of(("a", [-1.0] * 3 + [2.0] * 7, [1] * 10)), "3 of 10", id="many negative"
        ),
        pytest.param(Table.of(pool=["a"], lifetime_h=[1.0]), "no column revoked", id="no flag"),
        pytest.param(
            Table.of(pool=["a"], lifetime_h=[1.0], revoked=[1], start_hour=[25]),
            "start_hour, row 2",
            id="hour 25",
        ),
    ],
)
def test_samples_that_make_no_sense_are_named(table: Table, words: str) -> None:
    with pytest.raises(DataError, match=words):
        fitted(table)


def test_questions_that_make_no_sense_are_named(servers: Lifetimes) -> None:
    with pytest.raises(DataError, match="no rows"):
        servers.predict(Table.of(pool=[]))
    with pytest.raises(DataError, match="age_h, row 2"):
        servers.predict(Table.of(pool=["a"], age_h=[-1.0]))
    with pytest.raises(DataError, match="horizon_h, row 2"):
        servers.predict(Table.of(pool=["a"], horizon_h=[0.0]))


def test_one_row_gives_a_model_near_the_prior() -> None:
    model = fitted(table_of(("a/east/V100", [3.0], [1])))

    answer = model.predict(questions("a/east/V100"))

    assert is_finite(answer)
    assert 2 < answer.value[0] < 48
    assert fit(table_of(("a", [3.0], [1])), method="stacked").quality == Quality(
        samples=1, split="none"
    )


# ---------------------------------------------------------------- trial cases


@pytest.mark.parametrize("revocations", [0, 2])
def test_b091_few_revocations_never_promise_eternal_life(revocations: int) -> None:
    chance = np.random.default_rng(91)
    hours = chance.uniform(0.5, 6.0, 1000)
    revoked = [1] * revocations + [0] * (1000 - revocations)
    model = fitted(table_of(("a/east/V100", hours.tolist(), revoked)))

    answer = model.predict(questions("a/east/V100"))
    alive = model.survival(questions("a/east/V100"), np.array([[6.0, 40.0, 1e5]]))[0]

    assert is_finite(answer)
    assert alive[0] > 0.95
    assert alive[1] < 0.95
    assert alive[2] < 1e-6
    json.dumps(seal("lifetime", model), allow_nan=False)


def test_b091_an_age_that_no_node_has_reached_is_marked() -> None:
    model = fitted(table_of(("a", [6.0] * 100, [0] * 100)))

    assert model.predict(questions("a", age=40.0)).beyond.tolist() == [True]


@pytest.mark.parametrize(
    "change",
    [
        "a zone without events",
        "one GPU type",
        "two equal columns",
        "lives of zero",
        "a negative life",
        "one row",
        "repeated rows",
    ],
)
def test_b092_ordinary_fleet_data_never_break_a_fit(change: str) -> None:
    chance = np.random.default_rng(92)
    hours = chance.exponential(8.0, 120)
    revoked = (chance.random(120) < 0.6).astype(int)
    zone = np.where(np.arange(120) < 40, "quiet", "busy")
    gpu = np.where(np.arange(120) % 2, "T4", "V100")
    match change:
        case "a zone without events":
            revoked[:40] = 0
        case "one GPU type":
            gpu[:] = "T4"
        case "two equal columns":
            gpu = zone
        case "lives of zero":
            hours[::20] = 0.0
        case "a negative life":
            hours[7] = -0.2
        case "one row":
            hours, revoked, zone, gpu = hours[:1], revoked[:1], zone[:1], gpu[:1]
        case _:
            hours, revoked = np.repeat(hours[:12], 10), np.repeat(revoked[:12], 10)
    pool = [f"{z}-{g}" for z, g in zip(zone, gpu, strict=True)]

    model = fitted(Table.of(pool=pool, zone=zone, gpu=gpu, lifetime_h=hours, revoked=revoked))
    answer = model.predict(Table.of(pool=["quiet-T4", "busy-T4"], zone=["quiet", "busy"]))

    assert is_finite(answer)
    assert model.seen.lifted == int(np.sum(hours == 0))
    assert model.seen.refused == int(np.sum(hours < 0))
    json.dumps(seal("lifetime", model), allow_nan=False)


def test_b083_a_pool_that_always_takes_back_within_minutes_is_soon_known(
    servers: Lifetimes,
) -> None:
    asked = questions("A/z/V100", "B/z/V100")
    history = table_of(("A/z/V100", [MINUTES_5] * 3, [1] * 3), ("B/z/V100", [12.0] * 3, [1] * 3))

    learned = servers.learn(history)
    before, after = servers.predict(asked).value, learned.predict(asked).value
    first_save = learned.survival(asked, 18 / 60 + 10 / 60)

    assert before[0] == before[1]
    assert after[0] < 1
    assert after[1] > 8
    # a restart of 18 minutes, and the first checkpoint after 10 more
    assert first_save[0] < 0.25
    assert first_save[1] > 0.8


def test_b083_a_pool_that_behaves_again_is_believed_again(servers: Lifetimes) -> None:
    quick = ("A/z/V100", [MINUTES_5] * 3, [1] * 3)
    better = ("A/z/V100", [20.0] * 20, [0] * 20)

    bad = servers.learn(table_of(quick)).predict(questions("A/z/V100")).value[0]
    good = servers.learn(table_of(quick, better)).predict(questions("A/z/V100")).value[0]

    assert good > 4 * bad


def test_b001_only_revocations_feed_the_rate_of_a_pool() -> None:
    hours = [2.0] * 10
    failures = fitted(table_of(("a", hours, [0] * 10), ("b", hours, [1] * 10)))

    lives = Lives.read(table_of(("a", hours, [0] * 10)))
    calm, busy = failures.predict(questions("a", "b")).value

    assert int(lives.revoked.sum()) == 0
    assert calm > 2 * busy


def test_many_pools_and_very_many_lives_do_not_hold_a_fit_up() -> None:
    chance = np.random.default_rng(5)
    number = 40_000
    table = Table.of(
        pool=[f"pool{index % 400}" for index in range(number)],
        lifetime_h=np.minimum(chance.exponential(9.0, number), 24.0),
        revoked=[1] * number,
    )

    model = fit(table, method="nonparametric")  # within pytest's own limit, which is the point

    assert model.quality.samples == number
