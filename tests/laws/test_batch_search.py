"""The largest batch is found for every memory, and cheaply."""

import math

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.runtime.profiler.search import find_largest


@given(largest=st.integers(0, 2**40), most=st.none() | st.integers(1, 2**40))
def test_the_true_largest_is_found_with_two_probes_for_each_doubling(
    largest: int, most: int | None
) -> None:
    asked: list[int] = []

    def fits(batch: int) -> bool:
        asked.append(batch)
        return batch <= largest

    found = find_largest(fits, most=most)

    true = largest if most is None else min(largest, most)
    assert found.largest == true
    assert found.largest == 0 or found.largest in asked
    assert found.is_limit == (most is not None and largest >= most)
    first_too_large = 2 ** (math.floor(math.log2(true)) + 1) if true else 2
    assert found.probes == len(asked) <= 2 * math.log2(first_too_large)


@given(
    fixed=st.floats(0, 8),
    per_sample=st.floats(0.001, 4),
    limit=st.floats(0.5, 80),
)
def test_the_largest_grows_with_the_memory(fixed: float, per_sample: float, limit: float) -> None:
    def largest_in(size: float) -> int:
        return find_largest(lambda batch: fixed + per_sample * batch <= size).largest

    assert largest_in(limit) <= largest_in(limit * 1.5)
    assert (fixed + per_sample * largest_in(limit) <= limit) or largest_in(limit) == 0
