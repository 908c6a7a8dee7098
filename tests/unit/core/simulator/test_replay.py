"""The rules of a replay, to the second."""

from collections.abc import Sequence

import pytest

from ebbtide.core.planner.policies.moment import IDLE, ON_DEMAND, Moment, Place
from ebbtide.core.simulator.replay import Outcome, Replay, Trace, WrongChoiceError
from ebbtide.core.simulator.summary import Job, summarise
from support.traces import HOUR_S, make_terms

A, B = Place(0), Place(1)
SPOT, RESERVED = 0.918 / HOUR_S, 3.06 / HOUR_S


class Script:
    """A policy that reads its choices from a list; on-demand behind its end."""

    def __init__(self, *places: Place) -> None:
        self.places, self.seen = list(places), list[Moment]()

    def decide(self, moment: Moment) -> Place:
        self.seen.append(moment)
        return self.places.pop(0) if self.places else ON_DEMAND


def play(
    script: Script,
    *up: tuple[bool, ...],
    work_s: float = 1500.0,
    deadline_s: float = 6000.0,
    changeover_s: float = 720.0,
    real_s: float | None = None,
) -> Outcome:
    terms = make_terms(
        work_h=work_s / HOUR_S, deadline_h=deadline_s / HOUR_S, changeover_h=changeover_s / HOUR_S
    )
    trace = Trace(up=up or [(True, True)])
    replay = Replay(script, terms, trace=trace, start=0, changeover_s=real_s)
    replay.advance()
    return replay.outcome()


def test_the_first_start_pays_and_paying_stops_the_second_the_work_is_done() -> None:
    outcome = play(Script())

    assert outcome.finish_s == pytest.approx(2220.0)
    assert outcome.cost_usd == pytest.approx(2220 * RESERVED)
    assert (outcome.switches, outcome.is_late, outcome.spot_s) == (1, False, 0.0)


def test_a_move_pays_again_and_leaving_early_loses_what_was_paid() -> None:
    outcome = play(Script(A, B, B), (True, True), (True, True), (True, True))

    # 600 s of a changeover to A in vain; to B 720 s, and 480 s of work in 1,200 s
    assert outcome.spot_s == pytest.approx(1800.0)
    assert outcome.on_demand_s == pytest.approx(720 + 1500 - 480)
    assert outcome.on_demand_work_s == pytest.approx(1500 - 480)
    assert outcome.switches == 3


def test_a_zone_that_goes_leaves_the_job_nowhere_and_coming_back_costs() -> None:
    script = Script(A, A, IDLE, A, A, A)
    outcome = play(script, *[(True,)] * 2, (False,), *[(True,)] * 4, work_s=600.0)

    assert script.seen[1].changing_s == pytest.approx(600.0)
    assert script.seen[2].place == IDLE
    assert script.seen[3].work_s == pytest.approx(600 - 480)
    assert outcome.spot_s == pytest.approx(1200 + 720 + 120)
    assert outcome.finish_s == pytest.approx(1800 + 720 + 120)


def test_a_job_that_is_late_goes_on_on_demand_from_the_next_tick_and_is_a_miss() -> None:
    outcome = play(Script(*[IDLE] * 99), *[(True,)] * 9, deadline_s=2500.0)

    assert outcome.is_late
    assert outcome.finish_s == pytest.approx(3000 + 2220)
    assert outcome.on_demand_s == pytest.approx(2220)


def test_a_deadline_inside_a_tick_is_met_or_missed_to_the_second() -> None:
    assert not play(Script(), deadline_s=2220.0).is_late
    assert play(Script(), deadline_s=2219.0).is_late


def test_no_changeover_at_all_is_fine() -> None:
    outcome = play(Script(), changeover_s=0.0)

    assert outcome.finish_s == pytest.approx(1500.0)


def test_a_changeover_that_takes_longer_than_told_is_seen_to_go_on() -> None:
    script = Script()
    outcome = play(script, real_s=1440.0)

    assert [moment.changing_s for moment in script.seen[:4]] == [-1.0, 600.0, 1200.0, -1.0]
    assert outcome.finish_s == pytest.approx(1440 + 1500)


def test_behind_the_trace_nothing_is_up() -> None:
    script = Script(A)
    play(script, (True,))

    assert [moment.up for moment in script.seen[:2]] == [(True,), (False,)]
    assert script.seen[1].place == IDLE


@pytest.mark.parametrize("choices", [[Place(0)], [Place(2)]])
def test_a_policy_that_chooses_what_is_not_up_is_told(choices: Sequence[Place]) -> None:
    with pytest.raises(WrongChoiceError, match=r"row 0: zone . is not up: \(False, True\)"):
        play(Script(*choices), (False, True))


def test_there_is_no_outcome_before_the_end() -> None:
    replay = Replay(Script(), make_terms(), trace=Trace(up=[(True,)]), start=0)

    assert not replay.advance(3)
    assert not replay.is_done
    with pytest.raises(ValueError, match="not done"):
        replay.outcome()


def test_figures_of_jobs_are_means_and_misses_are_counted() -> None:
    quick, late = play(Script()), play(Script(*[IDLE] * 99), *[(True,)] * 9, deadline_s=2500.0)
    terms = make_terms(work_h=1500 / HOUR_S, deadline_h=1.0)
    jobs = [Job(terms=terms, start=0, least_usd=quick.cost_usd / 2)] * 2

    found = summarise(jobs, [quick, late])

    assert (found.jobs, found.misses, found.switches) == (2, 1, 1.0)
    assert found.points_above_omniscient == pytest.approx(50.0)
    assert found.p95_ratio == pytest.approx(2.0)
    with pytest.raises(ValueError, match="at least one"):
        summarise([], [])
