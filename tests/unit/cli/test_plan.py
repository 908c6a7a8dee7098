"""`ebbtide plan`: files in; a plan, its reasons and what was assumed out."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from matplotlib.image import imread

from ebbtide.api.plan_status import PlanStatus
from ebbtide.cli.entry import main
from support.plan_files import AT, POOLS, PROFILE, make_job, make_pool


class Shell:
    """The command line in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, *documents: Any) -> str:
        path = self.folder / name
        path.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
        return str(path)

    def run(self, *arguments: str, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(main, ["plan", "--at", AT, *arguments], input=stdin)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.output
        return result

    def content(self, *arguments: str, code: int = 0) -> Any:
        result = self.run(*arguments, "-o", "json")
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_a_plan_is_printed_with_reason_and_assumptions(shell: Shell) -> None:
    result = shell.run("-f", shell.write("all.yaml", make_job(), *POOLS, PROFILE))

    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == f"job resnet50 at {AT}"
    assert any(line.startswith("v100-spot  ") for line in lines)
    assert any(line.startswith("why ") and "USD more in" in line for line in lines)
    assert any("profile: 5 measurements on V100" in line for line in lines)
    assert any(line.startswith("- lifetime model: Brier score") for line in lines)


def test_json_has_the_shape_of_the_status(shell: Shell) -> None:
    found = shell.content("-f", shell.write("all.yaml", make_job(), *POOLS, PROFILE))

    status = PlanStatus.model_validate(found["plan"])
    assert sum(share.replicas for share in status.pools) >= 2
    assert status.predicted is not None
    assert status.predicted.deadline_probability is not None
    assert [one["name"] for one in found["pools"]] == ["v100-spot", "v100-ondemand"]
    assert found["at"] == AT


def test_yaml_says_the_same_as_json(shell: Shell) -> None:
    file = shell.write("all.yaml", make_job(), *POOLS, PROFILE)

    result = shell.run("-f", file, "-o", "yaml")

    assert yaml.safe_load(result.stdout) == shell.content("-f", file)


def test_files_may_be_apart(shell: Shell) -> None:
    together = shell.content("-f", shell.write("all.yaml", make_job(), *POOLS, PROFILE))
    apart = shell.content(
        *("-f", shell.write("job.yaml", make_job())),
        *("--pools", shell.write("pools.yaml", {"kind": "List", "items": POOLS})),
        *("--profile", shell.write("profile.yaml", PROFILE)),
    )

    assert apart == together


def test_the_job_may_come_from_standard_input(shell: Shell) -> None:
    text = yaml.safe_dump_all([make_job(), *POOLS])

    assert shell.run("-f", "-", stdin=text).exit_code == 0


def test_without_pools_a_region_of_the_price_list_is_taken(shell: Shell) -> None:
    found = shell.content("-f", shell.write("job.yaml", make_job()))

    assert any("aws us-east-1" in note for note in found["notes"])
    assert {one["market"] for one in found["pools"]} == {"Spot", "OnDemand"}
    assert any("typical workload" in text for text in found["plan"]["assumptions"])


@pytest.mark.parametrize(
    ("spec", "who"),
    [
        pytest.param({}, "the coordinator asks for no GPU", id="all-reduce"),
        pytest.param(
            {"strategy": "ParameterServer"}, "coordinator and parameter servers ask", id="servers"
        ),
    ],
)
def test_what_is_in_no_price_is_said(shell: Shell, spec: dict[str, Any], who: str) -> None:
    result = shell.run("-f", shell.write("all.yaml", make_job(**spec), *POOLS, PROFILE))

    [said] = [line for line in result.stdout.splitlines() if "in none of these costs" in line]
    assert said.startswith(f"- {who}")
    assert "assumed:" in result.stdout[: result.stdout.index(said)]


def test_the_front_is_shown_on_demand(shell: Shell) -> None:
    file = shell.write("all.yaml", make_job(), *POOLS, PROFILE)

    found = shell.content("-f", file, "--pareto")
    table = shell.run("-f", file, "--pareto").stdout

    times = [one["predicted"]["finishTime"] for one in found["front"]]
    assert times == sorted(times)
    assert len(times) > 3
    assert "front of cost and time:" in table
    assert "front" not in shell.content("-f", file)


@pytest.mark.parametrize("name", ["front.png", "front.svg"])
def test_the_front_is_drawn(shell: Shell, name: str) -> None:
    path = shell.folder / name

    result = shell.run(
        "-f", shell.write("all.yaml", make_job(), *POOLS, PROFILE), "--plot", str(path)
    )

    assert result.exit_code == 0
    if path.suffix == ".png":
        assert imread(path).size > 0
    else:
        text = path.read_text(encoding="utf-8")
        assert 'id="front"' in text
        assert 'id="plan"' in text


def test_a_picture_that_cannot_be_written_is_an_error(shell: Shell) -> None:
    file = shell.write("all.yaml", make_job(), *POOLS, PROFILE)

    result = shell.run("-f", file, "--plot", str(shell.folder / "no" / "front.png"))

    assert result.exit_code == 1
    assert "cannot be written" in result.stderr


# ------------------------------------------------------------------------- no plan


def test_an_impossible_goal_exits_with_three_and_names_the_nearest(shell: Shell) -> None:
    file = shell.write("all.yaml", make_job(objective={"deadlineSeconds": 300}), *POOLS, PROFILE)

    found = shell.content("-f", file, code=3)["infeasible"]
    later = make_job(objective={"deadline": found["nearestDeadline"]})

    assert found["nearestDeadline"] in found["reason"]
    assert found["nearestBudgetUsd"] is None
    assert shell.run("-f", shell.write("later.yaml", later, *POOLS, PROFILE)).exit_code == 0
    table = shell.run("-f", file)
    assert table.exit_code == 3
    assert "no plan: 64000 steps" in table.stdout


def test_a_budget_that_is_too_small_names_the_least(shell: Shell) -> None:
    file = shell.write("all.yaml", make_job(objective={"budget": "1.00"}), *POOLS, PROFILE)

    found = shell.content("-f", file, code=3)["infeasible"]
    larger = make_job(objective={"budget": found["nearestBudgetUsd"]})

    assert shell.run("-f", shell.write("more.yaml", larger, *POOLS, PROFILE)).exit_code == 0


def test_no_pool_that_fits_is_no_plan(shell: Shell) -> None:
    capacity = {"pools": ["elsewhere"], "onDemandFloor": 0}

    found = shell.content(
        "-f", shell.write("all.yaml", make_job(capacity=capacity), *POOLS), code=3
    )

    assert "elsewhere: there is no such CapacityPool" in found["infeasible"]["reason"]


def test_a_price_may_be_looked_up_in_the_catalogue(shell: Shell) -> None:
    pool = make_pool("p", "1")
    pool["spec"]["region"] = "us-east-1"
    pool["spec"]["price"] = {"catalogue": {"provider": "aws", "instanceType": "p3.2xlarge"}}

    found = shell.content("-f", shell.write("all.yaml", make_job(), pool, PROFILE))

    assert {p["name"]: p["usdPerNodeHour"] for p in found["pools"]} == {"p": "3.06"}


# ------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("price", "says"),
    [
        pytest.param({"usdPerNodeHour": "0"}, "p: spec.price.usdPerNodeHour: is '0'", id="zero"),
        pytest.param(
            {"catalogue": {"provider": "aws", "instanceType": "p9"}},
            "p: spec.price.catalogue: aws has no instance type 'p9'; known are:",
            id="not in the list",
        ),
    ],
)
def test_a_price_that_cannot_be_is_refused(shell: Shell, price: Any, says: str) -> None:
    pool = make_pool("p", "1")
    pool["spec"]["price"] = price

    result = shell.run("-f", shell.write("all.yaml", make_job(), pool))

    assert result.exit_code == 2
    assert says in result.stderr


def test_every_wrong_field_is_named_with_what_would_be_right(shell: Shell) -> None:
    wrong = make_job(elasticPolicy={"minReplicas": 0, "maxReplicas": 16}, stragety="AllReduce")

    result = shell.run("-f", shell.write("job.yaml", wrong))

    assert result.exit_code == 2
    assert "spec.elasticPolicy.minReplicas" in result.stderr
    assert "spec.stragety" in result.stderr


@pytest.mark.parametrize(
    ("documents", "says"),
    [
        pytest.param([*POOLS], "0 documents of kind TrainingJob, one is needed", id="no job"),
        pytest.param([make_job(), make_job()], "2 documents of kind TrainingJob", id="two jobs"),
        pytest.param(["text"], "'text' has no `kind`", id="no object"),
        pytest.param([{"kind": 3}], "has no `kind`", id="kind of a number"),
        pytest.param([], "holds nothing", id="empty"),
        pytest.param(
            [make_job(), make_pool("p", "x")], "p: spec.price.usdPerNodeHour", id="no price"
        ),
        pytest.param([make_job(), *POOLS, POOLS[0]], "names must differ", id="one name twice"),
        pytest.param(
            [make_job(), {"kind": "CapacityPool"}], "metadata.name: is missing", id="no name"
        ),
        pytest.param(
            [make_job(), {**PROFILE, "spec": {"workload": "x", "tensors": -1}}],
            "mine: spec.tensors",
            id="wrong profile",
        ),
        pytest.param(
            [make_job(profile="other"), PROFILE, {**PROFILE, "metadata": {"name": "third"}}],
            "no WorkloadProfile is called 'other'",
            id="no such profile",
        ),
    ],
)
def test_what_cannot_be_used_exits_with_two(shell: Shell, documents: Any, says: str) -> None:
    result = shell.run("-f", shell.write("given.yaml", *documents))

    assert result.exit_code == 2
    assert says in result.stderr


def test_files_that_are_no_yaml_are_named(shell: Shell) -> None:
    path = shell.folder / "broken.yaml"
    path.write_bytes(b"kind: [")
    binary = shell.folder / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")

    for file, says in (
        (path, "this is no YAML"),
        (binary, "not UTF-8"),
        (shell.folder / "none.yaml", "cannot be read"),
    ):
        result = shell.run("-f", str(file))
        assert result.exit_code == 2
        assert says in result.stderr
        assert str(file) in result.stderr


def test_empty_files_of_pools_and_profiles_are_refused(shell: Shell) -> None:
    file, other = shell.write("job.yaml", make_job()), shell.write("other.yaml", make_job())

    for option in ("--pools", "--profile"):
        result = shell.run("-f", file, option, other)
        assert result.exit_code == 2
        assert "no document of kind" in result.stderr


@pytest.mark.parametrize(
    "moment", ["tomorrow", "2026-08-01T12:00:00", "9999-12-31T23:00:00Z", "0001-01-01T00:00:00Z"]
)
def test_a_moment_needs_a_zone_and_a_year_of_this_calendar(shell: Shell, moment: str) -> None:
    result = shell.run("-f", shell.write("job.yaml", make_job()), "--at", moment)

    assert result.exit_code == 2
    assert "--at" in result.stderr


def test_now_is_the_default_moment(shell: Shell) -> None:
    file = shell.write("all.yaml", make_job(), *POOLS, PROFILE)

    result = CliRunner().invoke(main, ["plan", "-f", file, "-o", "json"])

    assert json.loads(result.stdout)["at"] != AT


# ------------------------------------------------------------------------- by hand


def test_a_number_by_hand_is_what_is_foreseen(shell: Shell) -> None:
    by_hand = make_job(
        planMode="Manual",
        objective={},
        elasticPolicy={"minReplicas": 2, "maxReplicas": 16, "replicas": 5},
    )

    found = shell.content("-f", shell.write("all.yaml", by_hand, *POOLS, PROFILE))

    assert sum(share["replicas"] for share in found["plan"]["pools"]) == 5
    assert "planMode Manual: 5 workers run, and nothing else is tried" in found["notes"]


def test_a_number_by_hand_runs_and_is_foreseen_when_it_misses_the_goal(shell: Shell) -> None:
    by_hand = make_job(
        planMode="Manual", elasticPolicy={"minReplicas": 2, "maxReplicas": 16, "replicas": 2}
    )

    found = shell.content("-f", shell.write("all.yaml", by_hand, *POOLS, PROFILE))

    assert sum(share["replicas"] for share in found["plan"]["pools"]) == 2
    assert any("the goal is not met: 64000 steps" in note for note in found["notes"])


# ------------------------------------------------------------------------- profiles


def test_a_profile_that_the_job_names_is_chosen(shell: Shell) -> None:
    other = {**PROFILE, "metadata": {"name": "other"}, "spec": {"workload": "none"}}

    found = shell.content(
        "-f", shell.write("all.yaml", make_job(profile="mine"), *POOLS, other, PROFILE)
    )

    assert any("profile: 5 measurements" in text for text in found["plan"]["assumptions"])


def test_a_profile_of_the_workload_is_chosen(shell: Shell) -> None:
    other = {**PROFILE, "metadata": {"name": "other"}, "spec": {"workload": "none"}}
    labelled = make_job()
    labelled["metadata"]["labels"] = {"ebbtide.dev/workload": "resnet50"}

    found = shell.content("-f", shell.write("all.yaml", labelled, *POOLS, other, PROFILE))

    assert any("profile: 5 measurements" in text for text in found["plan"]["assumptions"])


def test_a_named_profile_that_is_not_there_is_told(shell: Shell) -> None:
    found = shell.content("-f", shell.write("all.yaml", make_job(profile="mine"), *POOLS))

    assert any("give it by --profile" in note for note in found["notes"])


def test_a_script_that_tells_no_steps_cannot_be_planned(shell: Shell) -> None:
    result = shell.run("-f", shell.write("all.yaml", make_job(launcher="Torchrun"), *POOLS))

    assert result.exit_code == 2
    assert "spec.launcher: is Torchrun, which tells no progress" in result.output
