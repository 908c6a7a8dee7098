"""Journal, record and pace: who did what when."""

import asyncio
import datetime as dt
import itertools
from collections.abc import Iterator

import pytest

from world.cloud.journal import Entry, Journal
from world.cloud.pace import Pace
from world.cloud.record import Record

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def make_clock() -> Iterator[dt.datetime]:
    return (START + dt.timedelta(seconds=second) for second in itertools.count())


def make_journal() -> Journal:
    clock = make_clock()
    return Journal(lambda: next(clock))


def test_entries_are_found_by_what_node_and_pool() -> None:
    journal = make_journal()
    journal.add("ready", node="a", pool="spot")
    journal.add("ready", node="b", pool="system")
    journal.add("power-off", node="a", pool="spot")
    assert [entry.node for entry in journal.find("ready")] == ["a", "b"]
    assert [entry.node for entry in journal.find("ready", pool="system")] == ["b"]
    assert journal.find("ready", node="c") == []
    assert [entry.at for entry in journal.entries] == [
        START + dt.timedelta(seconds=second) for second in range(3)
    ]


def test_listeners_hear_each_entry() -> None:
    journal, heard = make_journal(), []
    journal.listeners.append(lambda entry: heard.append(entry.what))
    journal.add("ready")
    journal.add("idle")
    assert heard == ["ready", "idle"]


async def test_a_wait_counts_earlier_entries_and_ends_with_a_later_one() -> None:
    journal = make_journal()
    journal.add("ready", node="a")
    assert (await journal.until("ready", node="a")).node == "a"
    waiting = asyncio.create_task(journal.until("ready", count=2))
    await asyncio.sleep(0)
    assert not waiting.done()
    journal.add("ready", node="b")
    assert (await waiting).node == "b"
    assert journal.listeners == []


async def test_a_wait_in_vain_names_the_last_entry() -> None:
    journal = make_journal()
    journal.add("requested", node="a")
    with pytest.raises(TimeoutError, match=r"'ready' number 1 .*requested"):
        await journal.until("ready", timeout=0.01)
    assert journal.listeners == []


def test_an_entry_cannot_be_changed() -> None:
    entry = Entry(at=START, what="ready")
    with pytest.raises(AttributeError):
        entry.what = "idle"  # type: ignore[misc]  # the point of the test


def test_a_record_measures_between_its_moments() -> None:
    clock = make_clock()
    record = Record(scenario="flap", node="a", pool="spot", now=lambda: next(clock))
    for what in ("notice", "evicted", "power-off"):
        record.mark(what)
    assert record.seconds("power-off") == 2.0
    assert record.seconds("power-off", since="evicted") == 1.0
    with pytest.raises(KeyError, match="'returned'; it has: notice, evicted, power-off"):
        record.at("returned")


def test_the_pace_scales_and_must_move() -> None:
    assert Pace(0.1).real(30.0) == pytest.approx(3.0)
    for factor in (0.0, -1.0):
        with pytest.raises(ValueError, match="must be above 0"):
            Pace(factor)
