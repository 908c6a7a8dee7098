"""Single decisions of the plain policies."""

import math

import pytest

from ebbtide.core.planner.policies.greedy import Greedy
from ebbtide.core.planner.policies.moment import IDLE, ON_DEMAND, Place, Terms
from ebbtide.core.planner.policies.on_demand import OnDemand
from ebbtide.core.planner.policies.spot_only import SpotOnly
from ebbtide.core.planner.policies.time_sliced import TimeSliced
from ebbtide.core.planner.policies.uniform_progress import UniformProgress
from support.traces import make_moment, make_terms

TERMS = make_terms()
A, B = Place(0), Place(1)
NONE, BOTH, SECOND = (False, False), (True, True), (False, True)


def test_on_demand_is_always_on_demand() -> None:
    assert OnDemand(TERMS).decide(make_moment(up=BOTH)) == ON_DEMAND


def test_spot_only_waits_for_spot_even_past_the_deadline() -> None:
    assert SpotOnly(TERMS).decide(make_moment(left_h=1.0, up=NONE)) == IDLE
    assert SpotOnly(TERMS).decide(make_moment(left_h=1.0, up=SECOND)) == B


@pytest.mark.parametrize("policy", [Greedy(TERMS), UniformProgress(TERMS), SpotOnly(TERMS)])
def test_the_first_zone_that_is_up_is_taken_and_kept(
    policy: Greedy | UniformProgress | SpotOnly,
) -> None:
    assert policy.decide(make_moment(up=BOTH)) == A
    assert policy.decide(make_moment(up=SECOND)) == B
    assert policy.decide(make_moment(up=BOTH, place=B)) == B


@pytest.mark.parametrize(
    ("left_h", "expected"),
    [
        pytest.param(48.41, A, id="slack for a try that fails"),
        pytest.param(48.39, ON_DEMAND, id="less than two changeovers of slack"),
    ],
)
def test_greedy_tries_spot_while_a_failure_can_be_afforded(left_h: float, expected: Place) -> None:
    assert Greedy(TERMS).decide(make_moment(left_h=left_h)) == expected


@pytest.mark.parametrize("policy", [Greedy, UniformProgress])
def test_waiting_ends_one_tick_before_it_is_too_late(
    policy: type[Greedy] | type[UniformProgress],
) -> None:
    terms = make_terms(changeover_h=0.1)  # less than a tick: two changeovers are not the limit
    limit_h = 48.0 + 0.1 + 1 / 6

    ahead = {"elapsed_h": 0.0, "up": NONE}
    assert policy(terms).decide(make_moment(left_h=limit_h + 0.001, **ahead)) == IDLE  # type: ignore[arg-type] # one dict for both
    assert policy(terms).decide(make_moment(left_h=limit_h - 0.001, **ahead)) == ON_DEMAND  # type: ignore[arg-type] # one dict for both


def test_a_job_that_makes_progress_on_spot_stays_without_any_slack() -> None:
    moment = make_moment(left_h=48.0, place=A)

    assert Greedy(TERMS).decide(moment) == A
    assert UniformProgress(TERMS).decide(moment) == A


def test_a_changeover_to_spot_is_given_up_when_slack_runs_out() -> None:
    moment = make_moment(left_h=48.3, place=A, changing_s=600.0)

    assert Greedy(TERMS).decide(moment) == ON_DEMAND
    assert UniformProgress(TERMS).decide(moment) == ON_DEMAND


def test_uniform_progress_runs_on_demand_only_while_behind_the_line() -> None:
    policy = UniformProgress(TERMS)

    behind = make_moment(elapsed_h=10.0, left_h=50.0, work_h=40.1, up=NONE)
    ahead = make_moment(elapsed_h=10.0, left_h=50.0, work_h=39.9, up=NONE)

    assert policy.decide(behind) == ON_DEMAND
    assert policy.decide(ahead) == IDLE


def test_uniform_progress_leaves_on_demand_only_with_two_changeovers_in_hand() -> None:
    policy = UniformProgress(TERMS)
    at = {"elapsed_h": 10.0, "left_h": 50.0, "place": ON_DEMAND}

    # the line at 10.4 h is at 8.32 h of work
    assert policy.decide(make_moment(work_h=48 - 8.31, **at)) == ON_DEMAND  # type: ignore[arg-type] # one dict for all
    assert policy.decide(make_moment(work_h=48 - 8.33, **at)) == A  # type: ignore[arg-type] # one dict for all
    assert policy.decide(make_moment(work_h=48 - 9.0, up=NONE, **at)) == ON_DEMAND  # type: ignore[arg-type] # one dict for all


def test_time_slices_are_greedy_with_their_own_deadlines() -> None:
    policy = TimeSliced(TERMS)  # four of 15 h with 12 h of work each

    early = make_moment(elapsed_h=1.0, left_h=59.0, work_h=48.0, up=NONE)
    late = make_moment(elapsed_h=3.0, left_h=57.0, work_h=48.0, up=NONE)
    surplus = make_moment(elapsed_h=14.0, left_h=46.0, work_h=35.0, up=NONE)

    assert policy.decide(early) == IDLE
    assert policy.decide(late) == ON_DEMAND
    assert policy.decide(surplus) == IDLE
    assert policy.decide(surplus._replace(up=(True,))) == A


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("work_s", 0.0),
        ("deadline_s", -1.0),
        ("tick_s", math.nan),
        ("spot_usd_per_s", 0.0),
        ("on_demand_usd_per_s", math.inf),
        ("changeover_s", -1.0),
        ("worst_changeover_s", 1.0),
    ],
)
def test_terms_that_make_no_sense_are_refused_by_name(field: str, value: float) -> None:
    right = {name: getattr(TERMS, name) for name in TERMS.__slots__}

    with pytest.raises(ValueError, match=f"^{field} {value}: .* needed"):
        Terms(**(right | {field: value}))
