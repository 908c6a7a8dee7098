"""The bench of policies, a fiftieth of its jobs."""

import pytest

from ebbtide.core.simulator.fleet import NAMES, OURS
from policy.cases import Case, all_cases, jobs_of, num_fit_rows, read
from policy.judging import Took, rows
from policy.playing import Found, play
from policy.published import Hours, play_trace, rows_of


def test_at_full_size_there_are_ten_thousand_jobs_and_twenty_triples() -> None:
    cases = all_cases(1.0)

    assert sum(case.num_jobs for case in cases if case.part == "one zone") == 10_200
    triples = [case.zones for case in cases if case.part == "three zones"]
    assert len(triples) == 20
    assert all(len(set(zones)) == 3 for zones in triples)


def test_jobs_come_behind_the_part_for_fitting_and_end_inside_the_trace() -> None:
    case = Case("one zone", (9,), 0.2, (0.6, 0.9), 50, seed=1)
    history, pool = read(case.zones)

    jobs = list(jobs_of(case, history))

    assert len(jobs) == 100
    assert min(start for _, start in jobs) >= num_fit_rows(history)
    for terms, start in jobs:
        assert start * history.tick_s + terms.deadline_s <= len(history) * history.tick_s
    # the prior of a zone comes from the eight traces of another year
    assert {zone for past in pool for zone in past.zones}.isdisjoint(history.zones)


@pytest.mark.parametrize("zones", [(2,), (8, 10, 16)])
def test_a_case_is_played_by_all_policies_without_a_miss(zones: tuple[int, ...]) -> None:
    case = Case("one zone", zones, 0.2, (0.9,), 1, seed=3)

    _, found = play(case)

    assert set(found) == {*NAMES}
    assert all(len(policy.points) == 1 for policy in found.values())
    # Who misses the deadline may pay less than the best that meets it.
    assert all(min(policy.ratios) >= 1 - 1e-9 for policy in found.values() if not policy.misses)
    assert [found[name].misses for name in (OURS, "greedy", "uniform-progress")] == [0, 0, 0]


def test_a_changeover_twice_as_long_as_planned_costs_no_deadline() -> None:
    _, found = play(Case("doubled", (0,), 0.4, (0.9,), 1, seed=3))

    assert list(found) == [OURS]
    assert found[OURS].misses == 0


def made_up(points: float, misses: int = 0) -> Found:
    return Found(points=(points,), ratios=(1.1,), misses=misses, simulated_days=300.0, cpu_s=1.0)


def make_results(ours: float, misses: int = 0) -> list[tuple[Case, dict[str, Found]]]:
    others = {"greedy": 9.0, "uniform-progress": 6.0, "time-sliced": 8.0, "on-demand": 50.0}
    return [
        (
            case,
            {name: made_up(points) for name, points in others.items()}
            | {OURS: made_up(ours, misses)},
        )
        for case in all_cases(0.02)
    ]


@pytest.mark.parametrize(
    ("ours", "missed"),
    [
        pytest.param(3.0, [], id="half of Uniform Progress, a third of greedy"),
        pytest.param(
            3.25,
            ["changeover 0.2 h: points / Uniform Progress"],
            id="too little",
        ),
        pytest.param(
            4.0,
            [
                "changeover 0.2 h: points / Uniform Progress",
                "changeover 0.2 h: points / greedy",
                "three zones, changeover 0.2 h: points / Uniform Progress",
            ],
            id="far too little",
        ),
    ],
)
def test_bars_are_ratios_to_the_peers_of_the_run(ours: float, missed: list[str]) -> None:
    found = rows(make_results(ours), Took(wall_s=1.0, cpu_s=1.0), is_full=True)

    assert [row.name for row in found if row.holds is False] == missed


def test_one_missed_deadline_breaks_the_bar_at_any_size() -> None:
    found = rows(make_results(3.0, misses=1), Took(wall_s=1.0, cpu_s=1.0), is_full=False)

    assert [row.bar for row in found if "deadlines missed" in row.name] == [0] * 7
    assert not any(row.holds for row in found if "deadlines missed" in row.name)
    assert not any(row.bar for row in found if "points /" in row.name)


def test_check_14_a_trace_of_the_published_table_is_replayed_without_a_miss() -> None:
    found = play_trace(1, 4)

    assert found.misses == 0
    for hours in found.by_policy.values():
        assert len(hours) == 4
        assert all(0 <= hour <= 48 + 1e-6 for hour in hours)


@pytest.mark.parametrize(
    ("greedy", "uniform", "missed"),
    [
        pytest.param(31.0, 26.2, [], id="as published"),
        pytest.param(32.0, 26.2, ["greedy, hours off"], id="another greedy"),
        pytest.param(31.0, 23.0, ["uniform-progress, hours off"], id="another Uniform Progress"),
        pytest.param(
            29.9, 20.0, ["uniform-progress, hours off", "omniscient below"], id="too good"
        ),
    ],
)
def test_check_14_the_means_are_held_against_the_published_ones(
    greedy: float, uniform: float, missed: list[str]
) -> None:
    hours = Hours(
        by_policy={"greedy": (greedy,), "uniform-progress": (uniform,)}, least=(20.7,), misses=0
    )

    found = rows_of([hours], is_full=True)

    names = [row.name for row in found if row.holds is False]
    assert len(names) == len(missed)
    assert all(word in name for word, name in zip(missed, names, strict=True))
