"""Nodes of one pool that go together."""

import json

import numpy as np
import pytest

from ebbtide.core.models.lifetime.bursts import Bursts
from ebbtide.core.models.table import DataError


def test_losses_at_the_same_moment_are_one_event() -> None:
    moments = np.array([1.0, 1.01, 1.02, 1.03, 9.0, 9.01, 9.02, 9.03])

    found = Bursts.of(moments, np.array([4, 3, 2, 1, 4, 3, 2, 1.0]))

    assert found.events == 2
    assert found.share == pytest.approx(7 / 8)


def test_losses_apart_say_that_nodes_are_independent() -> None:
    moments = np.arange(20.0)

    found = Bursts.of(moments, np.full(20, 6.0))

    assert found.events == 20
    assert found.share < 0.05


def test_without_losses_either_is_as_likely() -> None:
    assert Bursts.of(np.array([]), np.array([])) == Bursts(share=0.5, events=0)


def test_all_or_none_leaves_nothing_in_between() -> None:
    chances = Bursts(share=1.0).num_lost(0.3, 4)

    assert chances.tolist() == pytest.approx([0.7, 0, 0, 0, 0.3])


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_going_together_changes_the_spread_and_not_the_mean(share: float) -> None:
    chances = Bursts(share=share).num_lost(0.2, 10)

    assert chances.sum() == pytest.approx(1)
    assert chances @ np.arange(11) == pytest.approx(2)
    assert chances[-1] == pytest.approx(share * 0.2 + (1 - share) * 0.2**10)


@pytest.mark.parametrize(
    ("moments", "alive", "words"),
    [
        pytest.param([1.0], [], "1 moments and 0", id="lengths"),
        pytest.param([1.0], [0.0], "loss 0", id="nobody there"),
        pytest.param([float("nan")], [2.0], "loss 0", id="no moment"),
        pytest.param([2.0, 1.0], [2.0, 2.0], "must rise", id="order"),
    ],
)
def test_losses_that_make_no_sense_are_named(
    moments: list[float], alive: list[float], words: str
) -> None:
    with pytest.raises(DataError, match=words):
        Bursts.of(np.array(moments), np.array(alive))


def test_shares_and_chances_lie_between_0_and_1() -> None:
    with pytest.raises(ValueError, match="share"):
        Bursts(share=1.5)
    with pytest.raises(ValueError, match="0 nodes"):
        Bursts(share=0.5).num_lost(0.5, 0)
    with pytest.raises(ValueError, match="chance 2"):
        Bursts(share=0.5).num_lost(2, 1)


def test_it_comes_back_from_json_as_it_was() -> None:
    found = Bursts(share=1 / 3, events=7)

    assert Bursts.from_json(json.loads(json.dumps(found.to_json()))) == found
    with pytest.raises(ValueError, match="share 2"):
        Bursts.from_json({"share": 2, "events": 1})
