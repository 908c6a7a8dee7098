"""`ebbtide simulate` over traces of availability."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from ebbtide.cli import simulate as command
from ebbtide.cli.entry import main
from ebbtide.core.simulator import fleet
from support.traces import read_pings

FIELDS = [
    "policy",
    "jobs",
    "mean_cost_usd",
    "points_above_omniscient",
    "p95_ratio",
    "misses",
    "switches",
    "spot_hours",
    "on_demand_hours",
]


class Shell:
    """The command line over a file of two zones, ten minutes a row: `a` always, `b` never up."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write(f"{600 * row},2,0" for row in range(300))

    def write(self, lines: Any, *, header: str = "seconds,a,b") -> None:
        text = "\n".join([header, *lines]) + "\n"
        (self.folder / "zones.csv").write_text(text, encoding="utf-8")

    def run(self, *more: str, work: float = 5.0, deadline: float = 10.0) -> Result:
        result = CliRunner().invoke(
            main,
            [
                *("simulate", "--availability", str(self.folder / "zones.csv")),
                *("--work-hours", str(work), "--deadline-hours", str(deadline)),
                *("--changeover-hours", "0.2", *more),
            ],
        )
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result

    def entries(self, *more: str, **hours: float) -> Any:
        result = self.run(*more, "-o", "json", **hours)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_the_names_on_the_command_line_are_those_of_the_policies() -> None:
    assert sorted(command.POLICIES) == sorted(fleet.NAMES)


def test_an_entry_has_the_fields_that_programs_rely_on(shell: Shell) -> None:
    found = shell.entries("--policy", "greedy,on-demand", "--starts", "7")

    assert [list(entry) for entry in found] == [FIELDS, FIELDS]
    greedy, reserved = found
    assert greedy == {
        "policy": "greedy",
        "jobs": 7,
        "mean_cost_usd": pytest.approx(5.2 * 0.918),
        "points_above_omniscient": pytest.approx(0.0, abs=1e-9),
        "p95_ratio": pytest.approx(1.0),
        "misses": 0,
        "switches": 1.0,
        "spot_hours": pytest.approx(5.2),
        "on_demand_hours": 0.0,
    }
    assert reserved["mean_cost_usd"] == pytest.approx(5.2 * 3.06)
    assert reserved["points_above_omniscient"] == pytest.approx(100 * (1 - 0.918 / 3.06))


def test_sets_of_zones_are_replayed_each_and_named(shell: Shell) -> None:
    found = shell.entries("--policy", "spot-only,ebbtide", "--zones", "a;b, a;b", "--starts", "3")

    assert [(entry["policy"], entry["zones"]) for entry in found] == [
        ("spot-only", ["a"]),
        ("ebbtide", ["a"]),
        ("spot-only", ["b", "a"]),
        ("ebbtide", ["b", "a"]),
        ("spot-only", ["b"]),
        ("ebbtide", ["b"]),
    ]
    assert [entry["misses"] for entry in found] == [0, 0, 0, 0, 3, 0]
    assert found[4]["on_demand_hours"] == pytest.approx(5.2)  # late, and so on on-demand


def test_the_same_seed_draws_the_same_starts_and_another_draws_others(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    (ping,) = read_pings()[2:3]
    shell.write((f"{600 * row},{int(up)}" for row, (up,) in enumerate(ping.up)), header="seconds,z")
    asked = ("--policy", "greedy", "--starts", "20")

    first = shell.entries(*asked, "--seed", "3")

    assert shell.entries(*asked, "--seed", "3") == first
    assert shell.entries(*asked, "--seed", "4") != first


def test_starts_may_be_given_in_hours_since_the_first_row(shell: Shell) -> None:
    shell.write(f"{600 * row},{int(row >= 12)},0" for row in range(300))

    (early,) = shell.entries("--policy", "greedy", "--start-hours", "0")
    (both,) = shell.entries("--policy", "greedy", "--start-hours", "0,2")

    # from hour 0 there are 2 h to wait, and then 8 h for 5.2 h
    assert (early["jobs"], both["jobs"]) == (1, 2)
    assert both["mean_cost_usd"] == pytest.approx(5.2 * 0.918)
    assert shell.run("--policy", "greedy", "--start-hours", "40").exit_code == 0


def test_the_last_tick_ends_one_tick_behind_its_row(shell: Shell) -> None:
    shell.write(f"{600 * row},1,0" for row in range(60))

    assert shell.run("--policy", "greedy", "--start-hours", "0").exit_code == 0
    late = shell.run("--policy", "greedy", "--start-hours", "0.1")
    assert late.exit_code == 2
    assert "0 h is the latest start" in late.output


def test_yaml_says_what_json_says_and_a_table_is_for_people(shell: Shell) -> None:
    asked = ("--policy", "greedy", "--zones", "a", "--starts", "2")

    assert yaml.safe_load(shell.run(*asked, "-o", "yaml").stdout) == shell.entries(*asked)
    head, row = shell.run(*asked).stdout.splitlines()
    assert head.split() == [*FIELDS, "zones"]
    assert row.split()[:2] == ["greedy", "2"]


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (["0,1,1", "600,,1"], "column a, row 3: '' is not a whole number"),
        (["0,1,1", "600,-1,1"], "column a, row 3: '-1' is not a whole number at least 0"),
        (["0,1,1", "600,0.5,1"], "column a, row 3: '0.5' is not a whole number"),
        (["0,1,1", "x,1,1"], "column seconds, row 3: 'x' is not a number of s"),
        (["0,1,1"], "column seconds: 1 rows, at least 2 are needed"),
        (["0,1,1", "600,1,1", "1200,1,1", "3000,1,1"], "row 5: 3000 is 1800 s after the row"),
        (["0,1,1", "0,1,1", "0,1,1"], "row 3: 0 is 0 s after the row before"),
        (["600,1,1", "0,1,1"], "row 3: 0 is -600 s after the row before"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_with_the_row(
    shell: Shell, lines: list[str], complaint: str
) -> None:
    shell.write(lines)

    result = shell.run("--policy", "greedy")

    assert result.exit_code == 2
    assert complaint in result.output.replace(" of " + str(shell.folder / "zones.csv"), "")


def test_a_file_without_zones_or_seconds_is_refused(shell: Shell) -> None:
    shell.write(["0", "600"], header="seconds")
    assert "there is no zone" in shell.run("--policy", "greedy").output
    shell.write(["0,1", "600,1"], header="time,a")
    assert "there is no column seconds" in shell.run("--policy", "greedy").output


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (["--policy", "gready"], "'gready' is none of greedy"),
        (["--policy", "greedy,greedy"], "names a policy twice"),
        (["--policy", "greedy", "--zones", "a,c"], "zone 'c': there is no such column"),
        (["--policy", "greedy", "--zones", "a,a"], "zone 'a' stands twice"),
        (["--policy", "greedy", "--spot-price", "0"], "0 is not above 0"),
        (["--policy", "greedy", "--on-demand-price", "nan"], "nan is not above 0"),
        (["--policy", "greedy", "--worst-changeover-hours", "nan"], "nan is not from 0"),
        (["--policy", "greedy", "--worst-changeover-hours", "0.1"], "less than --changeover-hours"),
        (["--policy", "greedy", "--starts", "1", "--start-hours", "1"], "exclude each other"),
        (["--policy", "greedy", "--start-hours", "soon"], "'soon' is no number of hours"),
        (["--policy", "greedy", "--fit-fraction", "0.99"], "no start leaves room"),
        (["--policy", "greedy", "--fit-fraction", "nan"], "nan is no number"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    shell: Shell, more: list[str], complaint: str
) -> None:
    result = shell.run(*more)

    assert result.exit_code == 2
    assert complaint in " ".join(result.output.split())


def test_what_other_zones_do_later_changes_nothing_now(shell: Shell) -> None:
    """Rows for fitting that lie behind a start are its future, in other columns too."""
    asked = ("--policy", "ebbtide", "--zones", "a", "--start-hours", "2,30")
    other = [row // 5 % 2 for row in range(300)]

    def cost(others: list[int]) -> float:
        shell.write(f"{600 * row},{int(row % 9 > 0)},{up}" for row, up in enumerate(others))
        return float(shell.entries(*asked, work=4.0, deadline=5.0)[0]["mean_cost_usd"])

    usual = cost(other)
    assert cost(other[:12] + [0] * 288) == usual
    assert cost([0] * 12 + other[12:]) != usual


def test_files_of_other_systems_are_read_alike(shell: Shell) -> None:
    asked = ("--policy", "greedy,ebbtide", "--starts", "3")
    plain = shell.entries(*asked)
    path = shell.folder / "zones.csv"

    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))

    assert shell.entries(*asked) == plain


def test_a_deadline_that_on_demand_cannot_meet_is_refused_with_the_nearest(shell: Shell) -> None:
    result = shell.run("--policy", "greedy", deadline=5.1)

    assert result.exit_code == 2
    assert "take 5.2 h" in result.output
    assert shell.run("--policy", "greedy", deadline=5.2).exit_code == 0


def test_a_trace_that_is_shorter_than_the_job_is_named_as_such(shell: Shell) -> None:
    result = shell.run("--policy", "greedy", "--start-hours", "0", deadline=60)

    assert "the trace is too short" in result.output
