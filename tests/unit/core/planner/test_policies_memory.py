"""Tables that are kept: they decide nothing, and save the work of solving them again."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from ebbtide.core.planner import waiting
from ebbtide.core.planner.policies.memory import Facts, Memory, Reach
from ebbtide.core.planner.policies.value_table import Costs, Table
from ebbtide.core.planner.waiting import Drought, may_stand_in
from support.builders import START

HOUR = 3600.0
COSTS = Costs(step_s=600.0, tick_s=60.0, changeover_s=180.0, worst_s=360.0, spot=1.0, on_demand=3.0)
NOTHING = np.zeros((1, 1, 2), np.float32)
TABLE = Table(first=0, grid=(0.0, 1.0), idle=NOTHING, on_demand=NOTHING, kept=(), lost=())
WHOLE = Reach(0.0, 10 * HOUR, 5 * HOUR)


def facts(hour: int = 0) -> Facts:
    return Facts(b"law", COSTS, hour, ())


def drought(**changes: Any) -> Drought:
    """A job of eight hours with sixteen hours of time, whose spot went a minute ago."""
    whole = Drought(
        work_s=8 * HOUR,
        left_s=16 * HOUR,
        changeover_s=180.0,
        spot_usd_per_hour=1.0,
        on_demand_usd_per_hour=3.0,
        down_s=300.0,
        tick_s=60.0,
        now=START,
    )
    return replace(whole, **changes)


def wait_on(number: int, every_s: float) -> list[Drought]:
    """Say what is asked while a job waits."""
    return [
        replace(
            drought(down_s=300.0 + every_s * k, left_s=16 * HOUR - every_s * k),
            now=START + timedelta(seconds=every_s * k),
        )
        for k in range(number)
    ]


@pytest.mark.parametrize(
    ("needed", "is_there"),
    [
        pytest.param(WHOLE, True, id="all of it"),
        pytest.param(Reach(HOUR, 2 * HOUR, HOUR), True, id="a part"),
        pytest.param(WHOLE._replace(most_s=11 * HOUR), False, id="more time"),
        pytest.param(WHOLE._replace(slack_s=6 * HOUR), False, id="more slack"),
    ],
)
def test_a_table_is_found_where_it_has_what_is_needed(needed: Reach, *, is_there: bool) -> None:
    memory = Memory(most=2)
    memory.keep(facts(), TABLE, WHOLE)

    assert (memory.find(facts(), needed) is TABLE) is is_there
    assert memory.find(facts(hour=1), needed) is None


def test_what_was_not_asked_for_the_longest_goes_first() -> None:
    memory = Memory(most=2)
    memory.keep(facts(1), TABLE, WHOLE)
    memory.keep(facts(2), TABLE, WHOLE)
    memory.find(facts(1), WHOLE)

    memory.keep(facts(3), TABLE, WHOLE)

    assert len(memory) == 2
    assert memory.find(facts(1), WHOLE) is TABLE
    assert memory.find(facts(2), WHOLE) is None


def test_what_is_remembered_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = wait_on(48, 900.0)
    monkeypatch.setattr(waiting, "TABLES", Memory(most=8))
    kept = [may_stand_in(one) for one in asked]

    alone = []
    for one in asked:
        monkeypatch.setattr(waiting, "TABLES", Memory(most=8))
        alone.append(may_stand_in(one))

    assert kept == alone
    assert {True, False} == set(kept)


def test_a_job_that_waits_has_few_tables_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    solved: list[Facts] = []

    class Counting(Memory):
        @override
        def keep(self, facts: Facts, table: Table, reach: Reach) -> None:
            solved.append(facts)
            super().keep(facts, table, reach)

    monkeypatch.setattr(waiting, "TABLES", Counting(most=8))
    for one in wait_on(180, 60.0):
        may_stand_in(one)

    assert len(solved) == 1
