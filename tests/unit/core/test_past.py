"""What follows from the past of a pool, and when."""

from datetime import datetime, timedelta

import pytest

from ebbtide.core.values.past import Followed, Life, Past, Spell, join
from support.builders import at

WAIT = timedelta(minutes=5)
START = timedelta(minutes=3)
HOUR = 3600.0


def life(ended: float, lasted: float, *, revoked: bool = True) -> Life:
    return Life(since=at(ended - lasted), lasted=timedelta(seconds=lasted), revoked=revoked)


def dry(tries: int, failed: float | None = 0) -> Past:
    return Past(
        spells=(Spell(available=False, since=at(-300)),),
        failed_tries=tries,
        failed_at=None if failed is None else at(failed),
    )


def quick(*ended: float) -> Past:
    return Past(lives=tuple(life(one, 300) for one in ended))


# ---------------------------------------------------------------- left out


@pytest.mark.parametrize(
    ("tries", "minutes"), [(1, 10), (2, 20), (3, 40), (5, 160), (6, 320), (7, 320), (10_000, 320)]
)
def test_a_pool_that_gave_no_node_is_left_out_for_longer_each_time(
    tries: int, minutes: float
) -> None:
    assert dry(tries).left_out_until(WAIT) == at(60 * minutes)


def test_it_is_dry_while_somebody_waits_or_it_is_left_out() -> None:
    assert dry(1, failed=None).dry_since(at(9999), WAIT) == at(-300)
    assert dry(1).dry_since(at(599), WAIT) == at(-300)
    assert dry(1).dry_since(at(600), WAIT) is None


def test_a_pool_that_gives_nodes_is_not_left_out() -> None:
    past = Past(spells=(Spell(available=True, since=at(0)),))

    assert past.left_out_until(WAIT) is None
    assert past.dry_since(at(1), WAIT) is None
    assert Past().dry_since(at(1), WAIT) is None


# ---------------------------------------------------------------- quick losses


def until(past: Past, seconds: float) -> datetime | None:
    return past.bad_until(at(seconds), START)


def test_three_quick_losses_in_a_row_are_held_against_a_pool_for_an_hour() -> None:
    past = quick(300, 700, 1100)

    assert until(quick(300, 700), 1101) is None
    assert until(past, 1101) == at(1100 + HOUR)
    assert until(past, 1100 + HOUR) is None


def test_one_more_and_it_is_for_twice_as_long_but_never_for_more_than_a_day() -> None:
    assert until(quick(300, 700, 1100, 1500), 1501) == at(1500 + 2 * HOUR)
    many = quick(*(300.0 + 400 * n for n in range(40)))
    assert until(many, 16_000) == at(300 + 400 * 39 + 24 * HOUR)


def test_nodes_that_went_together_are_one_loss() -> None:
    assert until(quick(700, 700, 730), 731) is None
    assert until(quick(300, 300, 700, 1100, 1110), 1111) == at(1110 + HOUR)


@pytest.mark.parametrize("revoked", [True, False])
def test_a_node_that_was_worth_its_start_breaks_the_row(*, revoked: bool) -> None:
    lives = (life(300, 300), life(700, 300), life(1800, 1000, revoked=revoked), life(2200, 300))

    assert until(Past(lives=lives), 2201) is None


def test_so_does_one_that_still_lives() -> None:
    bad = quick(300, 700, 1100)
    running = Followed(node="n", mark="m", since=at(1200))
    past = Past(lives=bad.lives, followed=(running,))

    assert until(past, 1500) is not None
    assert until(past, 1200 + 360) is None


def test_but_not_one_that_was_there_before_and_not_one_given_back_early() -> None:
    old = Followed(node="n", mark="m", since=at(-9000))
    short = life(1150, 20, revoked=False)

    past = Past(lives=(*quick(300, 700, 1100).lives, short), followed=(old,))

    assert until(past, 1500) == at(1100 + HOUR)


# ---------------------------------------------------------------- what is believed


def test_all_lives_are_believed_those_that_go_on_among_them() -> None:
    running = Followed(node="n", mark="m", since=at(0))
    idle = Followed(node="o", mark="m", since=at(0), idle_since=at(40))
    past = Past(lives=(life(5000, 4000),), followed=(running, idle))

    found = past.believed(at(6000), START)

    assert [(one.lasted.total_seconds(), one.revoked) for one in found] == [
        (4000, True),
        (6000, False),
        (40, False),
    ]


def test_a_bad_phase_counts_in_full_while_it_lasts_and_as_one_loss_afterwards() -> None:
    past = quick(300, 700, 1100)

    assert past.believed(at(1101), START) == past.lives
    assert past.believed(at(1100 + HOUR), START) == past.lives[-1:]


def test_a_loss_more_brings_the_whole_phase_back() -> None:
    past = quick(300, 700, 1100, 1100 + 2 * HOUR)

    assert past.believed(at(1101 + 2 * HOUR), START) == past.lives


def test_a_phase_that_was_broken_stays_one_loss() -> None:
    good = life(9000, 4000)
    past = Past(lives=(*quick(300, 700, 1100).lives, good))

    assert past.believed(at(9001), START) == past.lives[2:]


def test_of_nodes_alike_one_is_left_too() -> None:
    same = life(700, 300)
    past = Past(lives=(same, same, life(1100, 300), life(1500, 300)))

    assert past.believed(at(1500 + HOUR), START) == past.lives[-1:]


def test_what_is_older_than_a_week_is_forgotten() -> None:
    week = 7 * 24 * HOUR

    assert quick(300).believed(at(300 + week), START)
    assert not quick(300).believed(at(301 + week), START)


# ---------------------------------------------------------------- several pools


def spells(*changes: tuple[float, bool]) -> Past:
    return Past(spells=tuple(Spell(available=up, since=at(when)) for when, up in changes))


def test_several_pools_give_nodes_while_one_of_them_does() -> None:
    one = spells((0, True), (100, False), (400, True), (500, False))
    other = spells((50, True), (200, False))

    found = [(s.available, (s.since - at(0)).total_seconds()) for s in join([one, other])]

    assert found == [(True, 0), (False, 200), (True, 400), (False, 500)]


def test_of_pools_that_nobody_asked_nothing_is_known() -> None:
    assert join([Past(), Past()]) == ()
    assert join([Past(), spells((0, False))]) == (Spell(available=False, since=at(0)),)
