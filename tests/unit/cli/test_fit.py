"""`ebbtide fit` and `ebbtide predict` with a plain model; real ones have tests of their own."""

import io
import json
import pickle
import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from typing_extensions import override

from ebbtide.cli import fit as fit_command
from ebbtide.cli.entry import main
from ebbtide.core.models import kinds
from ebbtide.core.models.forecast import Forecast
from ebbtide.core.models.kinds import Kind
from ebbtide.core.models.quality import Errors, Quality, Scores, Split
from ebbtide.core.models.stored import Model
from ebbtide.core.models.table import Table
from support.plain_model import PLAIN, PlainModel, fit_means

SAMPLES = "workload,size,seconds\na,10,1.0\na,-,1.2\nb,20,4.0\nb,20,4.4\nc,5,0.5\n"


class Shell:
    """The command line in a folder of its own; its `step-time` is the plain model."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runner = CliRunner()
        self.write("samples.csv", SAMPLES)

    def write(self, name: str, content: str | bytes) -> str:
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def run(self, *arguments: str, stdin: str | None = None) -> Result:
        result = self.runner.invoke(main, list(arguments), input=stdin)
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result

    def fit(self, *more: str) -> Result:
        return self.run("fit", "step-time", "--data", str(self.folder / "samples.csv"), *more)

    def report(self, *more: str) -> Any:
        result = self.fit(*more, "-o", "json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def use(self, monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
        monkeypatch.setattr(kinds, "find", lambda _: kind)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = Shell(tmp_path)
    shell.use(monkeypatch, PLAIN)
    return shell


def test_the_names_on_the_command_line_are_those_of_the_models() -> None:
    assert list(fit_command.MODELS) == list(kinds.MODULES)


# ---------------------------------------------------------------- fit


def test_a_report_has_the_fields_that_programs_rely_on(shell: Shell) -> None:
    report = shell.report("--split", "leave-one-out:workload")

    assert report["method"] == "means"
    assert report["samples"] == 5
    assert report["errors"]["all"] == {
        "mae": pytest.approx(2.497, abs=1e-3),
        "mape": pytest.approx(1.862, abs=1e-3),
        "samples": 5,
    }
    assert list(report["errors"]["by_group"]) == ["a", "b", "c"]
    assert report["errors"]["by_group"]["b"]["samples"] == 2
    assert report["coverage_90"] == pytest.approx(0.4)
    assert report["parameters"]["means"] == {"a": 1.1, "b": 4.2, "c": 0.5}


def test_files_may_follow_one_option_or_each_have_its_own(shell: Shell) -> None:
    more = shell.write("more.jsonl", '{"workload": "d", "seconds": 3}\n')

    for arguments in ([more], ["--data", more]):
        assert shell.report(*arguments)["samples"] == 6


def test_without_a_word_whole_groups_are_held_out(shell: Shell) -> None:
    assert shell.report()["split"] == "leave-one-out:workload"


class Terminal(io.StringIO):
    """Standard error of a person."""

    @override
    def isatty(self) -> bool:
        return True


def test_a_person_sees_how_far_it_is_and_a_program_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    split = (np.array([0]), np.array([1]))
    for stream, told in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr("sys.stderr", stream)

        assert len(list(fit_command.shown(iter([split, split])))) == 2
        assert ("holding out" in stream.getvalue()) is told


def test_a_model_may_score_in_its_own_way(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(
        table: Table, splits: Iterable[Split], *, method: str, group: str, split: str
    ) -> Quality:
        assert (method, group, split) == ("means", "workload", "leave-one-out:workload")
        assert len(list(splits)) == 3
        scores = Scores(ks=0.1, integrated_brier=0.2, samples=len(table))
        return Quality(samples=len(table), split=split, errors=scores, coverage=0.9)

    shell.use(monkeypatch, replace(PLAIN, judge=judge))

    report = shell.report("--split", "leave-one-out:workload")

    assert report["errors"]["all"] == {"ks": 0.1, "integrated_brier": 0.2, "samples": 5}
    assert shell.fit().stdout.splitlines()[1] == "held out: leave-one-out:workload"


def test_many_groups_are_dealt_into_folds(shell: Shell) -> None:
    rows = "".join(f"w{number},1,{number + 1}\n" for number in range(12))
    shell.write("samples.csv", "workload,size,seconds\n" + rows)

    assert shell.report()["split"] == "fold:workload"


def test_one_group_alone_is_fitted_and_its_error_is_not_made_up(shell: Shell) -> None:
    shell.write("samples.csv", "workload,seconds\na,1\na,2\n")

    report = shell.report()

    assert report["errors"] == {"all": None, "by_group": {}}
    assert report["coverage_90"] is None
    assert "only one workload" in report["notes"][0]
    assert "how wrong it is is not known" in shell.fit().stdout


def test_what_a_fit_held_out_itself_is_kept(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Errors(mae=0.1, mape=0.01, samples=5)

    def fit(table: Table) -> Model:
        model = fit_means(table)
        return replace(model, quality=replace(model.quality, errors=own, split="its own"))

    shell.use(monkeypatch, replace(PLAIN, methods={"means": fit}))

    assert shell.report()["errors"]["all"]["mae"] == 0.1
    assert shell.report("--split", "none")["errors"]["all"] is None
    assert shell.report("--split", "leave-one-out:workload")["errors"]["all"]["mae"] > 1


def test_the_seed_decides_a_random_split_and_nothing_else_does(shell: Shell) -> None:
    first, again, other = (
        shell.report("--split", "random", "--seed", seed)["errors"] for seed in ("1", "1", "2")
    )

    assert first == again
    assert first["all"]["samples"] == 5
    assert isinstance(other["all"]["mae"], float)


def test_a_model_that_needs_no_groups_is_judged_as_one(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.use(monkeypatch, replace(PLAIN, group="zone"))

    report = shell.report("--split", "random")

    assert list(report["errors"]["by_group"]) == ["all"]
    assert shell.report()["notes"] == ["there is no column zone: nothing was held out"]


def test_folds_go_by_any_column(shell: Shell) -> None:
    rows = "".join(f"{size},{'ab'[size % 2]},{size + 1}\n" for size in range(1, 7))
    shell.write("samples.csv", "size,workload,seconds\n" + rows)

    report = shell.report("--split", "fold:size")

    assert report["split"] == "fold:size"
    assert sorted(report["errors"]["by_group"]) == list("123456")


def test_another_method_is_taken_by_its_name(shell: Shell) -> None:
    assert shell.report("--method", "overall")["method"] == "overall"

    result = shell.fit("--method", "magic")

    assert result.exit_code == 2
    assert "plain has no method magic: means, overall" in result.stderr


def test_people_get_a_table(shell: Shell) -> None:
    result = shell.fit()

    lines = result.stdout.splitlines()
    assert lines[0] == "plain by means, from 5 samples"
    assert lines[1] == "held out: leave-one-out:workload; unit s, mape a fraction"
    assert lines[2] == "inside the 90 % interval: 40.0%"
    assert lines[4].split() == ["group", "mae", "mape", "samples"]
    assert [line.split()[0] for line in lines[5:]] == ["all", "a", "b", "c"]


def test_rows_that_repeat_are_noted(shell: Shell) -> None:
    shell.write("samples.csv", SAMPLES + "b,20,4.4\n")

    result = shell.fit()

    assert "note: 1 of 6 rows repeat another exactly" in result.stderr


def test_warnings_of_a_library_become_notes(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(table: Table) -> Model:
        warnings.warn("did not\n  converge", stacklevel=1)
        return fit_means(table)

    shell.use(monkeypatch, replace(PLAIN, methods={"means": fit}))

    result = shell.fit()

    assert result.stderr.splitlines() == ["note: did not converge"]


@pytest.mark.parametrize(
    "split", ["", "half", "random:workload", "none:x", "leave-one-out", "leave-one-out:", "fold:"]
)
def test_a_split_that_is_none_is_a_mistake_of_usage(shell: Shell, split: str) -> None:
    result = shell.fit("--split", split)

    assert result.exit_code == 2
    assert "random, leave-one-out:COLUMN, fold:COLUMN, none" in result.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("samples", "split", "complaint"),
    [
        pytest.param("workload,seconds\na,0\n", "none", "column seconds, row 2 of {file}: '0'"),
        pytest.param("workload,seconds\na,1\n-,1\n", "none", "column workload, row 3 of {file}"),
        pytest.param("workload,seconds\na,nan\n", "none", "column seconds, row 2 of {file}: 'nan'"),
        pytest.param("workload,size\na,1\n", "none", "no column seconds (s); columns are: work"),
        pytest.param(
            "workload,size,seconds\na,5000,1\n", "none", "column size, row 2 of {file}: more than"
        ),
        pytest.param("workload,seconds\n", "none", "a header and no row"),
        pytest.param(SAMPLES, "fold:workload", "--split fold:workload: 3 groups cannot be dealt"),
        pytest.param(SAMPLES, "leave-one-out:zone", "there is no column zone"),
        pytest.param("workload,seconds\na,1\n", "leave-one-out:workload", "only one group (a)"),
        pytest.param("workload,seconds\na,1\n", "random", "1 rows cannot be dealt into 5 folds"),
    ],
)
def test_bad_samples_end_in_one_line_that_says_where(
    shell: Shell, samples: str, split: str, complaint: str
) -> None:
    file = shell.write("samples.csv", samples)

    result = shell.fit("--split", split, "-o", "json")

    assert result.exit_code == 1
    assert result.stdout == ""
    assert complaint.format(file=file) in result.stderr
    assert file in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "error", [ValueError("a\nb"), ZeroDivisionError("a b"), FloatingPointError("a b")]
)
def test_a_library_that_gives_up_ends_in_one_line(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fit(_: Table) -> Model:
        raise error

    shell.use(monkeypatch, replace(PLAIN, methods={"means": fit}))

    result = shell.fit()

    assert result.exit_code == 1
    assert result.stderr.endswith("no model comes from these samples: a b\n")
    assert len(result.stderr.splitlines()) == 1


def test_a_model_that_is_unknown_is_a_mistake_of_usage(shell: Shell) -> None:
    result = shell.run("fit", "weather", "--data", "x.csv")

    assert result.exit_code == 2
    assert "weather" in result.stderr


# ---------------------------------------------------------------- predict


def stored(shell: Shell) -> str:
    path = str(shell.folder / "model.json")
    assert shell.fit("--out", path).exit_code == 0
    return path


def test_a_stored_model_answers_as_the_one_that_was_fitted(shell: Shell) -> None:
    model = stored(shell)
    asked = shell.write("asked.csv", "workload\na\nz\n")

    result = shell.run("predict", "step-time", "--model", model, "--input", asked, "-o", "json")

    report = json.loads(result.stdout)
    assert (report["target"], report["unit"], report["method"]) == ("seconds", "s", "means")
    first, second = report["predictions"]
    assert first == {"row": 2, "value": 1.1, "low": 0.55, "high": 2.2, "beyond": False}
    assert (second["row"], second["beyond"]) == (3, True)
    assert second["value"] == pytest.approx(2.22)
    assert second["low"] == pytest.approx(2.22 / 4)


def test_the_held_out_error_is_stored_with_the_model(shell: Shell) -> None:
    record = json.loads(Path(stored(shell)).read_text())

    assert record["ebbtide"] == "plain"
    assert record["quality"]["split"] == "leave-one-out:workload"
    assert record["quality"]["coverage_90"] == pytest.approx(0.4)
    assert sorted(path.name for path in shell.folder.iterdir()) == ["model.json", "samples.csv"]


def test_questions_may_come_from_standard_input(shell: Shell) -> None:
    model = stored(shell)

    result = shell.run(
        "predict", "step-time", "--model", model, "--input", "-", "-o", "json",
        stdin='{"workload": "b"}\n',
    )  # fmt: skip

    assert json.loads(result.stdout)["predictions"][0]["value"] == 4.2


def test_answers_for_people_say_what_is_beyond_the_data(shell: Shell) -> None:
    model = stored(shell)
    asked = shell.write("asked.csv", "workload,size\na,3\nz,-\n")

    result = shell.run("predict", "step-time", "--model", model, "--input", asked)

    head, first, second = result.stdout.splitlines()
    assert head.split() == ["row", "workload", "size", "seconds", "low", "high"]
    assert first.split() == ["2", "a", "3", "1.1", "0.55", "2.2"]
    assert second.endswith("beyond the data")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param(b"", "no JSON", id="empty"),
        pytest.param(b"\x80\x04\x95", "no text", id="binary"),
        pytest.param(b"{}", "no field `ebbtide`", id="no metadata"),
        pytest.param(b'{"ebbtide": "plain", "version": 7}', "version 7", id="another version"),
        pytest.param(b'{"ebbtide": "other", "version": 1}', "a other model", id="another kind"),
        pytest.param(pickle.dumps({"ebbtide": "plain"}), "no text|no JSON", id="pickle"),
    ],
)
def test_b088_what_is_no_stored_model_is_refused_in_one_line(
    shell: Shell, content: bytes, complaint: str
) -> None:
    file = shell.write("model.json", content)
    asked = shell.write("asked.csv", "workload\na\n")

    result = shell.run("predict", "step-time", "--model", file, "--input", asked)

    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert any(part in result.stderr for part in complaint.split("|"))
    assert file in result.stderr


def test_b088_a_damaged_model_is_refused(shell: Shell) -> None:
    model = Path(stored(shell))
    model.write_text(model.read_text().replace("1.1", "1.2"))
    asked = shell.write("asked.csv", "workload\na\n")

    result = shell.run("predict", "step-time", "--model", str(model), "--input", asked)

    assert result.exit_code == 1
    assert "the checksum does not fit" in result.stderr


def test_questions_are_checked_like_samples(shell: Shell) -> None:
    model = stored(shell)
    asked = shell.write("asked.csv", "workload,size\na,x\n")

    result = shell.run("predict", "step-time", "--model", model, "--input", asked)

    assert result.exit_code == 1
    assert f"column size, row 2 of {asked}: 'x' is not a number of MB" in result.stderr


def test_an_answer_that_is_no_number_is_an_error_and_never_printed(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = stored(shell)
    asked = shell.write("asked.csv", "workload\na\n")

    def answer(_: PlainModel, table: Table) -> Forecast:
        nothing = np.full(len(table), np.nan)
        flags = np.zeros(len(table), dtype=np.bool_)
        return Forecast(value=nothing, low=nothing, high=nothing, beyond=flags)

    monkeypatch.setattr(PlainModel, "predict", answer)

    result = shell.run("predict", "step-time", "--model", model, "--input", asked, "-o", "json")

    assert result.exit_code == 1
    assert result.stdout == ""
    assert "no sensible answer" in result.stderr
    assert model in result.stderr


def test_a_place_where_nothing_can_be_written_is_named(shell: Shell) -> None:
    result = shell.fit("--out", str(shell.folder / "none" / "model.json"))

    assert result.exit_code == 1
    assert "cannot be written: No such file or directory" in result.stderr


def test_help_imports_no_numerics(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> Kind:
        raise AssertionError

    monkeypatch.setattr(kinds, "find", refuse)

    for command in ("fit", "predict"):
        result = CliRunner().invoke(main, [command, "--help"])
        assert result.exit_code == 0
        assert "MODEL" in result.stdout
