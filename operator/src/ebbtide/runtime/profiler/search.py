"""The largest batch that fits: doubling until one does not, then bisection."""

from collections.abc import Callable
from dataclasses import dataclass

from ebbtide.runtime.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Where the search ended."""

    largest: int
    """Samples; its own probe fitted. 0: not even one sample does."""
    probes: int
    is_limit: bool = False
    """The largest that was asked for still fits: more was not tried."""


def find_largest(fits: Callable[[int], bool], *, most: int | None = None) -> Found:
    """
    Return the largest batch of 1 ... `most` that fits, where a batch fits if a larger one does.

    Takes at most 2 * log2(b) probes, b being the first power of two that does not fit: one for
    each power of two up to it, and one for each halving of the gap (Srifty, MLSys 2022, searches
    so). What comes back was itself probed and fitted.
    """
    if most is not None and most < 1:
        raise UsageError(f"the largest batch to try is {most}; it must be at least 1")
    good, bad, probes = 0, 1, 0
    while True:
        probes += 1
        if not fits(bad):
            break
        good = bad
        if good == most:
            return Found(largest=good, probes=probes, is_limit=True)
        bad = 2 * good if most is None else min(2 * good, most)
    while bad - good > 1:
        middle = (good + bad) // 2
        probes += 1
        if fits(middle):
            good = middle
        else:
            bad = middle
    return Found(largest=good, probes=probes)
