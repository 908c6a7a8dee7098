"""What holds for every policy over every trace."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.core.planner.policies.history import History
from ebbtide.core.planner.policies.moment import Terms
from ebbtide.core.simulator import fleet, omniscient
from ebbtide.core.simulator.prices import Series
from ebbtide.core.simulator.replay import Outcome
from support.traces import HOUR_S, make_terms

ROWS = 160
PLAIN_SAFE = ("greedy", "uniform-progress", "time-sliced", "on-demand")
SAFE = (*PLAIN_SAFE, "ebbtide")

# Runs of ticks in which each zone is up, then down, then up ...
SPELLS = st.lists(st.integers(1, 40), min_size=4, max_size=40)
TICKS = st.sampled_from([195.0, 600.0, 1000.0])


@st.composite
def histories(draw: st.DrawFn, most_zones: int = 2) -> History:
    columns = []
    for _ in range(draw(st.integers(1, most_zones))):
        bits = np.repeat(np.arange(len(spells := draw(SPELLS))) % 2 == 0, spells)
        columns.append(np.resize(bits, ROWS))
    names = tuple("abc"[: len(columns)])
    return History(zones=names, up=np.column_stack(columns), tick_s=draw(TICKS))


@st.composite
def jobs(draw: st.DrawFn, tick_s: float, margin: float = 1.0) -> Terms:
    """Jobs that on-demand can do even where a changeover takes `margin` times what is planned."""
    changeover_h = draw(st.floats(0.0, 0.5))
    work_h = draw(st.floats(0.5, 12.0))
    slack_h = draw(st.floats(0.0, 6.0))
    return make_terms(
        work_h=work_h,
        deadline_h=work_h + margin * changeover_h + slack_h + 1e-6,
        changeover_h=changeover_h,
        worst_h=margin * changeover_h,
        tick_s=tick_s,
    )


@st.composite
def prices_of(draw: st.DrawFn, history: History) -> tuple[Series, ...]:
    """Prices that change now and then, also inside ticks, and pass that of on-demand at times."""
    found = []
    for _ in history.zones:
        times = sorted(draw(st.sets(st.integers(1, int(ROWS * history.tick_s)), max_size=6)))
        usd = draw(st.lists(st.floats(0.05, 4.0), min_size=7, max_size=7))
        hourly = [price / HOUR_S for price in usd[: len(times) + 1]]
        found.append(Series((0.0, *map(float, times)), tuple(hourly)))
    return tuple(found)


def play(
    name: str,
    terms: Terms,
    history: History,
    real_s: float | None = None,
    prices: tuple[Series, ...] = (),
) -> Outcome:
    world = fleet.World(changeover_s=real_s, prices=prices)
    (outcome,) = fleet.run(name, [(terms, 20)], history, world)
    return outcome


@settings(max_examples=60)
@given(data=st.data(), history=histories())
def test_no_deadline_is_missed_that_on_demand_could_have_met(
    data: st.DataObject, history: History
) -> None:
    terms = data.draw(jobs(history.tick_s))

    for name in ("greedy", "uniform-progress", "on-demand", "ebbtide"):
        assert not play(name, terms, history).is_late, name


@settings(max_examples=60)
@given(data=st.data(), history=histories())
def test_ours_meets_it_too_where_each_changeover_takes_twice_what_was_planned(
    data: st.DataObject, history: History
) -> None:
    terms = data.draw(jobs(history.tick_s, margin=2.0))

    assert not play("ebbtide", terms, history, 2 * terms.changeover_s).is_late


@settings(max_examples=40)
@given(data=st.data(), history=histories())
def test_nobody_is_cheaper_than_omniscient_and_all_work_is_done(
    data: st.DataObject, history: History
) -> None:
    terms = data.draw(jobs(history.tick_s))
    # the yardstick takes whole seconds as they are
    terms = replace(
        terms,
        changeover_s=round(terms.changeover_s),
        worst_changeover_s=round(terms.changeover_s),
        deadline_s=terms.deadline_s + 1,
    )

    least = omniscient.least_cost(history.up, terms, start=20)

    for name in fleet.NAMES:
        outcome = play(name, terms, history)
        paid_s = outcome.spot_s + outcome.on_demand_s
        assert paid_s >= terms.work_s + terms.changeover_s - 1e-3
        assert paid_s <= terms.work_s + outcome.switches * terms.changeover_s + 1e-3
        if not outcome.is_late:
            assert outcome.cost_usd >= least - 1e-6, name


@settings(max_examples=40)
@given(data=st.data(), history=histories())
def test_more_capacity_and_more_time_never_cost_who_knows_the_future_more(
    data: st.DataObject, history: History
) -> None:
    terms = data.draw(jobs(history.tick_s))
    spare = np.ones((ROWS, 1), np.bool_)

    least = omniscient.least_cost(history.up, terms, start=20)
    more = omniscient.least_cost(np.hstack([history.up, spare]), terms, start=20)
    later = replace(terms, deadline_s=terms.deadline_s + 3 * history.tick_s)

    assert more <= least + 1e-9
    assert omniscient.least_cost(history.up, later, start=20) <= least + 1e-9


@settings(max_examples=15)
@given(data=st.data(), history=histories(most_zones=3))
def test_the_same_run_gives_the_same_outcome_and_names_of_zones_mean_nothing(
    data: st.DataObject, history: History
) -> None:
    terms = data.draw(jobs(history.tick_s))
    renamed = replace(history, zones=tuple(f"zone {name}" for name in history.zones))

    for name in fleet.NAMES:
        assert play(name, terms, history) == play(name, terms, renamed)


@settings(max_examples=15)
@given(data=st.data(), history=histories(most_zones=3))
def test_what_comes_after_the_end_of_a_job_changes_nothing(
    data: st.DataObject, history: History
) -> None:
    terms = data.draw(jobs(history.tick_s))

    for name in fleet.NAMES:
        outcome = play(name, terms, history)
        ended = 21 + int(outcome.finish_s // history.tick_s)
        other = history.up.copy()
        other[ended:] = ~other[ended:]
        assert play(name, terms, replace(history, up=other)) == outcome


@settings(max_examples=30)
@given(data=st.data(), history=histories(most_zones=3))
def test_whatever_prices_do_no_deadline_is_missed_and_omniscient_pays_least(
    data: st.DataObject, history: History
) -> None:
    terms = data.draw(jobs(history.tick_s))
    # the yardstick takes whole seconds as they are
    change_s = round(terms.changeover_s)
    terms = replace(
        terms,
        changeover_s=change_s,
        worst_changeover_s=change_s,
        deadline_s=terms.deadline_s + 1,
    )
    prices = data.draw(prices_of(history))

    least = omniscient.least_cost(history.up, terms, start=20, prices=prices)

    for name in ("greedy", "uniform-progress", "on-demand", "ebbtide"):
        outcome = play(name, terms, history, prices=prices)
        assert not outcome.is_late, name
        assert outcome.cost_usd >= least - 1e-6, name


@settings(max_examples=15)
@given(data=st.data(), history=histories())
def test_prices_that_come_after_the_end_of_a_job_change_nothing(
    data: st.DataObject, history: History
) -> None:
    terms = data.draw(jobs(history.tick_s))
    prices = data.draw(prices_of(history))

    for name in fleet.NAMES:
        outcome = play(name, terms, history, prices=prices)
        ended_s = 20 * history.tick_s + outcome.finish_s + 1
        other = tuple(
            Series(
                (*(t for t in zone.times_s if t < ended_s), ended_s),
                (
                    *(
                        usd
                        for t, usd in zip(zone.times_s, zone.usd_per_s, strict=True)
                        if t < ended_s
                    ),
                    1.0,
                ),
            )
            for zone in prices
        )
        assert play(name, terms, history, prices=other) == outcome


@given(work_h=st.floats(1.0, 20.0), changeover_h=st.floats(0.0, 0.5))
def test_on_demand_costs_its_work_and_one_changeover(work_h: float, changeover_h: float) -> None:
    history = History(zones=("a",), up=np.zeros((ROWS, 1), np.bool_), tick_s=600.0)
    terms = make_terms(work_h=work_h, deadline_h=30, changeover_h=changeover_h)

    outcome = play("on-demand", terms, history)

    assert outcome.finish_s == pytest.approx((work_h + changeover_h) * HOUR_S)
    assert outcome.cost_usd == pytest.approx((work_h + changeover_h) * 3.06)
