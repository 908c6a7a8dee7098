"""Samples are checked when they are read, and a complaint says where and what."""

import numpy as np
import pytest

from ebbtide.core.models.table import Column, DataError, Table, check, read_rows

SECONDS = Column(name="seconds", unit="s")
SHARE = Column(name="share", unit="", least=0, most=1, open_below=False)
COUNT = Column(name="count", unit="GPUs", least=1, open_below=False, whole=True)
MAYBE = Column(name="maybe", unit="s", optional=True)
NAME = Column(name="name", unit="text")
NOTE = Column(name="note", unit="text", optional=True)


def test_numbers_come_as_floats_whatever_they_were_written_as() -> None:
    table = Table.of(seconds=["1.5", " 2 ", 3, np.float64(4)])

    assert table.numbers(SECONDS).tolist() == [1.5, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    "value",
    [
        "0",
        "-1",
        "nan",
        "inf",
        "-inf",
        "1e999",
        "abc",
        "1,5",
        "",
        "-",
        None,
        [],
        "0x10",
        "1_0",
        "\uff11",
        10**400,
    ],
)
def test_what_is_no_positive_number_is_named_with_column_row_and_value(value: object) -> None:
    table = Table.of(seconds=["1", value])

    with pytest.raises(DataError) as caught:
        table.numbers(SECONDS)

    assert str(caught.value) == (f"column seconds, row 3: {value!r} is not a number of s above 0")


@pytest.mark.parametrize(
    ("column", "value", "right"),
    [
        pytest.param(SHARE, "1.1", "a number at least 0 and at most 1", id="above"),
        pytest.param(SHARE, "-0.1", "a number at least 0 and at most 1", id="below"),
        pytest.param(COUNT, "2.5", "a whole number of GPUs at least 1", id="not whole"),
        pytest.param(COUNT, "0", "a whole number of GPUs at least 1", id="none"),
    ],
)
def test_a_complaint_says_what_would_be_right(column: Column, value: str, right: str) -> None:
    with pytest.raises(DataError, match=f"is not {right}$"):
        Table.of(**{column.name: [value]}).numbers(column)


def test_limits_themselves_are_allowed_where_they_are_closed() -> None:
    assert Table.of(share=["0", "1"]).numbers(SHARE).tolist() == [0.0, 1.0]
    assert Table.of(count=["1", "8"]).numbers(COUNT).tolist() == [1.0, 8.0]


@pytest.mark.parametrize("value", ["-", "", " - ", None])
def test_an_absent_number_is_nan_where_the_column_allows_that(value: object) -> None:
    found = Table.of(maybe=["1", value]).numbers(MAYBE)

    assert found[0] == 1.0
    assert np.isnan(found[1])


def test_an_optional_column_that_is_there_must_still_be_right() -> None:
    with pytest.raises(DataError, match="column maybe, row 2: '-3'"):
        Table.of(maybe=["-3"]).numbers(MAYBE)


def test_a_column_that_is_not_there_reads_as_absent_or_is_missed_by_name() -> None:
    table = Table.of(seconds=["1", "2"])

    assert np.isnan(table.numbers(MAYBE)).all()
    assert table.texts(NOTE).tolist() == ["", ""]
    with pytest.raises(DataError, match=r"no column name \(text\); columns are: seconds"):
        table.texts(NAME)
    with pytest.raises(DataError, match="columns are: none"):
        Table({}, np.arange(1)).numbers(SECONDS)


def test_texts_are_stripped_and_absent_ones_are_empty() -> None:
    assert Table.of(note=[" a ", "-", None, 7]).texts(NOTE).tolist() == ["a", "", "", "7"]


@pytest.mark.parametrize("value", ["", "-", "  ", None])
def test_an_absent_name_is_refused_where_one_is_needed(value: object) -> None:
    with pytest.raises(DataError, match="column name, row 3: empty"):
        Table.of(name=["a", value]).texts(NAME)


def test_rows_that_are_taken_keep_what_they_are_called() -> None:
    table = Table.of(seconds=[1, 2, -3]).take(np.array([2, 0]))

    assert len(table) == 2
    assert table.rows.tolist() == [4, 2]
    with pytest.raises(DataError, match="row 4: -3"):
        table.numbers(SECONDS)


def test_rows_that_repeat_an_earlier_one_are_left_out() -> None:
    table = Table.of(name=["a", "b", "a", "a"], seconds=[1, 2, 1, 3])

    assert table.distinct((NAME, SECONDS, MAYBE)).rows.tolist() == [2, 3, 5]


def test_true_is_a_number_only_where_a_column_holds_zeros_and_ones() -> None:
    flag = Column(name="seconds", unit="", least=0, most=1, open_below=False, whole=True)
    table = Table.of(seconds=[True, False])

    assert table.numbers(flag).tolist() == [1, 0]
    with pytest.raises(DataError, match="row 2: True is not a number"):
        table.numbers(SECONDS)


@pytest.mark.parametrize("value", ["nan", "NaN", float("nan"), "#N/A", "<NA>"])
@pytest.mark.parametrize("column", [NAME, NOTE])
def test_what_is_left_of_a_lost_name_is_refused(value: object, column: Column) -> None:
    table = Table.of(name=["a", value], note=["a", value])

    with pytest.raises(DataError, match=f"column {column.name}, row 3: '.*' is what is left"):
        table.texts(column)


def test_columns_of_different_lengths_are_no_table() -> None:
    with pytest.raises(DataError, match=r"different lengths: \[1, 2\]"):
        Table.of(a=[1], b=[1, 2])


def test_records_may_lack_what_others_have() -> None:
    table = read_rows([{"name": "a", "seconds": 1}, {"name": "b", "note": "late"}])

    assert table.has("note")
    assert not table.has("size")
    assert table.texts(NOTE).tolist() == ["", "late"]
    with pytest.raises(DataError, match="column seconds, row 3: '-'"):
        table.numbers(SECONDS)


def test_no_records_are_a_table_without_rows() -> None:
    assert len(read_rows([])) == 0


def test_a_check_reads_every_column() -> None:
    check(Table.of(name=["a"], seconds=[1]), (NAME, SECONDS, MAYBE, NOTE))

    with pytest.raises(DataError, match="there are no rows"):
        check(read_rows([]), (NAME,))
    with pytest.raises(DataError, match="column seconds"):
        check(Table.of(name=["a"], seconds=[0]), (NAME, SECONDS))
    with pytest.raises(DataError, match="column name"):
        check(Table.of(name=["-"], seconds=[1]), (NAME, SECONDS))
