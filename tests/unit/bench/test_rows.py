"""A bench says how each figure stands, writes the same as JSON, and exits by it."""

import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rows
from rows import Row

QUIET, BUSY = rows.YARDSTICK_LIMIT_S / 2, rows.YARDSTICK_LIMIT_S * 2


class Bench:
    """Reports into a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = io.StringIO()

    def report(self, *found: Row, yardstick_s: float = QUIET) -> int:
        return rows.report("models", found, yardstick_s=yardstick_s, out=self.out)

    def records(self) -> Any:
        return json.loads((self.folder / "build" / "bench" / "models.json").read_text())


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(rows, "ROOT", tmp_path)
    monkeypatch.setattr(rows, "BUILD", tmp_path / "build" / "bench")
    return Bench(tmp_path)


def row(value: float, bar: float | None = 5.0, **more: Any) -> Row:
    return replace(Row("n", value, "%", "lower", bar), **more)


@pytest.mark.parametrize(
    ("found", "holds"),
    [
        pytest.param(row(5.0), True, id="at the bar"),
        pytest.param(row(5.1), False, id="above"),
        pytest.param(row(5.1, better="higher"), True, id="higher is better"),
        pytest.param(row(4.9, better="higher"), False, id="below"),
        pytest.param(row(9.0, None), None, id="no bar"),
        pytest.param(row(float("nan")), False, id="no number"),
        pytest.param(row(float("nan"), better="higher"), False, id="no number either"),
    ],
)
def test_a_bar_is_met_or_not(found: Row, holds: bool | None) -> None:  # noqa: FBT001 -- the expected answer of a case
    assert found.holds is holds


def test_figures_are_printed_with_bar_and_peers_and_written_as_json(bench: Bench) -> None:
    status = bench.report(row(3.73, name="step time", peers={"svr": 9.3}), row(8.0, None))

    assert status == 0
    head, _, first, second, *_ = bench.out.getvalue().splitlines()
    assert head.split() == ["what", "value", "bar", "unit", "peers"]
    assert first.split() == ["step", "time", "3.73", "<=", "5", "holds", "%", "svr", "9.3"]
    assert second.split() == ["n", "8", "%"]
    assert bench.records() == [
        {
            "name": "step time",
            "value": 3.73,
            "unit": "%",
            "bar": 5.0,
            "better": "lower",
            "holds": True,
            "peers": {"svr": 9.3},
            "commit": "unknown",
        },
        {
            "name": "n",
            "value": 8.0,
            "unit": "%",
            "bar": None,
            "better": "lower",
            "holds": None,
            "peers": {},
            "commit": "unknown",
        },
    ]


def test_the_table_shows_the_best_peers_first_and_the_json_all(bench: Bench) -> None:
    peers = {"a": 4.0, "b": 2.0, "c": 3.0, "d": 1.0, "e": 5.0, "f": 6.0}

    bench.report(row(1.0, peers=peers), row(1.0, peers={"a": 1.0, "b": 2.0}, better="higher"))

    lines = bench.out.getvalue().splitlines()
    assert lines[2].endswith("d 1, b 2, c 3, a 4, and 2 more")
    assert lines[3].endswith("b 2, a 1")
    assert bench.records()[0]["peers"] == peers


def test_a_missed_bar_is_named_and_fails(bench: Bench) -> None:
    assert bench.report(row(4.0), row(6.0, name="coverage"), yardstick_s=BUSY) == 1
    assert "missed: coverage\n" in bench.out.getvalue()
    assert "1 of 2 bars hold" in bench.out.getvalue()


def test_a_bar_of_seconds_that_is_missed_on_a_busy_machine_is_not_judged(bench: Bench) -> None:
    slow = row(6.0, of_machine=True)

    assert bench.report(slow, yardstick_s=BUSY) == 2
    assert bench.records()[0]["holds"] is None
    assert bench.report(slow, yardstick_s=QUIET) == 1
    assert bench.records()[0]["holds"] is False


def test_a_bar_of_seconds_that_holds_on_a_busy_machine_holds(bench: Bench) -> None:
    assert bench.report(row(4.0, of_machine=True), yardstick_s=BUSY) == 0
    assert bench.records()[0]["holds"] is True


def test_what_is_no_number_is_still_json(bench: Bench) -> None:
    assert bench.report(row(float("nan"), peers={"p": float("inf")})) == 1
    (record,) = bench.records()
    assert record["value"] == record["peers"]["p"] == sys.float_info.max


def test_the_yardstick_is_a_fraction_of_a_second() -> None:
    assert 0.001 < rows.yardstick() < 2
