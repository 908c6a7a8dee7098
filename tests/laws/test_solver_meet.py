"""Where there are too many ways to go one by one, the pairs of two lists hold the best plan."""

import numpy as np
import pytest

from ebbtide.core.planner.solver import search, sizes
from ebbtide.core.planner.solver.cover import Incumbent
from solver.agreement import ask_both, compare, draw_any
from support.covers import least_cost, make_cover, make_torn

LISTS = sizes.Budget(0.0, 3_000)
"""Not one state is walked on from: all is left to the lists."""


@pytest.fixture
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "PLAIN", LISTS)


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize("floor", [0.0, 2.0])
def test_pairs_of_two_lists_are_as_good_as_all_plans(floor: float) -> None:
    settled = 0
    for seed in range(60):
        cover = make_cover(seed, sizes=2, floor=floor)
        best = Incumbent(np.inf)

        left = sizes.settle_cover(cover, best).left

        least = least_cost(cover)
        assert best.value >= least * (1 - 1e-9) or best.value == least
        if not left:
            settled += 1
            assert best.value == pytest.approx(least, rel=1e-7)

    assert settled >= 40


@pytest.mark.usefixtures("_always")
def test_a_demand_between_the_cheapest_and_the_fastest_nodes_is_met_at_least_cost() -> None:
    settled = 0
    for seed in range(12):
        cover, best = make_torn(seed), Incumbent(np.inf)

        if not sizes.settle_cover(cover, best).left:
            settled += 1
            assert best.value == pytest.approx(least_cost(cover), rel=1e-7)

    assert settled >= 8


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize("seed", range(2))
def test_highs_finds_nothing_better_than_the_pairs(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(100 + seed)
    # Cut and met again, as where loops are compiled, before any table is made.
    monkeypatch.setattr(search, "are_lists_met", lambda: True)

    found = [
        compare(question, *ask_both(question))
        for question in (draw_any(rng, most_pools=10, cap=6) for _ in range(60))
    ]

    assert "differs" not in found
    assert found.count("same") >= 56


def test_lists_that_are_too_long_leave_the_size_open(monkeypatch: pytest.MonkeyPatch) -> None:
    num_left = []
    for lists in (sizes.Budget(0.0, 0), sizes.Budget(0.0, 1), LISTS):
        monkeypatch.setattr(sizes, "PLAIN", lists)
        covers = [make_torn(seed) for seed in range(12)]
        num_left.append(
            sum(bool(sizes.settle_cover(cover, Incumbent(np.inf)).left) for cover in covers)
        )

    assert num_left == sorted(num_left, reverse=True)
    assert num_left[1] > num_left[2]
