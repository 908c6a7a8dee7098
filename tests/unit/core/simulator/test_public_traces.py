"""The published table of greedy and Uniform Progress on the public traces ("Can't Be Late")."""

import numpy as np
import pytest

from ebbtide.core.planner.policies.history import History
from ebbtide.core.simulator import fleet, omniscient
from ebbtide.core.simulator.replay import Outcome
from support.traces import HOUR_S, make_terms, read_pings

TERMS = make_terms()
JOBS_EACH = 60


@pytest.fixture(scope="module")
def starts() -> list[tuple[History, list[int]]]:
    chance = np.random.default_rng(14)
    return [
        (history, chance.integers(0, len(history) - 360 + 1, JOBS_EACH).tolist())
        for history in read_pings()
    ]


def play(name: str, starts: list[tuple[History, list[int]]]) -> list[Outcome]:
    return [
        outcome
        for history, rows in starts
        for outcome in fleet.run(name, [(TERMS, row) for row in rows], history)
    ]


def on_demand_h(outcomes: list[Outcome]) -> float:
    """Hours of progress on on-demand, as the table counts."""
    return float(np.mean([outcome.on_demand_work_s for outcome in outcomes])) / HOUR_S


def test_check_14_greedy_and_uniform_progress_are_the_published_ones(
    starts: list[tuple[History, list[int]]],
) -> None:
    greedy, uniform = play("greedy", starts), play("uniform-progress", starts)
    least = [
        omniscient.least_on_demand_s(history.up, TERMS, start=row)
        for history, rows in starts
        for row in rows[:10]
    ]

    assert not any(outcome.is_late for outcome in [*greedy, *uniform])
    # 2,400 jobs of the paper: 30.8 and 25.1 h; the tolerance is for their other starts
    assert on_demand_h(greedy) == pytest.approx(30.8, abs=1.0)
    assert on_demand_h(uniform) == pytest.approx(25.1, abs=1.5)
    assert np.mean(least) / HOUR_S < on_demand_h(uniform) < on_demand_h(greedy)


def test_the_traces_have_the_availability_that_is_known_of_them() -> None:
    shares = [float(history.up.mean()) for history in read_pings()]

    assert len(shares) == 8
    # 1 in the files means that there is none: read the wrong way round this fails
    assert np.mean(shares) == pytest.approx(0.5, abs=0.15)
