"""The steps of the solver, each against what it stands for."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from ebbtide.core.planner.solver import climb, dual
from ebbtide.core.planner.solver.chains import find_chains
from ebbtide.core.planner.solver.cover import Cover, Floats, Incumbent
from ebbtide.core.planner.solver.dominance import limit_most, limit_near
from ebbtide.core.planner.solver.nearest import Nearest
from ebbtide.core.planner.solver.prices import Prices, find_prices
from ebbtide.core.planner.solver.states import Lister

SEEDS = range(40)


def make_cover(seed: int, *, pools: int = 5, sizes: int = 1, floor: float = 0.0) -> Cover:
    """Return a small cover; some of its pools have the same rate."""
    rng = np.random.default_rng(seed)
    most = rng.integers(1, 4, pools).astype(float)
    chosen = np.sort(rng.choice(np.arange(1, int(most.sum())), sizes, replace=False))
    rate = rng.integers(1, 5, pools).astype(float)
    return Cover(
        cost=np.sort(rng.uniform(1, 5, pools)),
        rate=rate,
        least=np.zeros(pools),
        most=most,
        is_on_demand=np.arange(pools) % 2 == 0,
        sizes=chosen.astype(float),
        demand=rng.uniform(0.5, 0.9) * rate.mean() * chosen,
        top=np.full(sizes, np.inf),
        scale=np.ones(sizes),
        floor=min(floor, most[::2].sum(), chosen[0]),
    )


def least_cost(cover: Cover, most: Floats | None = None) -> float:
    """Return the cost of the best of all plans, infinite where none is legal."""
    limits = cover.most if most is None else most
    plans = itertools.product(*(range(int(limit) + 1) for limit in limits))
    values = [cover.value_of(np.array(plan, dtype=float)) for plan in plans]
    return min((value for value in values if value is not None), default=np.inf)


@pytest.mark.parametrize("floor", [0.0, 2.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_loops_and_tables_bound_every_size_alike(seed: int, floor: float) -> None:
    cover = make_cover(seed, pools=8, sizes=4, floor=floor)
    by_loops, by_tables = Incumbent(np.inf), Incumbent(np.inf)

    found, expected = climb.bound(cover, by_loops), dual.bound(cover, by_tables)

    assert (found is None) == (expected is None)
    assert by_loops.value == pytest.approx(by_tables.value)
    if found is not None and expected is not None:
        assert found.bounds.min() == pytest.approx(expected.bounds.min())
        assert found.price == pytest.approx(expected.price)


def test_a_size_beyond_all_pools_cannot_be_met() -> None:
    cover = make_cover(1)
    beyond = replace(cover, sizes=np.array([cover.most.sum() + 1]))

    assert climb.bound(beyond, Incumbent(np.inf)) is None


@pytest.mark.parametrize("floor", [0.0, 2.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_nearest_states_hold_the_best_plan(seed: int, floor: float) -> None:
    cover = make_cover(seed, floor=floor)
    best = Incumbent(np.inf)
    found = climb.bound(cover, Incumbent(np.inf))
    if found is None:
        assert least_cost(cover) == np.inf
        return
    prices = find_prices(cover, found)

    is_done = Nearest(cover, prices, best).search(lambda value: value - prices.bases[0], most=9_999)

    assert is_done
    assert best.value == pytest.approx(least_cost(cover))


def test_stops_where_there_are_more_states_than_asked_for() -> None:
    cover = make_cover(3, pools=9)
    prices = Prices(1.0, cover.cost - cover.rate, 0.0, np.array([-1e9]))

    assert not Nearest(cover, prices, Incumbent(np.inf)).search(lambda _: 1e9, most=20)


@pytest.mark.parametrize("limit", [limit_most, None], ids=["all plans", "plans within a room"])
@pytest.mark.parametrize("floor", [0.0, 2.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_what_dominance_leaves_out_is_in_no_best_plan_that_counts(
    seed: int, floor: float, limit: object
) -> None:
    cover = make_cover(seed, floor=floor)
    expected = least_cost(cover)
    found = climb.bound(cover, Incumbent(np.inf))
    if found is None:
        assert expected == np.inf
        return
    most = limit_most(cover) if limit else limits_near(cover, find_prices(cover, found), expected)

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
