"""Our policy: its law, its value table, its safety net."""

import numpy as np
import pytest

from ebbtide.core.planner.policies.chain import EDGES, Chain, joint_law
from ebbtide.core.planner.policies.ebbtide import Ebbtide
from ebbtide.core.planner.policies.history import History
from ebbtide.core.planner.policies.law import FINE, States, by_hour, drift, prior, step_rows
from ebbtide.core.planner.policies.moment import IDLE, ON_DEMAND, Place
from ebbtide.core.planner.policies.shelf import Shelf
from ebbtide.core.planner.policies.value_table import Costs, Order, grid_of, solve
from ebbtide.core.simulator import fleet
from support.traces import HOUR_S, make_flapping, make_history, make_moment, make_terms

A = Place(0)
SPOT, RESERVED = 0.918 / HOUR_S, 3.06 / HOUR_S


# ---------------------------------------------------------------- law


def test_a_state_is_the_bit_and_the_time_since_it_changed() -> None:
    history = make_history("1110011111")  # ten minutes each: edges at 700, 1900, 3600 s

    states = States(history=history, zone=0).of_row.tolist()

    assert states == [0, 0, 1, 8, 8, 0, 0, 1, 1, 2]


def test_steps_are_ten_minutes_however_fine_the_probes_are() -> None:
    assert [step_rows(tick) for tick in (195.0, 300.0, 600.0, 3600.0)] == [3, 2, 1, 1]


def test_counts_are_by_hour_fade_with_age_and_know_only_what_came_before() -> None:
    history = make_history("1" * 20, start_s=HOUR_S * 23)
    states = States(history=history, zone=0)

    counts = states.counts(8)

    assert counts.sum() == pytest.approx(7, rel=0.01)
    assert counts[23].sum() == pytest.approx(6, rel=0.01)
    assert counts[0].sum() == pytest.approx(1, rel=0.01)
    newest = make_history("1" * 8, start_s=HOUR_S * 23)
    assert (States(history=newest, zone=0).counts(8) == counts).all()
    long_ago = States(history=make_history("1" * 2 + "0" * 6000), zone=0).counts(2 + 2880)
    assert long_ago[:, 0].sum() == pytest.approx(0.5 * 2, rel=0.01)  # 480 h later: one half


def test_where_nothing_was_seen_spells_end_at_a_fixed_rate_and_age() -> None:
    believed = drift(FINE, 600.0)

    assert believed.sum(axis=1) == pytest.approx(np.ones(16))
    assert believed[0, 8] == pytest.approx(600 / 7200)
    assert believed[0, 1] == pytest.approx((1 - 600 / 7200) * 600 / 700)
    assert believed[7, 7] == pytest.approx(1 - 600 / 7200)
    assert drift((100.0,), 600.0).sum(axis=1) == pytest.approx(np.ones(4))


def test_other_zones_fill_in_what_this_one_has_not_seen() -> None:
    pooled = np.zeros((16, 16))
    pooled[3, 8] = 98.0

    believed = prior(pooled, FINE, 600.0)
    law = by_hour(np.zeros((24, 16, 16)), believed)

    assert believed[3, 8] == pytest.approx((98 + 2 / 12) / 100)
    assert law[5] == pytest.approx(believed)


def test_hours_of_the_day_that_differ_have_laws_that_differ() -> None:
    counts = np.zeros((24, 16, 16))
    counts[12, 0, 8] = 300.0
    counts[0, 0, 1] = 300.0

    law = by_hour(counts, drift(FINE, 600.0))

    assert law.sum(axis=2) == pytest.approx(np.ones((24, 16)))
    assert law[12, 0, 8] > 0.9
    assert law[0, 0, 8] < 0.1
    assert law[1, 0, 1] == pytest.approx(law[23, 0, 1])  # the day is round


def test_joint_states_of_zones_lead_where_the_zones_lead() -> None:
    chain = Chain(2, EDGES[2])
    one = by_hour(np.zeros((24, 8, 8)), drift(EDGES[2], 600.0))

    law = joint_law([one, one])

    assert law.shape == (24, 64, 64)
    assert law.sum(axis=2) == pytest.approx(np.ones((24, 64)))
    assert law[0, chain.join([1, 5]), chain.join([2, 0])] == pytest.approx(
        one[0, 1, 2] * one[0, 5, 0]
    )
    assert chain.up[0] == slice(0, 32)
    assert list(np.arange(64)[chain.up[1]])[:5] == [0, 1, 2, 3, 8]


# ---------------------------------------------------------------- value table


def make_costs(*, changeover_s: float = 720.0, worst_s: float | None = None) -> Costs:
    return Costs(
        step_s=600.0,
        tick_s=600.0,
        changeover_s=changeover_s,
        worst_s=changeover_s if worst_s is None else worst_s,
        spot=SPOT,
        on_demand=RESERVED,
    )


def test_the_grid_of_slack_is_finest_where_minutes_count_and_reaches_far_enough() -> None:
    for slack in (0.0, 100.0, 3600.0, 9000.0, 200_000.0):
        grid = grid_of(slack)
        assert grid[0] == 0
        assert grid[-1] >= slack
        assert (np.diff(grid) > 0).all()
    assert np.diff(grid_of(3000.0)) == pytest.approx(120.0)


def test_where_spot_never_comes_the_rest_costs_what_on_demand_costs() -> None:
    down = np.zeros((24, 16, 16))
    down[:, :, 15] = 1.0
    order = Order(law=0, deadline_s=0.0, first=30, last=31)

    (table,) = solve([order], down[np.newaxis], Chain(1, FINE), costs=make_costs(), slack_s=7200)

    # at R = 30 steps with an hour of slack: 4 h of work; after one idle step the slack is 50 min
    slack = table.grid.index(3000.0)
    assert table.idle[1, 15, slack] == pytest.approx(RESERVED * (18_000 - 3000 + 720), rel=1e-3)


def test_where_spot_always_stays_the_rest_costs_what_spot_costs() -> None:
    up = np.zeros((24, 16, 16))
    up[:, :, 7] = 1.0
    order = Order(law=0, deadline_s=0.0, first=30, last=31)

    (table,) = solve([order], up[np.newaxis], Chain(1, FINE), costs=make_costs(), slack_s=7200)

    slack = table.grid.index(3000.0)
    assert table.kept[0][1, 7, slack] == pytest.approx(SPOT * (18_000 - 3000), rel=1e-3)
    assert table.idle[1, 7, slack] == pytest.approx(SPOT * (18_000 - 3000 + 720), rel=1e-3)


def test_tables_solved_together_are_those_solved_alone() -> None:
    chance = np.random.default_rng(8)
    laws = chance.dirichlet(np.ones(16), size=(2, 24, 16))
    orders = [
        Order(law=law, deadline_s=hour * HOUR_S, first=first, last=first + 3)
        for law, hour, first in ((0, 3, 5), (1, 20, 40), (0, 9, 20))
    ]
    rules = {"chain": Chain(1, FINE), "costs": make_costs(), "slack_s": 9000.0}

    together = solve(orders, laws, **rules)  # type: ignore[arg-type] # one dict for both calls

    for order, found in zip(orders, together, strict=True):
        (alone,) = solve([order], laws, **rules)  # type: ignore[arg-type] # one dict for both calls
        assert found.first == alone.first == order.first
        assert found.idle == pytest.approx(alone.idle, rel=1e-5)
        assert found.kept[0] == pytest.approx(alone.kept[0], rel=1e-5)


# ---------------------------------------------------------------- decisions


def make_policy(history: History, **terms: float) -> Ebbtide:
    job = make_terms(**terms)
    return Ebbtide(job, Shelf(history=history, terms=job))


def test_spot_that_lasts_is_taken_and_spot_that_comes_later_is_waited_for() -> None:
    often = make_history("1" * 500 + "0" * 12 + "1" * 200)
    policy = make_policy(often)

    assert policy.decide(make_moment(row=499)) == A
    assert policy.decide(make_moment(row=501, up=(False,))) == IDLE


def test_where_spot_is_rare_a_job_with_little_slack_goes_on_demand() -> None:
    rare = make_history("0" * 600)
    policy = make_policy(rare)

    assert policy.decide(make_moment(row=500, left_h=50.0, up=(False,))) == ON_DEMAND


@pytest.mark.parametrize(
    ("left_h", "changing_s", "expected"),
    [
        pytest.param(48.0, -1.0, {0, -1}, id="progress on spot needs no slack"),
        pytest.param(48.3, 300.0, {-1}, id="a changeover that would eat the reserve is left"),
        pytest.param(48.4, 300.0, {0, -1, -2}, id="one that leaves it goes on"),
    ],
)
def test_the_safety_net_on_spot(left_h: float, changing_s: float, expected: set[int]) -> None:
    policy = make_policy(make_history("1" * 600))
    moment = make_moment(row=500, left_h=left_h, place=A, changing_s=changing_s)

    assert {int(option.place) for option in policy.options(moment)} == expected


@pytest.mark.parametrize(
    ("slack_s", "expected"),
    [
        pytest.param(720.0 + 600 + 1, {0, -1, -2}, id="a tick more than a changeover: wait"),
        pytest.param(720.0 + 600 - 1, {-1}, id="less: neither wait nor try"),
        pytest.param(1440.0 + 1, {0, -1, -2}, id="two changeovers: try"),
        pytest.param(100.0, {-1}, id="nothing but on-demand"),
    ],
)
def test_the_safety_net_off_spot(slack_s: float, expected: set[int]) -> None:
    policy = make_policy(make_history("1" * 600))
    moment = make_moment(row=500, left_h=48 + slack_s / HOUR_S)

    found = {int(option.place) for option in policy.options(moment)}

    if slack_s > 720 + 600 and slack_s < 1440:
        expected = expected - {0}
    assert found == expected


def test_waiting_one_short_tick_too_many_is_priced_as_the_on_demand_that_must_follow() -> None:
    terms = make_terms(tick_s=195.0)
    history = make_history("1" * 600, tick_s=195.0)
    policy = Ebbtide(terms, Shelf(history=history, terms=terms))

    *_, reserved, idle = policy.options(make_moment(row=500, left_h=48 + 1000 / HOUR_S))

    assert (reserved.place, idle.place) == (ON_DEMAND, IDLE)
    assert idle.cost_usd == pytest.approx(48.2 * 3.06, abs=0.01)
    assert reserved.cost_usd <= idle.cost_usd


def test_a_zone_that_has_gone_is_no_option_and_a_second_one_is() -> None:
    history = make_flapping(np.random.default_rng(2), rows=600, num_zones=2)
    policy = make_policy(history)

    found = policy.options(make_moment(row=500, up=(False, True)))

    assert [int(option.place) for option in found] == [1, -1, -2]


def test_of_many_zones_the_best_three_and_the_one_that_is_used_are_looked_at() -> None:
    zones = ["1" * 9 + "0", "01" * 5, "0" * 10, "1" * 10, "0" * 9 + "1"]
    shelf = Shelf(history=make_history(*[zone * 40 for zone in zones]), terms=make_terms())

    assert shelf.zones_for(10, IDLE) == (0, 1, 3)
    assert shelf.zones_for(10, Place(2)) == (0, 2, 3)
    assert shelf.zones_for(0, IDLE) == (0, 1, 2)


def test_jobs_of_one_hour_of_deadline_share_a_table_and_old_ones_are_forgotten() -> None:
    shelf = Shelf(history=make_flapping(np.random.default_rng(4), rows=900), terms=make_terms())
    first = shelf.request(make_moment(row=100))
    later = shelf.request(make_moment(row=102, left_h=60 - 1 / 3))

    table = shelf.fetch(first)

    assert first.key == later.key
    assert shelf.fetch(later) is table
    shelf.prepare([first, later])
    assert shelf.fetch(first) is table
    shelf.fetch(shelf.request(make_moment(row=200)))
    assert first.key not in shelf._entries


def test_a_table_grows_to_what_a_second_job_asks_of_it() -> None:
    shelf = Shelf(history=make_flapping(np.random.default_rng(4), rows=900), terms=make_terms())
    small = shelf.request(make_moment(row=100))
    large = small._replace(most_s=small.most_s + 24 * HOUR_S, slack_s=small.slack_s + HOUR_S)

    table = shelf.fetch(small)

    assert shelf.fetch(large) is not table
    assert shelf.fetch(small) is shelf.fetch(large)


def test_terms_of_another_price_or_tick_than_those_of_the_shelf_are_refused() -> None:
    shelf = Shelf(history=make_history("10"), terms=make_terms())

    with pytest.raises(ValueError, match="of the job are not"):
        Ebbtide(make_terms(changeover_h=0.4), shelf)
    with pytest.raises(ValueError, match=r"tick_s 195.0: the history has 600.0"):
        Shelf(history=make_history("10"), terms=make_terms(tick_s=195.0))


def test_what_comes_later_in_the_trace_changes_no_decision() -> None:
    chance = np.random.default_rng(6)
    history = make_flapping(chance, rows=700)
    other = History(zones=("a",), up=history.up.copy(), tick_s=600.0)
    other.up[401:] = ~other.up[401:]
    moments = [make_moment(row=row, up=(bool(history.up[row, 0]),)) for row in range(380, 401)]

    first, second = make_policy(history), make_policy(other)

    assert [first.options(moment) for moment in moments] == [
        second.options(moment) for moment in moments
    ]


def test_a_fleet_decides_as_each_job_alone() -> None:
    history = make_flapping(np.random.default_rng(9), rows=900)
    arrivals = [
        (make_terms(work_h=8, deadline_h=hours), row)
        for hours, row in ((10, 300), (12, 310), (11, 800))
    ]

    together = fleet.run("ebbtide", arrivals, history)

    assert together == [fleet.run("ebbtide", [one], history)[0] for one in arrivals]
    assert fleet.run("ebbtide", [], history) == []


# ---------------------------------------------------------------- history


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"zones": ("a", "b")}, r"up: \[rows, 2\] is needed"),
        ({"up": np.zeros((0, 1), np.bool_)}, "at least one zone and one row"),
        ({"tick_s": 0.0}, "tick_s 0.0: a number above 0"),
    ],
)
def test_a_history_that_makes_no_sense_is_refused(
    change: dict[str, object], complaint: str
) -> None:
    right: dict[str, object] = {"zones": ("a",), "up": np.ones((3, 1), np.bool_), "tick_s": 600.0}

    with pytest.raises(ValueError, match=complaint):
        History(**(right | change))  # type: ignore[arg-type] # one field is wrong on purpose
