"""Spot that cannot be had for a while: what the policies do until it can."""

import numpy as np
import pytest

from ebbtide.core.planner.policies.history import History
from ebbtide.core.planner.policies.moment import IDLE, ON_DEMAND
from ebbtide.core.simulator import fleet
from ebbtide.core.simulator.replay import Tick
from support.traces import HOUR_S, make_terms

TICK_S = 60.0
BACK_H = 3.0
"""When spot can be had again, from the start of the job."""


def play(policy: str, slack_h: float) -> tuple[list[Tick], bool]:
    """Three pools of spot that all fail at first; 8 h of work."""
    rows = np.arange(60 * 48)
    start = 60 * 20
    up = np.repeat((rows < start - 60) | (rows >= start + BACK_H * 60), 3).reshape(-1, 3)
    history = History(zones=("a", "b", "c"), up=up, tick_s=TICK_S)
    terms = make_terms(work_h=8.0, deadline_h=8.0 + slack_h, changeover_h=0.1, tick_s=TICK_S)
    log: list[Tick] = []
    (outcome,) = fleet.run(policy, [(terms, start)], history, fleet.World(logs={0: log}))
    return log, outcome.is_late


@pytest.mark.parametrize("policy", ["ebbtide", "uniform-progress"])
def test_b085_without_spot_on_demand_is_taken_in_time_and_spot_again_afterwards(
    policy: str,
) -> None:
    log, is_late = play(policy, slack_h=0.5)

    places = [tick.place for tick in log]
    back = int(BACK_H * HOUR_S / TICK_S)
    assert not is_late
    assert set(places[:back]) <= {IDLE, ON_DEMAND}
    assert places.index(ON_DEMAND) * TICK_S <= 0.4 * HOUR_S  # one changeover is kept in hand
    assert places[-1] >= 0


@pytest.mark.parametrize("policy", ["ebbtide", "greedy", "uniform-progress", "time-sliced"])
def test_b085_a_drought_longer_than_the_slack_costs_no_deadline(policy: str) -> None:
    for slack_h in (0.1, 0.2, 0.5, 2.0):
        _, is_late = play(policy, slack_h)
        assert not is_late, slack_h
