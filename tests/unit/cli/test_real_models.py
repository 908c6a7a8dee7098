"""Each model on the command line: fitted from a file, stored, asked, and told what is wrong."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from ebbtide.cli.entry import main
from ebbtide.core.models import kinds

Rows = list[dict[str, object]]


def noise(number: int) -> Iterator[float]:
    chance = np.random.Generator(np.random.PCG64(7))
    yield from np.exp(chance.normal(0, 0.02, number)).tolist()


def step_times() -> Rows:
    off = noise(100)
    return [
        {
            "gpu": gpu,
            "workload": f"net{number}",
            "flops": 2e8 * (number + 1),
            "params": 1e5 * (number + 1),
            "tensors": 40 + 7 * number,
            "local_batch": 128,
            "step_time_s": scale * (0.02 + 0.03 * (number + 1) + 1e-4 * number) * next(off),
        }
        for number in range(12)
        for gpu, scale in (("K80", 1.0), ("P100", 0.4))
    ]


def all_reduces() -> Rows:
    off = noise(200)
    return [
        {
            "system": f"s{nodes}",
            "gpus_per_node": 8,
            "nodes": nodes,
            "nic_gbps": 400,
            "bytes": size,
            "time_s": (2e-5 * nodes + 2 * size / (50e9 if nodes > 1 else 200e9)) * next(off),
        }
        for nodes in (1, 2, 4, 8)
        for size in (2.0**power for power in range(15, 33))
    ]


def iterations() -> Rows:
    off = noise(300)
    return [
        {
            "workload": "net",
            "placement": placement,
            "local_batch": batch,
            "step_time_s": (0.05 + 0.002 * batch + 0.01 * placement.count("-")) * next(off),
            "sync_time_s": 0.004 + 0.008 * placement.count("-"),
        }
        for placement in ("1", "2", "4", "1-1", "1-2", "2-2", "1-1-2", "4-4", "1-1-1-1")
        for batch in (16, 32, 64, 128)
    ]


def clusters() -> Rows:
    off = noise(100)
    return [
        {
            "gpu": "K80",
            "workload": f"net{number}",
            "workers": workers,
            "servers": 1,
            "bytes": 4e6 * (number + 1),
            "steps_per_s": min(5.0 * workers, 30.0 / (number + 1)) * next(off),
        }
        for number in range(3)
        for workers in range(1, 9)
    ]


def checkpoints() -> Rows:
    off = noise(60)
    return [
        {
            "workload": f"net{number}",
            "size_mb": 10.0 * (number + 1),
            "tensors": 40 + 7 * number,
            "duration_s": (2 + 0.1 * number) * next(off),
        }
        for number in range(12)
    ]


def lifetimes() -> Rows:
    chance = np.random.Generator(np.random.PCG64(3))
    lives = chance.exponential(9.0, 120)
    return [
        {
            "pool": f"pool{number % 3}",
            "zone": f"zone{number % 2}",
            "gpu": "V100",
            "start_hour": number % 24 + number / 1000,
            "lifetime_h": round(min(life, 24.0), 3),
            "revoked": int(life < 24.0),
        }
        for number, life in enumerate(lives.tolist())
    ]


SAMPLES: Mapping[str, Callable[[], Rows]] = {
    "step-time": step_times,
    "all-reduce": all_reduces,
    "iteration": iterations,
    "parameter-server": clusters,
    "checkpoint": checkpoints,
    "lifetime": lifetimes,
}


def written(folder: Path, rows: Rows, *, name: str = "samples.csv") -> str:
    path = folder / name
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def fit(kind: str, file: str, *more: str) -> Any:
    result = run("fit", kind, "--data", file, *more, "-o", "json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("kind", SAMPLES)
def test_a_model_is_fitted_stored_and_asked(tmp_path: Path, kind: str) -> None:
    rows = SAMPLES[kind]()
    target = kinds.find(kind).target.name
    stored = str(tmp_path / "model.json")

    report = fit(kind, written(tmp_path, rows), "--out", stored)
    asked = [{name: value for name, value in row.items() if name != target} for row in rows]
    file = written(tmp_path, asked, name="asked.csv")
    answer = run("predict", kind, "--model", stored, "--input", file, "-o", "json")

    assert report["samples"] == len(rows)
    assert report["method"] == kinds.find(kind).default
    assert report["errors"]["all"]["samples"] > 0
    assert 0 <= report["coverage_90"] <= 1
    assert answer.exit_code == 0, answer.stderr
    predictions = json.loads(answer.stdout)["predictions"]
    assert len(predictions) == len(rows)
    assert all(0 < each["low"] <= each["value"] <= each["high"] for each in predictions)


def test_without_a_file_the_model_that_ships_is_asked_and_named(tmp_path: Path) -> None:
    asked: Rows = [{"workload": "mine", "size_mb": 100, "tensors": 120}]
    file = written(tmp_path, asked)

    result = run("predict", "checkpoint", "--input", file, "-o", "json")

    assert result.exit_code == 0
    assert "note: fitted from cake-lab/CM-DARE" in result.stderr
    assert 1 < json.loads(result.stdout)["predictions"][0]["value"] < 60


def test_a_model_of_which_none_ships_must_be_given(tmp_path: Path) -> None:
    file = written(tmp_path, all_reduces())

    result = run("predict", "all-reduce", "--input", file)

    assert result.exit_code == 2
    assert "no all-reduce model ships with Ebbtide: give --model" in result.stderr


@pytest.mark.parametrize("kind", SAMPLES)
def test_held_out_errors_of_groups_are_small_where_the_truth_is_simple(
    tmp_path: Path, kind: str
) -> None:
    group = {"parameter-server": "workers"}.get(kind, kinds.find(kind).group)

    report = fit(kind, written(tmp_path, SAMPLES[kind]()), "--split", f"leave-one-out:{group}")

    assert report["split"] == f"leave-one-out:{group}"
    assert len(report["errors"]["by_group"]) > 1
    if kind == "lifetime":
        assert 0 < report["errors"]["all"]["integrated_brier"] < 0.25
        assert 0 <= report["errors"]["all"]["ks"] < 0.5
    else:
        assert report["errors"]["all"]["mape"] < 0.3


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_method_can_be_named(tmp_path: Path, kind: str) -> None:
    file = written(tmp_path, SAMPLES[kind]())

    methods = list(kinds.find(kind).methods)

    assert len(methods) > 1
    assert [fit(kind, file, "--method", name)["method"] for name in methods] == methods


@pytest.mark.parametrize("kind", SAMPLES)
@pytest.mark.parametrize("value", ["-1e9", "nan", "", "fast"])
def test_a_wrong_target_is_named_with_column_and_row(tmp_path: Path, kind: str, value: str) -> None:
    rows = SAMPLES[kind]()
    target = kinds.find(kind).target.name
    rows[3][target] = value

    result = run("fit", kind, "--data", written(tmp_path, rows), "-o", "json")

    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert f"column {target}, row 5" in result.stderr


@pytest.mark.parametrize("kind", SAMPLES)
def test_one_row_gives_an_error_or_a_model_that_says_how_little_it_knows(
    tmp_path: Path, kind: str
) -> None:
    result = run("fit", kind, "--data", written(tmp_path, SAMPLES[kind]()[:1]), "-o", "json")

    assert result.exit_code in {0, 1}
    if result.exit_code == 0:
        assert json.loads(result.stdout)["errors"]["all"] is None
    else:
        assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("kind", SAMPLES)
def test_repeated_rows_change_little_and_are_noted(tmp_path: Path, kind: str) -> None:
    rows = SAMPLES[kind]()

    report = fit(kind, written(tmp_path, rows + rows))

    assert report["notes"][0] == f"{len(rows)} of {2 * len(rows)} rows repeat another exactly"


def test_an_all_reduce_is_told_by_its_median_and_what_nine_of_ten_stay_below(
    tmp_path: Path,
) -> None:
    stored, file = str(tmp_path / "model.json"), written(tmp_path, all_reduces())
    fit("all-reduce", file, "--out", stored)

    result = run("predict", "all-reduce", "--model", stored, "--input", file, "-o", "json")

    predictions = json.loads(result.stdout)["predictions"]
    assert all(each["value"] <= each["p90"] <= each["high"] for each in predictions)
    assert any(each["value"] < each["p90"] for each in predictions)


@pytest.mark.parametrize("kind", ["all-reduce", "parameter-server"])
@pytest.mark.parametrize("method", ["", "another"])
def test_what_was_never_measured_is_answered_by_what_it_has_and_marked(
    tmp_path: Path, kind: str, method: str
) -> None:
    file, column = written(tmp_path, SAMPLES[kind]()), kinds.find(kind).inputs[0].name
    column = {"parameter-server": "workload"}.get(kind, column)
    named = ("--method", list(kinds.find(kind).methods)[1]) if method else ()

    report = fit(kind, file, "--split", f"leave-one-out:{column}", *named)
    stored = str(tmp_path / "model.json")
    fit(kind, file, "--out", stored, *named)
    known = SAMPLES[kind]()[:1]
    asked = [*known, known[0] | {column: "never-seen"}]
    answer = run(
        "predict", kind, "--model", stored, "-o", "json",
        "--input", written(tmp_path, asked, name="asked.csv"),
    )  # fmt: skip

    assert len(report["errors"]["by_group"]) > 1
    assert report["coverage_90"] > 0.8
    one, other = json.loads(answer.stdout)["predictions"]
    assert [one["beyond"], other["beyond"]] == [False, True]
    assert other["high"] / other["low"] > 2 * one["high"] / one["low"]


@pytest.mark.parametrize(
    ("kind", "column", "known"),
    [
        pytest.param("step-time", "gpu", "P100", id="gpu"),
        pytest.param("iteration", "workload", "net", id="workload"),
    ],
)
def test_what_nothing_tells_about_is_refused_and_what_is_known_named(
    tmp_path: Path, kind: str, column: str, known: str
) -> None:
    rows = SAMPLES[kind]()
    stored = str(tmp_path / "model.json")
    fit(kind, written(tmp_path, rows), "--out", stored)
    file = written(tmp_path, [rows[0] | {column: "never-seen"}], name="asked.csv")

    answer = run("predict", kind, "--model", stored, "--input", file)

    assert answer.exit_code == 1
    assert f"column {column}, row 2 of" in answer.stderr
    assert "'never-seen'" in answer.stderr
    assert known in answer.stderr


# ---------------------------------------------------------------- bad samples, for every kind

TIMES = sorted(set(SAMPLES) - {"lifetime"})
"""Kinds whose rows tell of each other; a life may be a thousand times another."""


@pytest.mark.parametrize("kind", TIMES)
@pytest.mark.parametrize("every", [40, 2])
def test_rows_in_another_unit_than_the_others_are_refused(
    tmp_path: Path, kind: str, every: int
) -> None:
    rows, target = SAMPLES[kind](), kinds.find(kind).target.name
    for row in rows[5::every]:
        row[target] = float(str(row[target])) * 1000

    result = run("fit", kind, "--data", written(tmp_path, rows), "-o", "json")

    assert result.exit_code == 1
    assert f"column {target}, row " in result.stderr


@pytest.mark.parametrize("kind", ["step-time", "all-reduce"])
def test_a_whole_file_in_milliseconds_is_noted_with_the_unit_that_fits(
    tmp_path: Path, kind: str
) -> None:
    rows, target = SAMPLES[kind](), kinds.find(kind).target.name
    assert "milliseconds" not in " ".join(fit(kind, written(tmp_path, rows))["notes"])
    for row in rows:
        row[target] = float(str(row[target])) * 1000

    report = fit(kind, written(tmp_path, rows), "--split", "none")

    (note, *_) = (note for note in report["notes"] if "milliseconds" in note)
    assert f"column {target}, row " in note
    assert "give seconds" in note


def test_steps_that_are_faster_than_the_gpu_are_refused(tmp_path: Path) -> None:
    rows = [row | {"flops": 128.0 * float(str(row["flops"]))} for row in step_times()]

    result = run("fit", "step-time", "--data", written(tmp_path, rows), "-o", "json")

    assert result.exit_code == 1
    assert "that a K80 can do: flops are those of one sample" in result.stderr


@pytest.mark.parametrize("kind", SAMPLES)
@pytest.mark.parametrize("value", ["1_000", "\uff11\uff12", "83000000", "1e-30", "1e308", "True"])
def test_a_target_that_is_no_number_in_its_unit_is_refused(
    tmp_path: Path, kind: str, value: str
) -> None:
    rows, target = SAMPLES[kind](), kinds.find(kind).target.name
    rows[3][target] = value

    result = run("fit", kind, "--data", written(tmp_path, rows), "-o", "json")

    if (kind, value) == ("lifetime", "1e-30"):  # gone at once: it counts as a second
        assert result.exit_code == 0
        assert "note: 1 lives of 0 hours count as one second" in result.stderr
    else:
        assert result.exit_code == 1
        assert f"column {target}, row 5" in result.stderr


@pytest.mark.parametrize("kind", SAMPLES)
def test_a_name_that_was_lost_is_not_taken_for_a_name(tmp_path: Path, kind: str) -> None:
    rows = SAMPLES[kind]()
    name = next(name for name in ("workload", "pool", "system") if name in rows[0])
    rows[3][name] = "NaN"

    result = run("fit", kind, "--data", written(tmp_path, rows), "-o", "json")

    assert result.exit_code == 1
    assert f"column {name}, row 5" in result.stderr
    assert "'NaN' is what is left of a name" in result.stderr


@pytest.mark.parametrize("kind", TIMES)
def test_rows_that_stand_there_twice_make_no_answer_surer(tmp_path: Path, kind: str) -> None:
    rows = SAMPLES[kind]()
    widths = []
    for number, samples in enumerate((rows, rows + rows)):
        stored = str(tmp_path / f"{number}.json")
        file = written(tmp_path, samples, name=f"{number}.csv")
        fit(kind, file, "--out", stored)
        answer = run("predict", kind, "--model", stored, "--input", file, "-o", "json")
        first = json.loads(answer.stdout)["predictions"][0]
        widths.append(np.log(first["high"] / first["low"]))

    assert widths[1] > 0.9 * widths[0]


@pytest.mark.parametrize("split", ["random", "leave-one-out:pool", "fold:start_hour"])
def test_a_life_below_zero_is_left_out_of_every_split_and_told(tmp_path: Path, split: str) -> None:
    rows = lifetimes()
    rows[2]["lifetime_h"] = -0.5

    result = run(
        "fit", "lifetime", "--data", written(tmp_path, rows), "--split", split, "-o", "json"
    )

    assert result.exit_code == 0, result.stderr
    assert "note: 1 lives below 0 hours were left out" in result.stderr
    assert json.loads(result.stdout)["errors"]["all"]["samples"] == len(rows) - 1


def test_lives_that_all_go_on_are_answered_by_the_prior_and_that_is_told(tmp_path: Path) -> None:
    rows = [row | {"revoked": 0} for row in lifetimes()]

    report = fit("lifetime", written(tmp_path, rows))

    assert any("no node was revoked" in note for note in report["notes"])
