"""`ebbtide simulate --job`: its decision log, its summary, and what it says of bad files."""

import csv
import io
import json
import re
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

    assert found.exit_code == 2
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


# ---------------------------------------------------------------- other traces, and a picture


def run_over(tmp_path: Path, *options: str, **files: str) -> Result:
    """Run the job over files that are given by the name of their option."""
    (tmp_path / "job.yaml").write_text(manifest(), encoding="utf-8")
    named: list[str] = []
    for option, text in files.items():
        path = tmp_path / f"{option}.csv"
        path.write_text(text, encoding="utf-8")
        named += [f"--{option}", str(path)]
    job = ["--job", str(tmp_path / "job.yaml"), "--pools", POOLS]
    return CliRunner().invoke(main, ["simulate", *job, *named, *options])


EVENTS = trace(
    *((0, "add", node) for node in "ab"),
    (400, "notice", "a"),
    (700, "remove", "b"),
    head="seconds,event,node",
)


def test_nodes_may_come_and_go_by_name(tmp_path: Path) -> None:
    told = json.loads(run_over(tmp_path, "-o", "json", events=EVENTS).output)

    assert told["outcome"] == "Complete"
    assert told["revocations"] == 2
    made = [one for one in told["decisions"] if one["reason"] == "ReplacementCreated"]
    assert [(one["seconds"], "is tainted" in one["message"]) for one in made] == [
        (400.0, True),  # at the notice
        (701.0, False),  # when the silence is noticed
    ]


def test_the_pool_of_events_may_be_named(tmp_path: Path) -> None:
    named = run_over(tmp_path, "-o", "json", "--pool", "v100-spot", events=EVENTS)

    assert named.output == run_over(tmp_path, "-o", "json", events=EVENTS).output


def test_prices_move_what_is_billed_and_charged(tmp_path: Path) -> None:
    steady = json.loads(run_over(tmp_path, "-o", "json", availability=trace((0, 4))).output)
    dear = trace((0, "v100-spot", 1.0), (600, "v100-spot", 20.0), head="seconds,zone,price")

    told = json.loads(
        run_over(tmp_path, "-o", "json", availability=trace((0, 4)), prices=dear).output
    )

    assert told["seconds"] == steady["seconds"]
    assert float(told["bill_usd"]) > 2 * float(steady["bill_usd"])
    charged = float(told["bill_usd"]) - float(told["idle_usd"])
    assert float(told["cost_usd"]) == pytest.approx(charged, abs=0.011)


@pytest.mark.parametrize(
    ("options", "files", "says"),
    [
        pytest.param((), {}, "exactly one of --availability, --events is needed; none", id="none"),
        pytest.param(
            (), {"availability": trace((0, 4)), "events": EVENTS}, "both are given", id="two"
        ),
        pytest.param(
            ("--pool", "v100-spot"), {"availability": trace((0, 4))}, "--pool says whose", id="pool"
        ),
        pytest.param(
            ("--pool", "spot"), {"events": EVENTS}, "there is no pool 'spot'; pools are", id="name"
        ),
        pytest.param(
            (),
            {"events": trace((0, "remove", "a"), head="seconds,event,node")},
            ": 'a' is not there: an add must come first",
            id="event",
        ),
        pytest.param(
            (),
            {
                "availability": trace((0, 4)),
                "prices": trace((0, "spot", 1.0), head="seconds,zone,price"),
            },
            ": 'spot' is no zone of the trace: v100",
            id="price",
        ),
        pytest.param(
            ("--plot", "run.gif"), {"events": EVENTS}, "ends in neither .png nor .svg", id="plot"
        ),
    ],
)
def test_what_is_wrong_with_other_traces_is_told(
    tmp_path: Path, options: tuple[str, ...], files: dict[str, str], says: str
) -> None:
    found = run_over(tmp_path, *options, **files)

    assert found.exit_code == 2
    assert says in " ".join(found.output.split())


def test_a_picture_shows_capacity_choices_progress_and_cost(tmp_path: Path) -> None:
    pictures = [tmp_path / "first.svg", tmp_path / "again.svg"]
    for picture in pictures:
        found = run_over(tmp_path, "--plot", str(picture), events=EVENTS)
        assert found.exit_code == 0, found.output

    svg, again = (picture.read_text(encoding="utf-8") for picture in pictures)
    series = set(re.findall(r'<g id="((?:capacity|choice|progress|cost)[^"]*)"', svg))
    pools = ("v100-spot", "v100-ondemand")
    assert series == {
        *(f"{what}-{pool}" for what in ("capacity", "choice") for pool in pools),
        "progress",
        "cost",
    }
    assert svg == again


def test_a_picture_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    found = run_over(tmp_path, "--plot", str(tmp_path / "no" / "run.svg"), events=EVENTS)

    assert found.exit_code == 2
    assert "cannot be written" in found.output
