"""Prices of spot over time: read, billed, seen by policies."""

import numpy as np
import pytest

from ebbtide.core.models.table import DataError, Table
from ebbtide.core.planner.policies.history import History
from ebbtide.core.planner.policies.moment import IDLE, ON_DEMAND, Moment, Place
from ebbtide.core.simulator import fleet, omniscient
from ebbtide.core.simulator.prices import Series, by_row, read_prices
from ebbtide.core.simulator.replay import Replay, Tick, Trace
from support.traces import HOUR_S, make_history, make_moment, make_terms

DAY = "1" * 144
A, B = Place(0), Place(1)


def hourly(*changes: tuple[float, float]) -> Series:
    """A price in USD/h from each hour on."""
    return Series(
        tuple(hour * HOUR_S for hour, _ in changes), tuple(usd / HOUR_S for _, usd in changes)
    )


# ---------------------------------------------------------------- one series


def test_a_price_holds_from_its_second_to_the_next_one() -> None:
    price = hourly((0, 1.0), (2, 3.0))

    assert [price.now(at) * HOUR_S for at in (-5, 0, 7199, 7200, 1e6)] == pytest.approx(
        [1.0, 1.0, 1.0, 3.0, 3.0]
    )


def test_a_stretch_over_a_change_pays_each_part_at_its_price() -> None:
    price = hourly((0, 1.0), (2, 3.0), (4, 0.5))

    assert price.usd(1.5 * HOUR_S, HOUR_S) == pytest.approx(0.5 * 1 + 0.5 * 3)
    assert price.usd(0, 10 * HOUR_S) == pytest.approx(2 * 1 + 2 * 3 + 6 * 0.5)
    lengths = np.array([0.0, 1.0, 3.0]) * HOUR_S
    assert price.usd_each(HOUR_S, lengths) == pytest.approx([0.0, 1.0, 7.0])
    assert Series.steady(0.5).usd_each(7.0, lengths) == pytest.approx(0.5 * lengths)


def test_several_nodes_cost_several_times_as_much() -> None:
    assert hourly((0, 1.0), (2, 3.0)).times(4).usd(0, 4 * HOUR_S) == pytest.approx(32.0)


# ---------------------------------------------------------------- reading


def table(*rows: tuple[object, ...]) -> Table:
    return Table.of(
        seconds=[row[0] for row in rows],
        zone=[row[1] for row in rows],
        price=[row[2] for row in rows],
    )


def test_zones_may_be_mixed_and_times_are_on_the_clock_of_the_trace() -> None:
    history = make_history(DAY, DAY, start_s=7200.0)

    a, b = read_prices(
        table((0, "a", 1.0), (0, "b", 2), (9000, "a", 4.0), (7300, "b", 5)), history, default=None
    )

    assert a.times_s == (-7200.0, 1800.0)
    assert b.usd_per_s == pytest.approx((2 / HOUR_S, 5 / HOUR_S))
    assert by_row([a, b], rows=5, tick_s=600.0)[3] == pytest.approx((4 / HOUR_S, 5 / HOUR_S))


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ((600, "c", 1), "column zone, row 4: 'c' is no zone of the trace: a, b"),
        ((600, "a", 0), "column price, row 4: 0 is not a number of USD/h above 0"),
        ((600, "a", -1), "column price, row 4: -1 is not"),
        ((600, "a", "N/A"), "column price, row 4: 'N/A' is not"),
        ((600, "a", "nan"), "column price, row 4: 'nan' is not"),
        ((600, "a", ""), "column price, row 4: '' is not"),
        ((600, "a", "$1.20"), "column price, row 4: '$1.20' is not"),
        ((-1, "a", 1), "column seconds, row 4: -1 is not a number of s at least 0"),
        ((0, "a", 2), "column seconds, row 4: 0 is not after the price before of zone a, at 0"),
        ((600, "", 2), "column zone, row 4: empty"),
    ],
)
def test_b081_a_price_of_a_trace_that_cannot_be_believed_is_refused_with_its_row(
    row: tuple[object, ...], complaint: str
) -> None:
    with pytest.raises(DataError) as caught:
        read_prices(table((0, "a", 1), (0, "b", 1), row), make_history(DAY, DAY), default=0.1)

    assert complaint in str(caught.value)


def test_a_zone_without_a_price_is_refused_or_has_the_one_that_the_user_names() -> None:
    late = table((0, "a", 1), (1200, "b", 2))
    with pytest.raises(DataError, match=r"'b' has no price at 0, .*its first price is at 1200"):
        read_prices(late, make_history(DAY, DAY), default=None)
    with pytest.raises(DataError, match=r"'b' has no price at 0, .*none"):
        read_prices(table((0, "a", 1)), make_history(DAY, DAY), default=None)

    _, b = read_prices(late, make_history(DAY, DAY), default=0.5)
    assert (b.now(0), b.now(1200)) == pytest.approx((0.5, 2 / HOUR_S))


# ---------------------------------------------------------------- bills


class Keep:
    """A policy that stays in one place, and tells what it saw."""

    def __init__(self, place: Place) -> None:
        self.place, self.seen = place, list[Moment]()

    def decide(self, moment: Moment) -> Place:
        self.seen.append(moment)
        return self.place


def keep(place: Place, history: History, *prices: Series) -> tuple[Keep, Replay, list[Tick]]:
    policy, log = Keep(place), list[Tick]()
    trace = Trace.of(history.up, prices, tick_s=history.tick_s)
    replay = Replay(policy, make_terms(work_h=2.0), trace=trace, start=6, log=log)
    replay.advance()
    return policy, replay, log


def test_the_bill_is_exact_to_the_second_also_where_a_price_changes_inside_a_tick() -> None:
    price = Series((0.0, 4000.0, 5000.0), (0.001, 0.002, 0.004))

    policy, replay, log = keep(A, make_history(DAY), price)

    # from 3,600 s on: a changeover of 720 s and 7,200 s of work
    expected = 400 * 0.001 + 1000 * 0.002 + (7920 - 1400) * 0.004
    assert replay.outcome().cost_usd == pytest.approx(expected, abs=1e-9)
    assert [moment.spot_usd_per_s for moment in policy.seen[:4]] == [
        (0.001,), (0.002,), (0.002,), (0.004,),
    ]  # fmt: skip
    assert log[-1].cost_usd == pytest.approx(expected)
    assert [tick.cost_usd for tick in log[:2]] == pytest.approx([0.8, 2.0])


def test_on_demand_costs_what_it_costs_and_idling_nothing() -> None:
    _, replay, _ = keep(ON_DEMAND, make_history(DAY), Series.steady(5.0))

    assert replay.outcome().cost_usd == pytest.approx(7920 * 3.06 / HOUR_S)


def test_behind_the_trace_its_last_prices_hold() -> None:
    policy, _, _ = keep(ON_DEMAND, make_history("1" * 10), hourly((0, 1.0), (1.2, 2.0)))

    assert policy.seen[-1].spot_usd_per_s == pytest.approx((2.0 / HOUR_S,))


def test_without_prices_a_moment_says_nothing_of_them() -> None:
    policy, _, log = keep(IDLE, make_history(DAY))

    assert policy.seen[0].spot_usd_per_s == ()
    assert log[0] == Tick(6, IDLE, 0.0, 7200.0, 0.0)


# ---------------------------------------------------------------- choices


def test_ours_takes_the_cheaper_zone_and_moves_when_that_pays() -> None:
    history = make_history("1" * 600, "1" * 600)
    terms = make_terms(work_h=24.0, deadline_h=30.0)
    prices = (hourly((0, 0.9), (60, 0.3)), hourly((0, 0.4), (60, 2.0)))
    log: list[Tick] = []

    fleet.run("ebbtide", [(terms, 300)], history, fleet.World(prices=prices, logs={0: log}))

    # the job begins at 50 h in the cheaper zone, and from 60 h on the other is cheaper
    places = {row * 600 / HOUR_S: place for row, place, *_ in log}
    assert (places[50.0], places[59.0], places[60.0]) == (B, B, A)


def test_ours_stays_where_a_change_of_price_is_too_small_for_a_move() -> None:
    history = make_history("1" * 600, "1" * 600)
    prices = (hourly((0, 0.9), (60, 0.399)), hourly((0, 0.4)))
    log: list[Tick] = []
    arrivals = [(make_terms(work_h=24.0, deadline_h=30.0), 300)]

    fleet.run("ebbtide", arrivals, history, fleet.World(prices=prices, logs={0: log}))

    assert {tick.place for tick in log} == {B}


def test_b080_ours_buys_on_demand_while_spot_is_dearer() -> None:
    history = make_history("1" * 600)
    prices = (hourly((0, 3.5), (60, 0.9)),)
    terms = make_terms(work_h=24.0, deadline_h=24.5)
    log: list[Tick] = []

    fleet.run("ebbtide", [(terms, 300)], history, fleet.World(prices=prices, logs={0: log}))

    places = {row * 600 / HOUR_S: place for row, place, *_ in log}
    assert places[50.0] == places[59.0] == ON_DEMAND


def test_prices_that_are_those_of_the_terms_change_nothing() -> None:
    chance = np.random.default_rng(5)
    up = np.cumsum(chance.random((700, 2)) < 0.1, axis=0) % 2 == 0
    history = History(zones=("a", "b"), up=up, tick_s=600.0)
    arrivals = [(make_terms(work_h=24.0, deadline_h=30.0), row) for row in (300, 330)]
    same = fleet.World(prices=(Series.steady(0.918 / HOUR_S),) * 2)

    for name in fleet.NAMES:
        told, seen = (fleet.run(name, arrivals, history, world) for world in (None, same))
        assert [job.finish_s for job in told] == [job.finish_s for job in seen]
        assert [job.cost_usd for job in told] == pytest.approx([job.cost_usd for job in seen])


def test_a_moment_may_be_made_without_prices() -> None:
    assert make_moment().spot_usd_per_s == ()


def test_omniscient_waits_for_the_lower_price() -> None:
    history = make_history("1" * 300)
    terms = make_terms(work_h=5.0, deadline_h=20.0)
    prices = (hourly((0, 2.0), (10, 0.5), (15.2, 2.0)),)

    least = omniscient.least_cost(history.up, terms, start=0, prices=prices)

    # exactly the changeover and the work fit between 10 h and 15.2 h
    assert least == pytest.approx(5.2 * 0.5)
