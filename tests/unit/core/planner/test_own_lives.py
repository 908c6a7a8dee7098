"""What a pool's own lives change in what is expected of its next node."""

from datetime import timedelta

import numpy as np
import pytest

from ebbtide.core.models.lifetime.model import Lifetimes
from ebbtide.core.planner.embedded import Embedded
from ebbtide.core.planner.own_lives import LEAST_SCORED
from ebbtide.core.values.past import Followed, Life, Past
from ebbtide.data.defaults import embedded_model
from support.builders import ON_DEMAND, at, make_pool

HOUR = 3600.0
NOW = at(0)
POOL = make_pool("a", zone="us-east-1a")


@pytest.fixture(scope="module")
def knowledge() -> Embedded:
    lifetimes = embedded_model("lifetime")
    assert isinstance(lifetimes, Lifetimes)
    return Embedded(lifetimes=lifetimes, start_s=180.0)


def past_of(*hours: float, revoked: bool = True, ended: float = -60.0) -> Past:
    """Return lives that were over one after the other, the last one at `ended`."""
    lives = []
    for number, lasted in enumerate(reversed(hours)):
        since = at(ended - 120 * number - lasted * HOUR)
        lives.append(Life(since=since, lasted=timedelta(hours=lasted), revoked=revoked))
    return Past(lives=tuple(sorted(lives, key=lambda life: life.ended)))


def mean_hours(knowledge: Embedded, past: Past) -> float:
    law = knowledge.life(POOL, NOW, past)
    assert law is not None
    return float(law.area(np.array([24 * HOUR]))[0]) / HOUR


def test_without_a_past_it_is_what_is_known_of_its_kind(knowledge: Embedded) -> None:
    known = mean_hours(knowledge, Past())

    assert known == mean_hours(knowledge, Past(spells=(), failed_tries=3))
    assert 10 < known < 24


def test_quick_losses_shorten_what_is_expected_and_long_lives_lengthen_it(
    knowledge: Embedded,
) -> None:
    known = mean_hours(knowledge, Past())

    one, three = (mean_hours(knowledge, past_of(*[1 / 12] * number)) for number in (1, 3))

    assert three < 0.1 * known < one < known
    assert mean_hours(knowledge, past_of(*[20.0] * 8, revoked=False)) > known


def test_a_pool_that_behaves_again_is_believed_again(knowledge: Embedded) -> None:
    bad = past_of(*[1 / 12] * 3, ended=-20 * HOUR)
    followed = tuple(
        Followed(node=f"n{number}", mark="m", since=at(-19 * HOUR)) for number in range(8)
    )
    good = Past(lives=bad.lives, followed=followed)

    assert mean_hours(knowledge, good) > 0.8 * mean_hours(knowledge, Past())


def test_after_an_hour_a_bad_pool_is_believed_enough_to_be_tried_again(
    knowledge: Embedded,
) -> None:
    during, after = (past_of(*[1 / 12] * 3, ended=-HOUR + shift) for shift in (1.0, -1.0))

    assert mean_hours(knowledge, during) < 2
    assert mean_hours(knowledge, after) == pytest.approx(mean_hours(knowledge, past_of(1 / 12)))


def test_the_law_is_learnt_anew_when_something_happened_and_every_ten_minutes(
    knowledge: Embedded,
) -> None:
    past = Past(followed=(Followed(node="n", mark="m", since=at(-HOUR)),))
    law = knowledge.life(POOL, NOW, past)

    assert knowledge.life(POOL, at(540), past) is law
    assert knowledge.life(POOL, at(660), past) is not law
    assert (
        knowledge.life(POOL, NOW, Past(lives=past_of(2.0).lives, followed=past.followed)) is not law
    )
    assert knowledge.life(make_pool("b", zone="us-east-1a"), NOW, past) is not law


def test_nodes_on_demand_are_not_taken_away(knowledge: Embedded) -> None:
    past = past_of(0.1, 0.1, 0.1)

    assert knowledge.life(ON_DEMAND, NOW, past) is None
    assert knowledge.tell_life(ON_DEMAND, past, NOW) is None


def test_what_is_told_is_of_lives_that_are_over(knowledge: Embedded) -> None:
    past = past_of(2.0, 3.0, 5.0)
    running = Past(lives=past.lives, followed=(Followed(node="n", mark="m", since=at(-9999)),))

    told = knowledge.tell_life(POOL, past, NOW)

    assert told is not None
    assert told == knowledge.tell_life(POOL, running, NOW)
    assert (told.family, told.samples, told.brier) == ("stacked", 3, None)
    assert 2 < told.parameters["medianHours"] < 12
    assert told.parameters["aliveAfter1h"] > told.parameters["aliveAfter24h"]
    assert knowledge.tell_life(POOL, Past(), NOW) is None


def test_its_score_is_of_lives_that_it_did_not_see(knowledge: Embedded) -> None:
    alike = knowledge.tell_life(POOL, past_of(*[6.0] * LEAST_SCORED), NOW)
    apart = knowledge.tell_life(POOL, past_of(*([0.5, 23.0] * (LEAST_SCORED // 2))), NOW)

    assert alike is not None
    assert apart is not None
    assert alike.brier is not None
    assert apart.brier is not None
    assert 0 < alike.brier < apart.brier < 0.3
    assert knowledge.tell_life(POOL, past_of(*[6.0] * (LEAST_SCORED - 1)), NOW).brier is None  # type: ignore[union-attr]  # there are lives


def test_without_a_loss_there_is_nothing_to_score(knowledge: Embedded) -> None:
    told = knowledge.tell_life(POOL, past_of(*[6.0] * 20, revoked=False), NOW)

    assert told is not None
    assert told.brier is None
