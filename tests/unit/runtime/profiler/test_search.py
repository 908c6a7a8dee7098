"""The search for the largest batch, on memories that are arithmetic."""

import math

import pytest

from ebbtide.runtime.errors import UsageError
from ebbtide.runtime.profiler.search import Found, find_largest


class Memory:
    """Fits up to a size, and writes down what was asked."""

    def __init__(self, largest: int) -> None:
        self.largest = largest
        self.asked: list[int] = []

    def fits(self, batch: int) -> bool:
        self.asked.append(batch)
        return batch <= self.largest


def test_srifty_check_10_the_published_example_takes_nine_doublings_and_seven_halvings() -> None:
    # 1.2 GB, and 0.11 GB for each sample, of 16 GB.
    asked: list[int] = []

    def fits(batch: int) -> bool:
        asked.append(batch)
        return 1.2 + 0.11 * batch <= 16

    found = find_largest(fits)

    assert found == Found(largest=134, probes=16)
    assert asked[:9] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert len(asked[9:]) == 7


def test_where_one_sample_does_not_fit_nothing_is_found() -> None:
    memory = Memory(0)

    assert find_largest(memory.fits) == Found(largest=0, probes=1)
    assert memory.asked == [1]


@pytest.mark.parametrize("largest", [1, 2, 3, 127, 128, 129, 1000, 65_536])
def test_what_comes_back_was_probed_and_fitted(largest: int) -> None:
    memory = Memory(largest)

    found = find_largest(memory.fits)

    assert found.largest == largest
    assert largest in memory.asked
    assert largest + 1 in memory.asked, "the next larger one was seen not to fit"
    assert found.probes == len(memory.asked) == len(set(memory.asked))
    assert found.probes <= 2 * (math.floor(math.log2(largest)) + 1)


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        pytest.param(100, Found(largest=100, probes=8, is_limit=True), id="more would fit"),
        pytest.param(1, Found(largest=1, probes=1, is_limit=True), id="one sample is enough"),
    ],
)
def test_no_more_is_tried_than_is_wanted(most: int, expected: Found) -> None:
    memory = Memory(5000)

    assert find_largest(memory.fits, most=most) == expected
    assert max(memory.asked) == most


def test_below_the_most_the_search_goes_on() -> None:
    memory = Memory(70)

    assert find_largest(memory.fits, most=100).largest == 70


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(UsageError, match="is 0; it must be at least 1"):
        find_largest(Memory(3).fits, most=0)
