from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from ebbtide.cli.entry import main

NAMES = [
    "ebbtide.dev_capacitypools.yaml",
    "ebbtide.dev_trainingjobs.yaml",
    "ebbtide.dev_workloadprofiles.yaml",
]


@pytest.fixture
def runner() -> CliRunner:
    return CliRunner()


def test_definitions_go_to_standard_output_as_one_stream(runner: CliRunner) -> None:
    result = runner.invoke(main, ["crds"])

    assert result.exit_code == 0
    kinds = [crd["spec"]["names"]["kind"] for crd in yaml.safe_load_all(result.stdout)]
    assert kinds == ["CapacityPool", "TrainingJob", "WorkloadProfile"]


def test_definitions_go_into_a_folder_one_file_for_each(runner: CliRunner, tmp_path: Path) -> None:
    result = runner.invoke(main, ["crds", "--out", str(tmp_path / "crds")])

    assert result.exit_code == 0
    assert sorted(path.name for path in (tmp_path / "crds").iterdir()) == NAMES
    assert result.stdout == ""


def test_what_was_just_rendered_passes_the_check(runner: CliRunner, tmp_path: Path) -> None:
    runner.invoke(main, ["crds", "--out", str(tmp_path)])

    assert runner.invoke(main, ["crds", "--check", str(tmp_path)]).exit_code == 0


def test_a_file_edited_by_hand_fails_the_check(runner: CliRunner, tmp_path: Path) -> None:
    runner.invoke(main, ["crds", "--out", str(tmp_path)])
    file = tmp_path / NAMES[1]
    file.write_text(file.read_text().replace("minimum: 1", "minimum: 2"))

    result = runner.invoke(main, ["crds", "--check", str(tmp_path)])

    assert result.exit_code == 1
    assert f"{file} is not what the models render: run `make crds`" in result.stderr
    assert "minimum: 2" in file.read_text()


def test_a_missing_and_an_unknown_file_fail_the_check(runner: CliRunner, tmp_path: Path) -> None:
    runner.invoke(main, ["crds", "--out", str(tmp_path)])
    (tmp_path / NAMES[0]).rename(tmp_path / "other.yaml")

    result = runner.invoke(main, ["crds", "--check", str(tmp_path)])

    assert result.exit_code == 1
    assert NAMES[0] in result.stderr
    assert "other.yaml is rendered from no model" in result.stderr


def test_writing_and_checking_at_once_is_a_mistake_of_usage(
    runner: CliRunner, tmp_path: Path
) -> None:
    result = runner.invoke(main, ["crds", "--out", str(tmp_path), "--check", str(tmp_path)])

    assert result.exit_code == 2


def test_the_reference_goes_into_one_file(runner: CliRunner, tmp_path: Path) -> None:
    file = tmp_path / "api.md"

    result = runner.invoke(main, ["crds", "--reference", str(file)])

    assert result.exit_code == 0
    assert list(tmp_path.iterdir()) == [file]
    assert "## WorkloadProfile" in file.read_text(encoding="utf-8")
