"""What a regression saw bounds what it answers."""

import json

import numpy as np
import pytest

from ebbtide.core.models.forecast import Spread
from ebbtide.core.models.seen import Seen

SEEN = Seen.of(
    np.array([[10.0, 5.0], [30.0, 5.0]]),
    np.array([2.0, 4.0]),
    spread=Spread(low=0.9, high=1.2),
)


def test_the_least_that_was_seen_is_zero_and_the_most_one() -> None:
    found = SEEN.scale(np.array([[10.0, 5.0], [20.0, 5.0], [30.0, 6.0]]))

    assert found[:, 0].tolist() == [0.0, 0.5, 1.0]
    assert found[:, 1].tolist() == [0.0, 0.0, 1.0]  # a feature with one value keeps its unit


def test_answers_outside_of_what_was_seen_are_marked_and_wider() -> None:
    found = SEEN.bound(np.array([[20.0, 5.0], [31.0, 5.0], [20.0, 4.0]]), np.full(3, 3.0))

    assert found.beyond.tolist() == [False, True, True]
    assert found.high == pytest.approx(3.0 * np.array([1.2, 1.2**2, 1.2**2]))


def test_no_answer_is_below_a_tenth_of_the_least_time_seen() -> None:
    found = SEEN.bound(np.array([[20.0, 5.0]]), np.array([-7.0]))

    assert found.value.tolist() == [0.2]
    assert found.beyond.all()


def test_it_comes_back_from_json_to_the_last_bit() -> None:
    again = Seen.from_json(json.loads(json.dumps(SEEN.to_json())))

    assert again.to_json() == SEEN.to_json()
    assert again.spread == SEEN.spread
