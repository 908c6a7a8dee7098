"""Kills one after the other in one run: a tenth of what `make bench-runtime` does."""

import random

import pytest

from runtime import kept, kills
from support.nursery import Nursery

KILLS = 10
SECONDS = 30.0

pytestmark = pytest.mark.timed


def test_ten_random_kills_leave_each_sample_once_and_the_undisturbed_result(
    nursery: Nursery,
) -> None:
    outcome = kills.play(nursery, kills=KILLS, chance=random.Random(5))

    assert outcome.faults == ()
    assert outcome.is_same
    assert outcome.steps_redone == 0


def test_kills_four_times_as_often_leave_nearly_all_of_the_time_for_training(
    nursery: Nursery,
) -> None:
    wall, lost = kept.train(
        nursery, seconds=SECONDS, every=kept.EVERY_S / 4, chance=random.Random(3)
    )

    share, _, _ = kept.rows_of(wall, lost)
    assert len(lost) == 4
    assert share.holds
