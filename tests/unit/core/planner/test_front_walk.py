"""The search along a front, for wishes that the pool solver has no goal for."""

import math

import numpy as np
import pytest

from ebbtide.core.planner.front_walk import NEAR, find, is_one_goal, walk
from ebbtide.core.planner.solver.question import Fleet, PoolOffer, Servers
from ebbtide.core.planner.wishes import Cheapest, Fastest, Nearest, Slowest, Wish, worth_of

WISHES = (
    Cheapest(0.0, 0.002),
    Cheapest(300.0, 0.002),
    Fastest(0.02, 0.001),
    Fastest(0.03, 0.004),
    Nearest(0.002, 0.01, 0.001),
    Cheapest(250.0),
    Slowest(250.0),
    Fastest(0.02),
    Fastest(),
)


def draw(seed: int) -> Fleet:
    chance = np.random.default_rng(seed)
    pools = tuple(
        PoolOffer(
            f"p{place}",
            round(float(chance.uniform(0.5, 4.0)), 2),
            float(chance.uniform(50, 300)),
            int(chance.integers(1, 5)),
        )
        for place in range(3)
    )
    return Fleet(
        pools=pools,
        sizes=tuple(range(1, 13)),
        efficiency=tuple(1 / (1 + 0.05 * others) for others in range(12)),
        servers=Servers(0.2, 900.0, 1) if seed % 2 else None,
    )


def list_fleets(fleet: Fleet) -> list[tuple[float, float]]:
    """Return USD per hour and rate of all fleets."""
    rooms = [np.arange(pool.most + 1) for pool in fleet.pools]
    counts = np.stack(np.meshgrid(*rooms), axis=-1).reshape(-1, len(rooms))
    counts = counts[(counts.sum(1) > 0) & (counts.sum(1) <= 12)]
    usd = counts @ [pool.usd_per_hour for pool in fleet.pools]
    rate = counts @ [pool.rate for pool in fleet.pools]
    rate = rate * np.array(fleet.efficiency)[counts.sum(1) - 1]
    if fleet.servers:
        usd, rate = usd + fleet.servers.usd_per_hour, np.minimum(rate, fleet.servers.rate)
    return list(zip(usd.tolist(), rate.tolist(), strict=True))


@pytest.mark.parametrize("wish", WISHES, ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_the_answer_is_the_best_of_all_fleets_within_the_gap(seed: int, wish: Wish) -> None:
    fleet = draw(seed)
    worths = [worth_of(wish, usd, rate, slack=1e-9) for usd, rate in list_fleets(fleet)]
    met = [worth[0] for worth in worths if worth is not None]

    found = find(fleet, wish)

    if found is None:
        assert not met
        return
    worth = worth_of(wish, found.cost, found.rate, slack=1e-7)
    assert worth is not None
    assert worth[0] <= min(met) + NEAR * abs(min(met))


@pytest.mark.parametrize("seed", range(4))
def test_a_walk_finds_every_fleet_that_costs_least_at_its_rate(seed: int) -> None:
    fleet = draw(seed)
    front: list[tuple[float, float]] = []
    for usd, rate in sorted(list_fleets(fleet), key=lambda one: (one[0], -one[1])):
        if not front or rate > front[-1][1] * (1 + 1e-9):
            front.append((usd, rate))

    walked = [(one.cost, one.rate) for one in walk(fleet, points=10**9)]

    for usd, rate in front:
        assert any(math.isclose(usd, a) and math.isclose(rate, b) for a, b in walked)


def test_a_walk_of_few_points_is_short_and_reaches_both_ends() -> None:
    whole = list(walk(draw(2), points=10**9))

    short = list(walk(draw(2), points=4))

    assert len(short) <= 6 < len(whole)
    assert (short[0].rate, short[-1].rate) == (whole[0].rate, whole[-1].rate)


def test_the_solver_has_goals_for_wishes_without_a_start() -> None:
    assert is_one_goal(Cheapest(5.0))
    assert is_one_goal(Slowest(5.0))
    assert is_one_goal(Fastest())
    assert not is_one_goal(Cheapest(5.0, 0.1))
    assert not is_one_goal(Nearest(1.0, 1.0))


def test_no_fleet_is_fast_enough() -> None:
    assert find(draw(0), Cheapest(1e9, 0.1)) is None
    assert find(draw(0), Fastest(1e-9, 0.1)) is None
