"""`ebbtide simulate` over events, lives and moving prices."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from architecture.tree import ROOT
from ebbtide.cli.entry import main

BAMBOO = ROOT / "tests" / "data" / "bamboo-spot-traces" / "p3-trace.csv"
JOB = ("--work-hours", "2", "--deadline-hours", "3", "--changeover-hours", "0.1")


def run(*more: str) -> Result:
    result = CliRunner().invoke(main, ["simulate", *JOB, *more])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def entries(*more: str) -> Any:
    result = run(*more, "-o", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def write(path: Path, *lines: str) -> str:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def zones(tmp_path: Path) -> str:
    """Two zones that are always up, ten minutes a row; 1,000 s since midnight at first."""
    rows = (f"{1000 + 600 * row},2,4" for row in range(100))
    return write(tmp_path / "zones.csv", "seconds,a,b", *rows)


@pytest.fixture
def events(tmp_path: Path) -> str:
    """The hours of a real fleet, in the columns of ours."""
    rows = sorted(
        (int(time) / 1000, kind, node)
        for time, kind, node in (line.split(",") for line in BAMBOO.read_text().split())
    )
    lines = (f"{seconds:g},{kind},{node}" for seconds, kind, node in rows)
    return write(tmp_path / "events.csv", "seconds,event,node", *lines)


@pytest.fixture
def lives(tmp_path: Path) -> str:
    rows = (f"a,z1,V100,{hour % 24},{1 + hour % 7},1" for hour in range(60))
    rest = (f"b,z2,V100,{hour % 24},{20 + hour % 7},{hour % 2}" for hour in range(60))
    header = "pool,zone,gpu,start_hour,lifetime_h,revoked"
    return write(tmp_path / "lives.csv", header, *rows, *rest)


# ---------------------------------------------------------------- what is replayed


def test_exactly_one_trace_is_needed(zones: str, events: str) -> None:
    none, two = run("--policy", "greedy"), run(
        "--policy", "greedy", "--availability", zones, "--events", events
    )  # fmt: skip

    assert (none.exit_code, two.exit_code) == (2, 2)
    assert "exactly one of --availability, --events, --lifetimes" in " ".join(none.output.split())
    assert "not --availability and --events" in " ".join(two.output.split())


@pytest.mark.parametrize("option", ["--tick-seconds", "--trace-days", "--outage-hours"])
def test_options_of_other_traces_are_refused(option: str, zones: str) -> None:
    result = run("--policy", "greedy", "--availability", zones, option, "5")

    assert result.exit_code == 2
    assert f"{option} says something with" in " ".join(result.output.split())


def test_ticks_below_a_second_are_refused(events: str) -> None:
    result = run("--policy", "greedy", "--events", events, "--tick-seconds", "0.5")

    assert result.exit_code == 2
    assert "0.5: at least 1 s is needed" in " ".join(result.output.split())


def test_check_15_real_churn_is_replayed_to_the_end_without_a_miss(events: str) -> None:
    found = entries(
        "--policy", "greedy,uniform-progress,ebbtide", "--events", events,
        "--nodes", "20", "--tick-seconds", "60", "--starts", "5",
    )  # fmt: skip

    assert [(entry["jobs"], entry["misses"]) for entry in found] == [(5, 0)] * 3
    for entry in found:
        paid = 20 * (0.918 * entry["spot_hours"] + 3.06 * entry["on_demand_hours"])
        assert entry["mean_cost_usd"] == pytest.approx(paid)
        assert entry["spot_hours"] + entry["on_demand_hours"] >= 2.1 - 1e-6
        assert entry["points_above_omniscient"] >= -1e-9


def test_more_nodes_are_had_less_often(events: str) -> None:
    hours = [
        entries(
            "--policy", "spot-only", "--events", events, "--nodes", nodes, "--start-hours", "1"
        )[0]["spot_hours"]
        for nodes in ("1", "32")
    ]  # fmt: skip

    assert hours[0] > hours[1]


def test_a_zone_with_too_few_nodes_is_not_up(zones: str) -> None:
    asked = ("--policy", "greedy", "--availability", zones, "--zones", "a;b", "--nodes", "3")

    a, b = entries(*asked, "--starts", "1")

    assert (a["spot_hours"], a["on_demand_hours"]) == (0, pytest.approx(2.1))
    assert (b["spot_hours"], b["on_demand_hours"]) == (pytest.approx(2.1), 0)


def test_lives_are_drawn_from_with_the_seed(lives: str) -> None:
    asked = ("--policy", "greedy", "--lifetimes", lives, "--trace-days", "6", "--starts", "9")

    first = entries(*asked, "--seed", "1")

    assert first[0]["jobs"] == 9
    assert first[0]["misses"] == 0
    assert entries(*asked, "--seed", "1") == first
    assert entries(*asked, "--seed", "2") != first


def test_zones_of_lives_are_called_by_their_pools(lives: str) -> None:
    asked = ("--lifetimes", lives, "--trace-days", "20", "--outage-hours", "3", "--zones", "a;b")

    short, long = entries("--policy", "greedy", *asked, "--starts", "40")

    assert (short["zones"], long["zones"]) == (["a"], ["b"])
    # nodes of b live for days
    assert long["switches"] <= short["switches"]
    assert long["mean_cost_usd"] < short["mean_cost_usd"]


def test_a_trace_that_would_never_be_drawn_to_its_end_is_refused(lives: str) -> None:
    result = run("--policy", "greedy", "--lifetimes", lives, "--trace-days", "1e9")

    assert result.exit_code == 2
    assert "at most 1000000 are drawn" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("option", "lines", "complaint"),
    [
        ("--events", ["seconds,event,node", "0,add,a", "5,gone,a"], "column event, row 3: 'gone'"),
        ("--events", ["seconds,event", "0,add"], "there is no column node"),
        ("--lifetimes", ["pool,lifetime_h,revoked", "a,x,1"], "column lifetime_h, row 2: 'x'"),
        ("--lifetimes", ["pool,lifetime_h,revoked", "a,1,2"], "column revoked, row 2: '2'"),
    ],
)
def test_a_row_that_makes_no_sense_is_named(
    tmp_path: Path, option: str, lines: list[str], complaint: str
) -> None:
    file = write(tmp_path / "bad.csv", *lines)

    result = run("--policy", "greedy", option, file)

    assert result.exit_code == 2
    assert file in result.output
    assert complaint in result.output.replace(f" of {file}", "")


# ---------------------------------------------------------------- prices


def test_the_bill_follows_the_prices_to_the_cent(tmp_path: Path, zones: str) -> None:
    prices = write(tmp_path / "prices.csv", "seconds,zone,price", "0,a,1.0", "0,b,9", "4600,a,0.5")
    asked = ("--policy", "greedy", "--availability", zones, "--start-hours", "0")

    (found,) = entries(*asked, "--prices", prices)

    # 2.1 h from 1,000 s on: 1 h at 1.00, the rest at 0.50
    assert found["mean_cost_usd"] == pytest.approx(1.0 + 1.1 * 0.5)
    assert found["points_above_omniscient"] >= 0
    (four,) = entries(*asked, "--prices", prices, "--nodes", "2")
    assert four["mean_cost_usd"] == pytest.approx(2 * found["mean_cost_usd"])


def test_ours_takes_the_cheap_zone_and_the_others_the_first(tmp_path: Path, zones: str) -> None:
    prices = write(tmp_path / "prices.csv", "seconds,zone,price", "0,a,2.5", "0,b,0.4")

    greedy, ours = entries(
        "--policy", "greedy,ebbtide", "--availability", zones, "--prices", prices, "--starts", "3"
    )

    assert greedy["mean_cost_usd"] == pytest.approx(2.1 * 2.5)
    assert ours["mean_cost_usd"] == pytest.approx(2.1 * 0.4)
    assert ours["points_above_omniscient"] == pytest.approx(0, abs=1e-6)


def test_prices_stay_with_their_zones_where_a_set_names_another_order(
    tmp_path: Path, zones: str
) -> None:
    prices = write(tmp_path / "prices.csv", "seconds,zone,price", "0,a,2.5", "0,b,0.4")

    found = entries(
        "--policy", "greedy", "--availability", zones, "--prices", prices,
        "--zones", "b,a;a;b", "--starts", "1",
    )  # fmt: skip

    assert [entry["mean_cost_usd"] for entry in found] == pytest.approx([0.84, 5.25, 0.84])


def test_a_price_that_is_missing_is_asked_for_or_given(tmp_path: Path, zones: str) -> None:
    prices = write(tmp_path / "prices.csv", "seconds,zone,price", "0,a,1.0")
    asked = ("--policy", "greedy", "--availability", zones, "--prices", prices, "--zones", "b")

    refused = run(*asked)
    (found,) = entries(*asked, "--spot-price", "0.6")

    assert refused.exit_code == 2
    assert "prices.csv: column zone: 'b' has no price at 1000" in refused.output
    assert found["mean_cost_usd"] == pytest.approx(2.1 * 0.6)


def test_a_price_that_cannot_be_believed_is_named(tmp_path: Path, zones: str) -> None:
    prices = write(tmp_path / "prices.csv", "seconds,zone,price", "0,a,1.0", "0,b,0.00")

    result = run("--policy", "greedy", "--availability", zones, "--prices", prices)

    assert result.exit_code == 2
    assert f"column price, row 3 of {prices}: '0.00' is not a number of USD/h" in result.output
