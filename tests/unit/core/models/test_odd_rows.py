"""Rows of another unit are found by other rows that make them absurd."""

import numpy as np
import pytest

from ebbtide.core.models.odd_rows import find_odd

SIZES = np.array([1.0, 4.0, 16.0, 64.0, 256.0])
SECONDS = np.array([1.0, 1.1, 1.4, 2.5, 7.0])


def test_times_that_rise_no_faster_than_sizes_are_all_right() -> None:
    assert find_odd(SIZES, SECONDS) is None
    assert find_odd(SIZES, SIZES) is None


@pytest.mark.parametrize("row", range(len(SIZES)))
@pytest.mark.parametrize("factor", [1000.0, 0.001])
def test_a_row_of_another_unit_is_found_wherever_it_stands(row: int, factor: float) -> None:
    seconds = SECONDS.copy()
    seconds[row] *= factor

    assert row in (find_odd(SIZES, seconds) or ())


@pytest.mark.parametrize("number", [0, 1])
def test_what_has_no_other_row_beside_it_is_never_odd(number: int) -> None:
    assert find_odd(SIZES[:number], SECONDS[:number]) is None


def test_two_times_of_one_size_may_not_lie_a_thousand_times_apart() -> None:
    assert set(find_odd(np.array([5.0, 5.0]), np.array([1.0, 1000.0])) or ()) == {0, 1}
