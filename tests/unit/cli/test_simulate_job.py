"""`ebbtide simulate --job`: its decision log, its summary, and what it says of bad files."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from architecture.tree import ROOT
from ebbtide.cli.entry import main

EXAMPLE = ROOT / "examples" / "digits"
POOLS = str(EXAMPLE / "pools.yaml")
STEPS = 4000


def manifest(**spec: Any) -> str:
    """Return the job of the example with some fields changed, at a size that the user sets."""
    documents = list(yaml.safe_load_all((EXAMPLE / "job.yaml").read_text(encoding="utf-8")))
    job = next(one for one in documents if one["kind"] == "TrainingJob")
    del job["spec"]["objective"], job["spec"]["profile"]
    job["spec"] |= {"work": {"steps": STEPS, "globalBatchSize": 64}, "planMode": "Manual"} | spec
    if job["spec"]["planMode"] == "Manual" and "elasticPolicy" not in spec:
        job["spec"]["elasticPolicy"]["replicas"] = 4
    return yaml.safe_dump(job)


def trace(*rows: tuple[object, ...], head: str = "seconds,v100-spot") -> str:
    out = io.StringIO()
    csv.writer(out).writerows([head.split(","), *rows])
    return out.getvalue()


def simulate(tmp_path: Path, *options: str, job: str = "", availability: str = "") -> Result:
    (tmp_path / "job.yaml").write_text(job or manifest(), encoding="utf-8")
    (tmp_path / "a.csv").write_text(availability or trace((0, 4)), encoding="utf-8")
    files = ["--job", str(tmp_path / "job.yaml"), "--availability", str(tmp_path / "a.csv")]
    return CliRunner().invoke(main, ["simulate", *files, "--pools", POOLS, *options])


def test_prints_the_decisions_and_what_came_of_the_job(tmp_path: Path) -> None:
    found = simulate(tmp_path, "-o", "json", availability=trace((0, 4), (400, 1), (600, 0)))

    assert found.exit_code == 0, found.output
    told = json.loads(found.output)
    assert told["outcome"] == "Complete"
    assert (told["steps"], told["steps_lost"], told["failures"]) == (STEPS, 0, 0)
    reasons = [one["reason"] for one in told["decisions"]]
    assert reasons[0] == "Running"
    assert reasons[-1] == "Completed"
    assert told["revocations"] == reasons.count("PodPreempted") > 0
    assert [one["seconds"] for one in told["decisions"]] == sorted(
        one["seconds"] for one in told["decisions"]
    )
    assert float(told["bill_usd"]) - float(told["idle_usd"]) == pytest.approx(
        float(told["cost_usd"]), abs=0.011
    )


@pytest.mark.parametrize("output", ["table", "yaml"])
def test_says_the_same_in_other_forms(tmp_path: Path, output: str) -> None:
    told = json.loads(simulate(tmp_path, "-o", "json").output)

    found = simulate(tmp_path, "-o", output)

    assert found.exit_code == 0
    if output == "yaml":
        assert yaml.safe_load(found.output) == told
    else:
        assert told["why"] in found.output
        assert "2 of 4 workers train" in found.output


def test_the_same_seed_gives_the_same_log(tmp_path: Path) -> None:
    rows = [(0, 4), *((600 + 300 * k, k % 3) for k in range(6))]
    options = ("-o", "json", "--warned-share", "0.5")

    first, again, other = (
        simulate(tmp_path, *options, "--seed", seed, availability=trace(*rows)).output
        for seed in ("3", "3", "4")
    )

    assert first == again
    assert first != other


def test_a_job_that_cannot_go_on_is_told_with_exit_3(tmp_path: Path) -> None:
    head = "seconds,v100-spot,v100-ondemand"

    found = simulate(tmp_path, "-o", "json", availability=trace((0, 0, 0), head=head))

    assert found.exit_code == 3
    assert json.loads(found.output)["outcome"] == "Stuck"
    assert json.loads(found.output)["finished"] is None


def test_the_planner_decides_where_the_user_lets_it(tmp_path: Path) -> None:
    size = {"minReplicas": 2, "maxReplicas": 4}
    job = manifest(planMode="Auto", elasticPolicy=size, objective={"deadlineSeconds": 7200})

    found = simulate(tmp_path, "-o", "json", job=job)

    assert found.exit_code == 0, found.output
    assert "PlanChosen" in {one["reason"] for one in json.loads(found.output)["decisions"]}


@pytest.mark.parametrize(
    ("changes", "options", "expected"),
    [
        pytest.param(
            {"availability": trace((0, 4), head="seconds,moon")},
            (),
            "column moon: there is no such pool; pools are: v100-ondemand, v100-spot",
            id="a pool that is not there",
        ),
        pytest.param(
            {"availability": trace((0, 4), (0, 3))},
            (),
            "row 3 of",
            id="a row that repeats a moment",
        ),
        pytest.param(
            {"availability": trace((0, 4), (9, -1))}, (), "row 3 of", id="fewer nodes than none"
        ),
        pytest.param(
            {"availability": trace((0,), head="seconds")},
            (),
            "there is no pool: one column",
            id="no column",
        ),
        pytest.param(
            {"job": manifest(work={"steps": 0, "globalBatchSize": 64})},
            (),
            "spec.work.steps",
            id="a job that is none",
        ),
        pytest.param({}, ("--at", "noon"), "'noon' is no moment", id="no moment"),
        pytest.param({}, ("--at", "2026-01-01"), "no time zone", id="no time zone"),
        pytest.param({}, ("--policy", "greedy"), "No such option", id="the other form"),
    ],
)
def test_says_what_is_wrong(
    tmp_path: Path, changes: dict[str, str], options: tuple[str, ...], expected: str
) -> None:
    found = simulate(tmp_path, *options, **changes)

    assert found.exit_code in (1, 2)
    assert expected in found.output
    assert "Traceback" not in found.output


def test_a_file_without_pools_is_refused(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(manifest(), encoding="utf-8")
    (tmp_path / "a.csv").write_text(trace((0, 4)), encoding="utf-8")
    files = ["--job", str(tmp_path / "job.yaml"), "--availability", str(tmp_path / "a.csv")]

    found = CliRunner().invoke(main, ["simulate", *files])

    assert found.exit_code == 2
    assert "no document of kind CapacityPool: one is needed" in found.output


def test_without_a_job_the_command_is_the_other_one() -> None:
    found = CliRunner().invoke(main, ["simulate", "--help"])

    assert "--policy" in found.output
    assert "ebbtide simulate --job FILE --help" in found.output


def test_with_a_job_its_help_is_its_own() -> None:
    found = CliRunner().invoke(main, ["simulate", "--job=x", "--help"])

    assert found.exit_code == 0
    assert "--warned-share" in found.output
