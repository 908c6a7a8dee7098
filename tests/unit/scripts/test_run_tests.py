import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"scripts_{name}", SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


run_tests = load("run_tests")
floors = load("coverage_floors")


def write_report(path: Path, *suites: str) -> Path:
    path.write_text(f"<testsuites>{''.join(suites)}</testsuites>", encoding="utf-8")
    return path


def test_adds_up_the_suites_of_a_report(tmp_path: Path) -> None:
    report = write_report(
        tmp_path / "unit.xml",
        '<testsuite tests="10" failures="1" errors="2" skipped="3"/>',
        '<testsuite tests="5" failures="0" errors="0" skipped="0"/>',
    )

    assert str(run_tests.tally_of(report)) == "9 passed, 3 failed, 3 skipped"


def test_a_report_that_was_never_written_is_a_failure(tmp_path: Path) -> None:
    assert run_tests.tally_of(tmp_path / "none.xml").num_failed == 1


def test_a_torn_report_is_a_failure(tmp_path: Path) -> None:
    torn = tmp_path / "torn.xml"
    torn.write_text("<testsuites><testsuite", encoding="utf-8")

    assert run_tests.tally_of(torn).num_failed == 1


@pytest.mark.parametrize(
    ("status", "num_failed", "expected"),
    [
        pytest.param(0, 0, 0, id="all passed"),
        pytest.param(1, 2, 2, id="tests failed"),
        pytest.param(5, 0, 1, id="nothing was collected"),
        pytest.param(-9, 0, 1, id="pytest itself died"),
    ],
)
def test_a_bad_exit_always_shows(status: int, num_failed: int, expected: int) -> None:
    tally = run_tests.Tally(num_failed=num_failed)

    assert run_tests.judged(tally, status=status).num_failed == expected


def test_a_part_without_tests_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    part = run_tests.Part(name="laws", folder="tests/laws")

    tally = run_tests.run_part(part, coverage=False, extra=[])

    assert tally.num_failed == 1
    assert "tests/laws holds no test" in capsys.readouterr().out


def make_part(folder: Path, *, prepare: tuple[str, ...]) -> object:
    (folder / "tests").mkdir()
    (folder / "tests" / "test_one.py").write_text("def test_one(): pass", encoding="utf-8")
    return run_tests.Part(name="one", folder="tests", prepare=prepare)


def test_a_part_that_cannot_be_prepared_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    monkeypatch.setattr(run_tests, "REPORTS", tmp_path)
    monkeypatch.delenv("EBBTIDE_CLUSTER", raising=False)

    tally = run_tests.run_part(make_part(tmp_path, prepare=("false",)), coverage=False, extra=[])

    assert tally.num_failed == 1
    assert "could not be prepared" in capsys.readouterr().out


def test_only_what_needs_no_nodes_runs_on_a_cluster_of_the_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EBBTIDE_CLUSTER", "current")

    (part,) = run_tests.selected(["e2e"])

    assert part.folder == "e2e/tests/api"
    assert part.prepare == ()


def test_all_runs_every_part_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EBBTIDE_CLUSTER", raising=False)

    names = [part.name for part in run_tests.selected(["all"])]

    assert names == [part.name for part in run_tests.PARTS]
    assert names[-1] == "e2e"


def test_no_two_parts_run_the_same_tests_and_none_is_left_out(tmp_path: Path) -> None:
    by_name = {part.name: part for part in run_tests.PARTS}
    folders = {part.folder for part in run_tests.PARTS}

    assert "timed" in by_name["timed"].options
    assert "not timed" in by_name["runtime"].options
    assert {f"--ignore={by_name[name].folder}" for name in ("jobs", "plans")} < set(
        by_name["e2e"].options
    )
    found = {
        f"tests/{path.name}" for path in (run_tests.ROOT / "tests").iterdir() if has_tests(path)
    }
    assert found <= folders


def has_tests(folder: Path) -> bool:
    return folder.is_dir() and any(folder.rglob("test_*.py"))


def test_what_only_computes_gives_way() -> None:
    by_name = {part.name: part for part in run_tests.PARTS}

    giving_way = [
        name
        for name, part in by_name.items()
        if run_tests.command_for(part, coverage=False, extra=[])[0] == "nice"
    ]

    assert giving_way == ["checks", "architecture", "unit", "laws", "handlers"]


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        pytest.param("true", "1 passed, 0 failed, 0 skipped"),
        pytest.param("false", "0 passed, 1 failed, 0 skipped"),
    ],
)
def test_a_part_without_tests_of_its_own_counts_as_one(program: str, expected: str) -> None:
    part = run_tests.Part(name="checks", command=(program,), yields=True)

    assert str(run_tests.run_part(part, coverage=False, extra=[])) == expected


def test_the_slowest_tests_are_named_those_of_a_first_try_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_tests, "REPORTS", tmp_path)
    write_report(tmp_path / "e2e.first.xml", '<testcase name="test_long" time="61.26"/>')
    write_report(tmp_path / "e2e.xml", '<testcase name="test_short" time="0.5"/>')
    (tmp_path / "laws.xml").write_text("<torn", encoding="utf-8")
    parts = [run_tests.Part(name=name, folder="tests") for name in ("e2e", "laws", "none")]

    assert run_tests.slowest(parts) == [
        "    61.3 s  e2e.first: test_long",
        "     0.5 s  e2e: test_short",
    ]


def make_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> Any:
    monkeypatch.setattr(run_tests, "REPORTS", tmp_path)
    part = run_tests.Part(name="jobs", folder="tests", beside=True)
    return run_tests.Beside(part, command=(sys.executable, "-c", program))


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        pytest.param("print('3 passed, 0 failed, 1 skipped')", "3 passed, 0 failed, 1 skipped"),
        pytest.param(
            "print('3 passed, 1 failed, 0 skipped'); raise SystemExit(1)",
            "3 passed, 1 failed, 0 skipped",
        ),
        pytest.param("print('nothing of the kind')", "0 passed, 1 failed, 0 skipped"),
        pytest.param(
            "print('3 passed, 0 failed, 0 skipped'); raise SystemExit(1)",
            "3 passed, 1 failed, 0 skipped",
            id="a failure that no test shows",
        ),
    ],
)
def test_what_ran_beside_is_shown_and_counted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    program: str,
    expected: str,
) -> None:
    tally = make_beside(tmp_path, monkeypatch, program).finish()

    assert str(tally) == expected
    assert "passed" in capsys.readouterr().out or "nothing" in program


def test_what_runs_beside_is_interrupted_when_the_others_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "print('1 passed', flush=True)\nimport time\ntime.sleep(1000)"
    beside = make_beside(tmp_path, monkeypatch, program)
    while "passed" not in (tmp_path / "jobs.log").read_text():
        pass

    beside.stop()

    assert "KeyboardInterrupt" in (tmp_path / "jobs.log").read_text()
    beside.stop()  # and not twice


def test_a_part_beside_others_is_added_after_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    order = []

    class FakeBeside:
        seconds = 7.4

        def __init__(self, part: Any) -> None:
            order.append(f"begun {part.name}")

        def finish(self) -> Any:
            order.append("finished")
            return run_tests.Tally(num_passed=2)

        def stop(self) -> None:
            order.append("stopped")

    def run_part(part: Any, **_: Any) -> Any:
        order.append(part.name)
        return run_tests.Tally(num_passed=1)

    monkeypatch.setattr(run_tests, "Beside", FakeBeside)
    monkeypatch.setattr(run_tests, "run_part", run_part)
    plans = run_tests.Part(name="plans", folder="tests", beside=True)
    unit = run_tests.Part(name="unit", folder="tests")
    jobs = run_tests.Part(name="jobs", folder="tests", beside=True, waits=True)
    other = run_tests.Part(name="e2e", folder="tests")

    total = run_tests.run_parts([plans, unit, jobs, other], coverage=False, extra=[])

    assert order == [
        *("begun plans", "unit", "finished"),
        *("begun jobs", "e2e", "finished"),
        *("stopped", "stopped"),
    ]
    assert total.num_passed == 6
    out = capsys.readouterr().out
    assert "  plans         2 passed, 0 failed, 0 skipped  (7 s)\n" in out
    assert out.endswith("6 passed, 0 failed, 0 skipped\n")


def file_report(*, covered: int, statements: int) -> dict[str, dict[str, int]]:
    return {
        "summary": {
            "covered_lines": covered,
            "num_statements": statements,
            "covered_branches": 0,
            "num_branches": 0,
        }
    }


def test_coverage_is_summed_by_package() -> None:
    report = {
        "files": {
            "operator/src/ebbtide/core/step.py": file_report(covered=9, statements=10),
            "operator/src/ebbtide/core/values/job.py": file_report(covered=30, statements=30),
            "operator/src/ebbtide/__init__.py": file_report(covered=1, statements=1),
            "elsewhere.py": file_report(covered=0, statements=5),
        }
    }

    packages = floors.by_package(report)

    assert set(packages) == {"core", "."}
    assert packages["core"].percent == pytest.approx(97.5)


def test_decisions_have_the_higher_floor() -> None:
    assert floors.floor_of("core") > floors.floor_of("controller")


def test_an_empty_package_is_covered() -> None:
    assert floors.Covered().percent == 100.0


FLAKY = """
import pathlib


def test_steady():
    pass


def test_only_the_second_time():
    mark = pathlib.Path(__file__).with_name("tried")
    tried = mark.exists()
    mark.touch()
    assert tried


def test_broken():
    assert {broken}
"""


@pytest.mark.parametrize(("broken", "num_failed"), [("True", 0), ("False", 2)])
def test_what_fails_twice_fails_and_what_passes_then_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    broken: str,
    num_failed: int,
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_one.py").write_text(FLAKY.format(broken=broken), encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    monkeypatch.setattr(run_tests, "REPORTS", tmp_path)
    part = run_tests.Part(name="e2e", folder="tests", second_chance=True)

    tally = run_tests.run_part(part, coverage=False, extra=[])

    assert tally.num_failed == num_failed
    assert ("UNSTEADY" in capsys.readouterr().out) is (num_failed == 0)
