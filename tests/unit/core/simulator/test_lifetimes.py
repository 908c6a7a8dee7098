"""Histories that are drawn from lives of nodes."""

from itertools import pairwise

import numpy as np
import pytest

from ebbtide.core.models.table import DataError, Table
from ebbtide.core.planner.policies.history import History
from ebbtide.core.simulator.lifetimes import Shape, draw_history
from support.lives import table_of

DAY_S = 86_400.0


def lives(*pools: tuple[str, float], number: int = 400) -> Table:
    """Pools whose nodes live so many hours in the mean, exponentially."""
    chance = np.random.default_rng(3)
    return table_of(
        *(
            (name, chance.exponential(mean, number).tolist(), [1] * number)
            for name, mean in pools
        )
    )  # fmt: skip


def draw(table: Table, *, days: float = 20, outage_h: float = 2.0, seed: int = 0) -> History:
    shape = Shape(length_s=days * DAY_S, tick_s=600.0, outage_s=outage_h * 3600)
    return draw_history(table, shape, np.random.default_rng(seed))


def spells_h(history: History, *, up: bool) -> list[float]:
    """Hours of the spells inside the history, the first and the last left out."""
    bits = history.up[:, 0]
    changes = np.flatnonzero(np.diff(bits.astype(int))) + 1
    parts = list(pairwise(changes))
    return [(end - begin) / 6 for begin, end in parts if bits[begin] == up]


def test_zones_are_up_for_lives_and_down_for_outages() -> None:
    table = lives(("a", 6.0))
    life_h = float(np.mean(table.cells["lifetime_h"].astype(float)))

    history = draw(table, days=400)

    # a tick that a spell does not cover is down: half a tick at each end of it
    assert np.mean(spells_h(history, up=True)) == pytest.approx(life_h, rel=0.12)
    assert np.mean(spells_h(history, up=False)) == pytest.approx(2.0 + 1 / 6, rel=0.12)
    assert history.up.mean() == pytest.approx(life_h / (life_h + 2), abs=0.04)


def test_a_pool_whose_nodes_live_longer_is_up_for_longer() -> None:
    history = draw(lives(("short", 1.0), ("long", 20.0)), days=120)

    assert history.zones == ("short", "long")
    short, long = history.up.mean(axis=0)
    assert short < 0.5
    assert long > 0.8


def test_longer_outages_leave_less_capacity() -> None:
    shares = [draw(lives(("a", 6.0)), outage_h=hours).up.mean() for hours in (0.5, 2.0, 12.0)]

    assert shares == sorted(shares, reverse=True)


def test_the_same_seed_draws_the_same_and_a_zone_more_changes_no_other() -> None:
    one = draw(lives(("a", 6.0)), seed=4)

    assert (draw(lives(("a", 6.0)), seed=4).up == one.up).all()
    assert (draw(lives(("a", 6.0)), seed=5).up != one.up).any()


def test_zones_are_independent_draws() -> None:
    a, b = draw(lives(("a", 6.0), ("b", 6.0)), days=200).up.T

    assert abs(np.corrcoef(a, b)[0, 1]) < 0.1


def test_it_does_not_begin_with_all_zones_up() -> None:
    pools = [(f"p{number}", 2.0) for number in range(40)]
    history = draw(lives(*pools, number=30), days=2, outage_h=2.0)

    assert 0.2 < history.up[0].mean() < 0.75


def test_pools_of_one_name_are_told_apart_by_zone_and_gpu() -> None:
    history = draw(lives(("a/z1/K80", 3.0), ("a/z2/K80", 3.0)), days=2)

    assert history.zones == ("a/z1/K80", "a/z2/K80")


def test_a_life_that_makes_no_sense_is_refused_with_its_row() -> None:
    with pytest.raises(DataError, match="column lifetime_h, row 3: 'soon' is not a number of h"):
        draw(Table.of(pool=["a", "a"], lifetime_h=["1", "soon"], revoked=["1", "1"]))
