"""Events of nodes by name, as ticks with and without capacity."""

import pytest

from ebbtide.core.models.table import DataError, Table
from ebbtide.core.planner.policies.history import History
from ebbtide.core.simulator.events import read_events


def table(*lines: str) -> Table:
    rows = [line.split(",") for line in lines]
    return Table.of(
        seconds=[row[0] for row in rows],
        event=[row[1] for row in rows],
        node=[row[2] for row in rows],
    )


def read(*lines: str, nodes: int = 1, tick_s: float = 100.0) -> History:
    return read_events(table(*lines), nodes=nodes, tick_s=tick_s)


def ticks(history: History) -> str:
    return "".join("01"[int(up)] for up in history.up[:, 0])


def test_a_tick_has_capacity_where_a_node_is_there_from_its_beginning_to_its_end() -> None:
    history = read("0,add,a", "250,remove,a", "400,add,b", "610,remove,b", "999,add,c")

    assert ticks(history) == "1100110000"
    assert (history.zones, history.tick_s, history.start_s) == (("nodes",), 100.0, 0.0)


def test_an_event_on_the_beginning_of_a_tick_counts_for_it() -> None:
    assert ticks(read("0,add,a", "300,remove,a", "500,add,b", "700,remove,b")) == "11100110"


def test_the_first_tick_begins_at_the_first_event() -> None:
    history = read("3650,add,a", "3860,remove,a")

    assert (history.start_s, ticks(history)) == (3650.0, "110")


def test_who_loses_a_node_loses_the_tick_although_another_is_free() -> None:
    assert ticks(read("0,add,a", "10,add,b", "250,remove,a", "500,remove,b")) == "110110"


def test_a_node_that_the_job_does_not_hold_may_go() -> None:
    assert ticks(read("0,add,a", "10,add,b", "250,remove,b", "400,remove,a")) == "11110"


@pytest.mark.parametrize(("nodes", "expected"), [(1, "111101"), (2, "101000"), (3, "000000")])
def test_a_job_of_several_nodes_needs_them_all_at_once(nodes: int, expected: str) -> None:
    history = read(
        "0,add,a", "0,add,b", "150,remove,b", "170,add,c", "300,remove,c",
        "410,remove,a", "499,add,d", "500,add,e", "510,remove,e", nodes=nodes,
    )  # fmt: skip

    assert ticks(history) == expected


def test_a_node_under_notice_can_no_longer_be_had() -> None:
    assert ticks(read("0,add,a", "220,notice,a", "450,remove,a", "510,add,b")) == "110000"


def test_a_notice_that_passes_ends_with_the_node_added_again() -> None:
    assert ticks(read("0,add,a", "200,notice,a", "400,add,a", "600,remove,a")) == "1100110"


def test_whoever_was_added_again_keeps_its_place_among_the_oldest() -> None:
    assert ticks(read("0,add,a", "0,add,b", "100,notice,a", "200,add,a", "350,remove,a")) == "1110"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("x,add,b", "column seconds, row 3: 'x' is not a number of s at least 0"),
        ("-1,add,b", "column seconds, row 3: '-1' is not a number of s at least 0"),
        ("50,add,b", "column seconds, row 3: 50 is before the row above, 100"),
        ("200,gone,a", "column event, row 3: 'gone' is none of add, remove, notice"),
        ("200,,a", "column event, row 3: empty"),
        ("200,add,", "column node, row 3: empty"),
        ("200,add,a", "column node, row 3: 'a' is there already"),
        ("200,remove,b", "column node, row 3: 'b' is not there: an add must come first"),
        ("200,notice,b", "column node, row 3: 'b' is not there"),
        ("2e8,remove,a", "2000000 ticks of 100 s lie between 100 and 200000000"),
    ],
)
def test_an_event_that_makes_no_sense_is_refused_with_its_row(line: str, complaint: str) -> None:
    with pytest.raises(DataError) as caught:
        read("100,add,a", line)

    assert complaint in str(caught.value)
