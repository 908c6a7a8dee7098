"""What the deadline policy is told of a drought, and what it makes of it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ebbtide.core.planner.waiting import Drought, may_stand_in, remember_spells
from ebbtide.core.values.past import Spell
from support.builders import at

HOUR = 3600.0
NOW = at(0)
DROUGHT = Drought(
    work_s=5 * HOUR,
    left_s=8 * HOUR,
    changeover_s=200.0,
    spot_usd_per_hour=0.9,
    on_demand_usd_per_hour=3.0,
    down_s=600.0,
    tick_s=60.0,
    now=NOW,
)


def alternating(*, up_h: float, down_h: float, days: float = 20.0) -> tuple[Spell, ...]:
    """Return spells of up and down until the drought began ten minutes ago."""
    spells, when, is_up = [], -600.0, False
    while when > -days * 24 * HOUR:
        spells.append(Spell(available=is_up, since=at(when)))
        is_up = not is_up
        when -= (up_h if is_up else down_h) * HOUR
    return tuple(reversed(spells))


def rows(drought: Drought) -> list[bool]:
    return [bool(up) for up in remember_spells(drought, tick_s=60.0).up[:, 0]]


def test_without_a_past_the_drought_itself_is_all_that_is_known() -> None:
    assert rows(DROUGHT) == [True] + [False] * 11


def test_spells_of_the_past_come_before_it() -> None:
    spells = (Spell(available=True, since=at(-1800)), Spell(available=False, since=at(-600)))

    assert rows(replace(DROUGHT, spells=spells)) == [True] * 20 + [False] * 11


def test_the_drought_is_what_the_job_itself_saw_however_the_record_lags() -> None:
    late = (Spell(available=True, since=at(-1800)), Spell(available=False, since=at(-60)))

    assert rows(replace(DROUGHT, spells=late)) == [True] * 20 + [False] * 11
    assert rows(replace(DROUGHT, spells=late[:1])) == [True] * 20 + [False] * 11


def test_of_a_very_long_past_the_last_month_is_looked_at() -> None:
    spells = (Spell(available=True, since=NOW - timedelta(days=300)),)

    found = rows(replace(DROUGHT, spells=spells))

    assert len(found) == 45_001
    assert sum(found) == 45_001 - 11


def test_the_clock_of_the_first_row_is_the_hour_of_the_day() -> None:
    spells = (Spell(available=True, since=NOW - timedelta(days=2, hours=3)),)

    assert remember_spells(replace(DROUGHT, spells=spells), tick_s=60.0).start_s == 9 * HOUR


def test_hours_that_pass_in_minutes_are_counted_as_hours() -> None:
    spells = (Spell(available=True, since=at(-40)), Spell(available=False, since=at(-10)))
    drought = replace(DROUGHT, spells=spells, down_s=10.0, time_scale=60.0)

    assert rows(drought) == [True] * 30 + [False] * 11


@pytest.mark.parametrize(("up_h", "stands_in"), [(8.0, False), (0.4, True)])
def test_a_pool_that_stays_when_it_comes_back_is_waited_for_longer(
    up_h: float, *, stands_in: bool
) -> None:
    past = alternating(up_h=up_h, down_h=3.5)

    assert may_stand_in(replace(DROUGHT, left_s=5.5 * HOUR, spells=past)) is stands_in
