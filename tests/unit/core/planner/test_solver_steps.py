"""The steps of the solver, each against what it stands for."""

from dataclasses import replace

import numpy as np
import pytest

from ebbtide.core.planner.solver.chains import find_chains
from ebbtide.core.planner.solver.climb import find_bound
from ebbtide.core.planner.solver.cover import Cover, Floats, Incumbent
from ebbtide.core.planner.solver.dominance import limit_most, limit_near
from ebbtide.core.planner.solver.prices import Prices, find_prices
from ebbtide.core.planner.solver.sizes import settle_cover
from ebbtide.core.planner.solver.states import Lister
from support.covers import least_cost, make_cover, make_torn

SEEDS = range(40)
AMPLE = 10.0
"""Of the budget of states: more than all plans of five pools."""


@pytest.mark.parametrize("floor", [0.0, 2.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_plan_of_a_size_is_below_its_bound(seed: int, floor: float) -> None:
    cover = make_cover(seed, sizes=3, floor=floor)
    met = Incumbent(np.inf)

    found = find_bound(cover, met)

    assert met.value >= least_cost(cover) - 1e-9
    if found is None:
        assert least_cost(cover) == np.inf
        return
    for place, lowest in enumerate(found.bounds.tolist()):
        assert lowest <= least_cost(cover.at([place])) + 1e-9


def test_two_plans_at_the_best_price_mix_to_the_demand() -> None:
    cover = make_torn(2)

    found = find_bound(cover, Incumbent(np.inf))

    assert found is not None
    assert found.mixed is not None
    assert found.mixed.sum() == pytest.approx(cover.sizes[0])
    assert cover.rate @ found.mixed == pytest.approx(cover.demand[0])
    assert cover.cost @ found.mixed == pytest.approx(found.bounds[0])


def test_a_size_beyond_all_pools_cannot_be_met() -> None:
    cover = make_cover(1)
    beyond = replace(cover, sizes=np.array([cover.most.sum() + 1]))

    assert find_bound(beyond, Incumbent(np.inf)) is None


@pytest.mark.parametrize("sizes", [1, 3])
@pytest.mark.parametrize("floor", [0.0, 2.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_one_by_one_the_states_hold_the_best_plan(seed: int, floor: float, sizes: int) -> None:
    cover = make_cover(seed, sizes=sizes, floor=floor)
    best = Incumbent(np.inf)

    settled = settle_cover(cover, best, share=AMPLE)

    assert settled.left == ()
    assert best.value == pytest.approx(least_cost(cover))
    assert settled.bound <= best.value + 1e-9


@pytest.mark.parametrize("floor", [0.0, 2.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_limit_from_above_is_kept_too(seed: int, floor: float) -> None:
    cover = make_cover(seed, floor=floor)
    narrow = replace(cover, top=1.05 * cover.demand)
    best = Incumbent(np.inf)

    settled = settle_cover(narrow, best, share=AMPLE)

    assert settled.left == ()
    assert best.value == pytest.approx(least_cost(narrow))


def test_says_of_which_sizes_something_is_left() -> None:
    cover = make_torn(2)

    settled = settle_cover(cover, Incumbent(np.inf), share=0.0)

    assert [place for place, _ in settled.left] == [0]


@pytest.mark.parametrize("room", [False, True], ids=["all plans", "plans within a room"])
@pytest.mark.parametrize("floor", [0.0, 2.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_what_dominance_leaves_out_is_in_no_best_plan_that_counts(
    seed: int, floor: float, *, room: bool
) -> None:
    cover = make_cover(seed, floor=floor)
    expected = least_cost(cover)
    found = find_bound(cover, Incumbent(np.inf))
    if found is None:
        assert expected == np.inf
        return
    if room:
        most = limits_near(cover, find_prices(cover, found.price), expected)
    else:
        columns = np.array([cover.cost, cover.rate, cover.most, cover.is_on_demand])
        most = limit_most(columns, cover.sizes[-1], cover.floor)

    assert least_cost(cover, most) == pytest.approx(expected)


def limits_near(cover: Cover, prices: Prices, value: float) -> Floats:
    """Return the most nodes of each pool after the limits of a room; what is full stays so."""
    lister = Lister(cover, prices, 0.0)
    columns = lister.columns[:, : len(cover.cost)]
    room = value - float(prices.bases[0]) + 1e-6
    changes = limit_near(cover, columns, cover.most, room)
    return np.where(prices.reduced < 0, cover.most, changes)


def test_pools_of_one_rate_change_in_the_order_of_their_cost() -> None:
    # rows: distance, nodes, rate, cost, on demand
    columns = np.array(
        [
            [0.3, 0.1, 0.2, 0.4],
            [1.0, 1.0, 1.0, -1.0],
            [2.0, 2.0, 3.0, -2.0],
            [1.3, 1.1, 1.2, -0.9],
            [0.0, 0.0, 0.0, 0.0],
        ]
    )
    plan = np.zeros(4)

    (chain,) = find_chains(columns, np.array([5.0, 2.0, 1.0, 1.0]))
    chain.change(plan, 3)

    assert chain.pools.tolist() == [1, 0]
    assert chain.options(0.65)[0] == pytest.approx([0.0, 0.1, 0.2, 0.5])
    assert plan.tolist() == [1.0, 2.0, 0.0, 0.0]
