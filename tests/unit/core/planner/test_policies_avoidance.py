"""Zones that take back at once what they grant."""

import numpy as np
import pytest

from ebbtide.core.planner.policies.avoidance import Avoidance
from ebbtide.core.planner.policies.history import History
from ebbtide.core.planner.policies.moment import IDLE, ON_DEMAND, Moment, Place, Terms
from ebbtide.core.simulator import fleet, omniscient
from ebbtide.core.simulator.prices import Series
from ebbtide.core.simulator.replay import Tick
from support.traces import HOUR_S, make_moment

A, B = Place(0), Place(1)
TICK_S = 60.0


def see(avoidance: Avoidance, at_h: float, work_h: float, place: Place) -> frozenset[int]:
    return avoidance.look(seen(at_h, work_h, place))


def seen(at_h: float, work_h: float, place: Place) -> Moment:
    return make_moment(elapsed_h=at_h, work_h=work_h, place=place, up=(True, True))


def lose(avoidance: Avoidance, at_h: float, *, gained_h: float) -> frozenset[int]:
    """Start in A a moment before, and lose it."""
    avoidance.chose(A, seen(at_h - 0.01, 10.0, IDLE))
    return see(avoidance, at_h, 10.0 - gained_h, IDLE)


def test_three_quick_losses_in_a_row_rest_a_zone_for_an_hour() -> None:
    avoidance = Avoidance(0.2 * HOUR_S)

    found = [lose(avoidance, at, gained_h=0.1) for at in (1.0, 1.1, 1.2)]

    assert found == [frozenset(), frozenset(), {0}]
    assert see(avoidance, 2.19, 9.0, IDLE) == {0}
    assert see(avoidance, 2.21, 9.0, IDLE) == frozenset()


def test_it_is_tried_again_and_each_rest_is_twice_as_long_until_it_was_worth_it() -> None:
    avoidance = Avoidance(0.2 * HOUR_S)
    for at in (1.0, 1.1, 1.2):
        lose(avoidance, at, gained_h=0.0)

    assert lose(avoidance, 3.0, gained_h=0.0) == {0}
    assert see(avoidance, 4.9, 9.0, IDLE) == {0}
    assert see(avoidance, 5.1, 9.0, IDLE) == frozenset()
    assert lose(avoidance, 6.0, gained_h=0.3) == frozenset()
    assert lose(avoidance, 6.1, gained_h=0.0) == frozenset()


def test_whoever_leaves_or_stays_has_lost_nothing() -> None:
    avoidance = Avoidance(0.2 * HOUR_S)

    for at in (1.0, 2.0, 3.0, 4.0):
        avoidance.chose(A, seen(at, 10.0, IDLE))
        assert see(avoidance, at + 0.1, 10.0, A) == frozenset()
        avoidance.chose(ON_DEMAND, seen(at + 0.1, 10.0, A))
        assert see(avoidance, at + 0.2, 10.0, ON_DEMAND) == frozenset()


def test_work_counts_from_the_start_of_a_spell_and_not_from_its_last_tick() -> None:
    avoidance = Avoidance(0.2 * HOUR_S)

    for at in (1.0, 2.0, 3.0):
        avoidance.chose(A, seen(at, 10.0, IDLE))
        see(avoidance, at + 0.4, 9.8, A)
        avoidance.chose(A, seen(at + 0.4, 9.8, A))
        assert see(avoidance, at + 0.5, 9.7, IDLE) == frozenset()


def play(changeover_s: float, start: int) -> tuple[list[Tick], float, float, bool]:
    """Pool A 1.0/h for 5 minutes at a time, B 1.4/h for 12 h, on-demand 3.0/h; 6 h of work."""
    rows = np.arange(60 * 60)
    up = np.column_stack([rows % 6 != 5, rows % 720 != 719])
    history = History(zones=("a", "b"), up=up, tick_s=TICK_S)
    terms = Terms(
        work_s=6 * HOUR_S,
        deadline_s=12 * HOUR_S,
        changeover_s=changeover_s,
        worst_changeover_s=changeover_s,
        spot_usd_per_s=1.4 / HOUR_S,
        on_demand_usd_per_s=3.0 / HOUR_S,
        tick_s=TICK_S,
    )
    prices = (Series.steady(1.0 / HOUR_S), Series.steady(1.4 / HOUR_S))
    log: list[Tick] = []
    (outcome,) = fleet.run(
        "ebbtide", [(terms, start)], history, fleet.World(prices=prices, logs={0: log})
    )
    least = omniscient.least_cost(up, terms, start=start, prices=prices)
    return log, outcome.cost_usd, least, outcome.is_late


@pytest.mark.parametrize("start", [0, 1200])
@pytest.mark.parametrize("changeover_s", [240.0, 300.0, 600.0])
def test_b083_after_three_quick_losses_the_job_moves_to_the_pool_that_lasts(
    changeover_s: float, start: int
) -> None:
    log, cost, least, is_late = play(changeover_s, start)

    places = [tick.place for tick in log]
    first_in_b = next(
        number for number in range(len(places)) if places[number : number + 30] == [B] * 30
    )
    assert losses(places[:first_in_b]) <= 3
    # it is probed again later, but rarely
    assert 1 <= losses(places[first_in_b:]) <= 3
    assert not is_late
    assert cost < 1.2 * least


def losses(places: list[Place]) -> int:
    """Spells in A."""
    starts = zip([IDLE, *places], places, strict=False)
    return sum(now == A != before for before, now in starts)
