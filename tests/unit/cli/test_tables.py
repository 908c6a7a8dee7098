"""Files of samples: every way in which one can be no table ends in one line that says where."""

from pathlib import Path

import click
import pytest

from ebbtide.cli import tables
from ebbtide.cli.tables import FileError, lay_out, read_tables
from ebbtide.core.models.table import Column, DataError

NAME = Column(name="name", unit="text")
SIZE = Column(name="size", unit="MB")


def written(tmp_path: Path, content: str | bytes, *, name: str = "samples.csv") -> str:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("name,size\na,1\nb,2\n", id="csv"),
        pytest.param("name,size\na,1\nb,2", id="no last newline"),
        pytest.param("name,size\r\na,1\r\nb,2\r\n", id="carriage returns"),
        pytest.param(b"\xef\xbb\xbfname,size\na,1\nb,2\n", id="byte order mark"),
        pytest.param(" name , size \n a , 1 \n b,2\n", id="spaces"),
        pytest.param('"name","size"\n"a","1"\n"b","2"\n', id="quotes"),
        pytest.param('{"name": "a", "size": 1}\n{"size": 2.0, "name": "b"}\n', id="json lines"),
        pytest.param('\n{"name": "a", "size": "1"}\r\n\r\n{"name": "b", "size": 2}', id="gaps"),
    ],
)
def test_the_same_samples_are_read_however_they_are_written(
    tmp_path: Path, content: str | bytes
) -> None:
    table = read_tables([written(tmp_path, content)])

    assert table.texts(NAME).tolist() == ["a", "b"]
    assert table.numbers(SIZE).tolist() == [1.0, 2.0]


def test_a_row_is_called_by_the_line_where_it_begins_and_its_file(tmp_path: Path) -> None:
    file = written(tmp_path, 'name,size\n\n"a\nb",1\nc,x\n')

    table = read_tables([file])

    assert table.rows.tolist() == [f"3 of {file}", f"5 of {file}"]
    with pytest.raises(DataError, match=f"column size, row 5 of {file}: 'x' is not a number of MB"):
        table.numbers(SIZE)


def test_several_files_are_one_table_and_lack_what_they_lack(tmp_path: Path) -> None:
    first = written(tmp_path, "name,size\na,1\n", name="first.csv")
    second = written(tmp_path, '{"name": "b", "zone": "east"}\n', name="second.jsonl")

    table = read_tables([first, second])

    assert table.texts(NAME).tolist() == ["a", "b"]
    assert table.cells["zone"].tolist() == ["-", "east"]
    with pytest.raises(DataError, match=r"column size, row 1 of .*second.jsonl: '-'"):
        table.numbers(SIZE)


def test_a_file_given_twice_is_a_mistake(tmp_path: Path) -> None:
    file = written(tmp_path, "name\na\n")

    with pytest.raises(click.UsageError, match="given twice"):
        read_tables([file, file])


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param("", "it is empty", id="empty"),
        pytest.param("\n \n", "it is empty", id="blank"),
        pytest.param("name,size\n", "a header and no row", id="header only"),
        pytest.param("name,size\na,1\nb\n", "row 3: 1 fields under a header of 2", id="short"),
        pytest.param("name,size\na,1,2\n", "row 2: 3 fields under a header of 2", id="long"),
        pytest.param("name,size,name\na,1,b\n", "stands twice: name", id="twice"),
        pytest.param("name,,size\na,1,2\n", "row 1: column 2 has no name", id="nameless"),
        pytest.param("name;size\na;1\n", "row 1: separated by semicolons", id="semicolons"),
        pytest.param("name\tsize\na\t1\n", "row 1: separated by tabs", id="tabs"),
        pytest.param('name,size\na,1\n"b,2\n', "row 3: this is no CSV", id="open quote"),
        pytest.param('name,size\n"a"b,2\n', "row 2: this is no CSV", id="after a quote"),
        pytest.param(b"name,size\na,1\n\xff\xfe,2\n", "row 3: this is not UTF-8", id="latin"),
        pytest.param("name,size\na,1\n".encode("utf-16"), "not UTF-8", id="utf-16"),
        pytest.param("name,size\na,1\n".encode("utf-16-be"), "a zero byte", id="zeros"),
        pytest.param(",".join(map(str, range(1001))), "1001 columns, at most 1000", id="wide"),
        pytest.param('{"name": "a"}\n{"name"\n', "row 2: no JSON object", id="half"),
        pytest.param('{"name": "a"}\n3\n', "row 2: no JSON object on one line, '3'", id="number"),
        pytest.param('[{"name": "a"}]', "row 1: no JSON object on one line", id="array"),
        pytest.param('{"a": 1, "a": 2}', "row 1: .*the field a stands twice", id="same field"),
        pytest.param('{"a": [1]}', "column a, row 1: a number or a name", id="list"),
        pytest.param('{"a": {"b": 1}}', "column a, row 1: a number or a name", id="object"),
        pytest.param('{"a": ' + "[" * 100_000, "row 1: no JSON object", id="deep"),
        pytest.param("{}\n", "a number|at least|name", id="no field"),
    ],
)
def test_what_is_no_table_says_in_one_line_where(
    tmp_path: Path, content: str | bytes, complaint: str
) -> None:
    file = written(tmp_path, content)

    with pytest.raises((FileError, DataError), match=complaint) as caught:
        read_tables([file]).texts(NAME)

    assert "\n" not in str(caught.value)
    if isinstance(caught.value, FileError):
        assert str(caught.value).startswith(f"{file}: ")
        assert caught.value.exit_code == 1


def test_more_fields_than_a_table_has_columns_are_refused(tmp_path: Path) -> None:
    file = written(tmp_path, "\n".join(f'{{"f{number}": 1}}' for number in range(1001)))

    with pytest.raises(FileError, match="1001 different fields"):
        read_tables([file])


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot be read: No such file"):
        read_tables([str(tmp_path / "none.csv")])
    with pytest.raises(FileError, match="cannot be read: Is a directory"):
        read_tables([str(tmp_path)])


def test_a_file_that_is_too_large_is_not_taken_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MOST_BYTES", 2**20)
    file = written(tmp_path, "name,size\n" + "a,1\n" * 2**18)

    with pytest.raises(FileError, match="larger than 1 MiB"):
        read_tables([file])


def test_a_layout_puts_numbers_to_the_right_and_names_to_the_left() -> None:
    rows: list[list[object]] = [["a", 1.23456], ["bcdef", 10.0], ["c", None]]

    assert lay_out(["name", "s"], rows).splitlines() == [
        "name       s",
        "a      1.235",
        "bcdef     10",
        "c",
    ]
    assert lay_out(["name", "s"], []) == "name  s"
