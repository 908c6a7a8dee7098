"""Whole jobs of `ebbtide simulate --job` near their deadline, and what they pay for it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from ebbtide.cli.entry import main
from support.plan_files import POOLS, PROFILE, make_job

DUE_S = 28_800
FIXED = {"minReplicas": 8, "maxReplicas": 8}


def simulate(
    tmp_path: Path, *rows: tuple[int, int], warned: int = 1, **spec: Any
) -> dict[str, Any]:
    """Run a job with so many spot nodes from a second on."""
    job, trace = tmp_path / "job.yaml", tmp_path / "trace.csv"
    job.write_text(yaml.safe_dump_all([make_job(**spec), *POOLS, PROFILE]), encoding="utf-8")
    lines = ["seconds,v100-spot", *(f"{second},{number}" for second, number in rows)]
    trace.write_text("\n".join(lines) + "\n", encoding="utf-8")
    files = ["--job", str(job), "--availability", str(trace), "--warned-share", str(warned)]
    found = CliRunner().invoke(main, ["simulate", *files, "-o", "json"])
    assert found.exit_code == 0, found.output
    told: dict[str, Any] = json.loads(found.stdout)
    return told


def plans(told: dict[str, Any]) -> list[str]:
    return [one["message"] for one in told["decisions"] if one["reason"] == "PlanChosen"]


@pytest.mark.parametrize(
    ("gone_s", "warned"), [(28_150, 1), (28_200, 0), (28_250, 1), (28_300, 0), (28_400, 1)]
)
def test_spot_that_goes_shortly_before_the_deadline_costs_no_deadline(
    tmp_path: Path, gone_s: int, warned: int
) -> None:
    told = simulate(tmp_path, (0, 16), (gone_s, 0), warned=warned)

    assert told["seconds"] <= DUE_S


def test_on_demand_that_stands_in_is_not_given_back_while_spot_is_gone(tmp_path: Path) -> None:
    told = simulate(tmp_path, (0, 16), (7200, 0), (14_400, 0), (18_000, 16))

    waits = ["time to wait" in text for text in plans(told) if text.startswith("no node comes")]
    assert waits == sorted(waits, reverse=True), "waits first, then on-demand for good"
    assert (waits[0], waits[-1]) == (True, False)
    assert told["seconds"] <= DUE_S


def test_odds_that_waver_about_nine_in_ten_are_not_paid_for_with_thrice_the_price(
    tmp_path: Path,
) -> None:
    told = simulate(tmp_path, (0, 16), elasticPolicy=FIXED, objective={"deadlineSeconds": 34_900})

    [only] = plans(told)
    assert "8 on v100-spot" in only
    assert "90%" in only
    assert told["on_demand_hours"] == 0


def test_on_demand_that_trains_is_not_left_because_time_passes(tmp_path: Path) -> None:
    told = simulate(
        tmp_path,
        *((0, 16), (5000, 0), (7200, 16), (20_000, 0)),
        elasticPolicy=FIXED,
        objective={"deadlineSeconds": 34_900},
    )

    last = plans(told)[-1]
    assert "8 on v100-ondemand" in last
    assert not any("time to wait" in text for text in plans(told))
    assert told["seconds"] <= 34_900
