"""The yardstick against enumeration of all plans, and against what can be seen by eye."""

from itertools import product

import numpy as np
import pytest

from ebbtide.core.planner.policies.history import History
from ebbtide.core.planner.policies.moment import IDLE, ON_DEMAND, Moment, Place, Terms
from ebbtide.core.simulator import omniscient
from ebbtide.core.simulator.prices import Prices, Series
from ebbtide.core.simulator.replay import Outcome, Replay, Trace
from support.traces import HOUR_S, make_flapping, make_history, make_terms


class Plan:
    """A policy that follows a fixed plan and waits where that cannot be had."""

    def __init__(self, places: tuple[int, ...]) -> None:
        self.places = places

    def decide(self, moment: Moment) -> Place:
        place = self.places[moment.row] if moment.row < len(self.places) else ON_DEMAND
        return IDLE if place >= 0 and not moment.up[place] else Place(place)


def enumerate_plans(history: History, job: Terms, prices: Prices = ()) -> float:
    """Return the least cost over all plans; six ticks have some thousand."""
    trace = Trace.of(history.up, prices, tick_s=history.tick_s)
    zones = range(len(history.zones))
    best = np.inf
    for places in product([IDLE, ON_DEMAND, *zones], repeat=len(history)):
        replay = Replay(Plan(places), job, trace=trace, start=0)
        replay.advance()
        outcome: Outcome = replay.outcome()
        if not outcome.is_late:
            best = min(best, outcome.cost_usd)
    return float(best)


@pytest.mark.parametrize(
    ("zones", "work_s", "deadline_s", "changeover_s"),
    [
        pytest.param(["110111"], 1400.0, 3600.0, 300.0, id="one zone"),
        pytest.param(["011011"], 1900.0, 3450.0, 720.0, id="a deadline inside a tick"),
        pytest.param(["11000", "00110"], 1150.0, 3000.0, 120.0, id="two zones in turn"),
        pytest.param(["10110", "01101"], 1333.3, 2950.0, 240.0, id="crooked work"),
        pytest.param(["010101"], 1100.0, 3600.0, 0.0, id="free changeovers"),
    ],
)
def test_no_plan_is_cheaper_and_one_costs_as_much(
    zones: list[str], work_s: float, deadline_s: float, changeover_s: float
) -> None:
    history = make_history(*zones)
    terms = make_terms(
        work_h=work_s / HOUR_S, deadline_h=deadline_s / HOUR_S, changeover_h=changeover_s / HOUR_S
    )

    found = omniscient.least_cost(history.up, terms, start=0)

    assert found == pytest.approx(enumerate_plans(history, terms), rel=1e-9)


@pytest.mark.parametrize("changeover_s", [300.0, 720.0])
def test_no_plan_is_cheaper_where_prices_move_inside_ticks_too(changeover_s: float) -> None:
    history = make_history("11111", "01110")
    prices = (
        Series((0.0, 700.0, 2000.0), (2e-4, 9e-4, 1e-4)),
        Series((0.0, 1300.0), (3e-4, 1.2e-4)),
    )
    terms = make_terms(
        work_h=1333 / HOUR_S, deadline_h=2950 / HOUR_S, changeover_h=changeover_s / HOUR_S
    )

    found = omniscient.least_cost(history.up, terms, start=0, prices=prices)

    assert found == pytest.approx(enumerate_plans(history, terms, prices), rel=1e-9)


def test_where_spot_is_always_up_all_is_spot() -> None:
    history, terms = make_history("1" * 360), make_terms()

    assert omniscient.least_cost(history.up, terms, start=0) == pytest.approx(48.2 * 0.918)
    assert omniscient.least_on_demand_s(history.up, terms, start=0) == pytest.approx(0, abs=1)


def test_where_spot_never_is_all_is_on_demand() -> None:
    history, terms = make_history("0" * 360), make_terms()

    assert omniscient.least_cost(history.up, terms, start=0) == pytest.approx(48.2 * 3.06)
    assert omniscient.least_on_demand_s(history.up, terms, start=0) == pytest.approx(48.2 * HOUR_S)


def test_a_trace_that_ends_before_the_deadline_has_nothing_up_behind_its_end() -> None:
    history = make_flapping(np.random.default_rng(3), rows=400)
    longer = np.concatenate([history.up, np.zeros((400, 1), dtype=np.bool_)])

    short = omniscient.least_cost(history.up, make_terms(), start=300)

    assert short == omniscient.least_cost(longer, make_terms(), start=300)


def test_a_deadline_that_nothing_meets_is_named_with_the_nearest_that_is_met() -> None:
    with pytest.raises(ValueError, match=r"deadline_s 173400: .* need 173520"):
        omniscient.least_cost(np.ones((9, 1), np.bool_), make_terms(deadline_h=48 + 1 / 6), start=0)


def test_with_less_slack_than_a_tick_or_none_at_all_there_is_nothing_to_choose() -> None:
    up = np.ones((400, 1), np.bool_)

    exact = make_terms(deadline_h=48.2)
    unpaid = make_terms(deadline_h=48.1, changeover_h=0.0)

    assert omniscient.least_cost(up, exact, start=0) == pytest.approx(48.2 * 0.918)
    assert omniscient.least_cost(up, unpaid, start=0) == pytest.approx(48 * 0.918)
