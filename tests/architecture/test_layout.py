"""Where files may be and how they may be called."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from architecture.tree import PRODUCT, ROOT, SOURCES, files, python_files, relative

VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "manager"}

# With `operator/` or `tests/` first on the path these would hide a module of Python itself.
STANDARD = sys.stdlib_module_names


def test_operator_is_a_folder_and_never_a_package() -> None:
    # With it, any Python started in the root would import it in place of the standard `operator`.
    assert not (ROOT / "operator" / "__init__.py").exists()
    assert not (ROOT / "operator" / "src" / "__init__.py").exists()


def test_operator_holds_nothing_that_pytest_collects() -> None:
    found = [
        relative(path)
        for path in files("operator", suffix=".py")
        if path.name.startswith("test_") or path.name.endswith("_test.py")
        if path.name != "conftest.py"
    ]
    found += [relative(path) for path in files("operator") if path.name == "conftest.py"]

    assert found == []


def test_only_the_package_lies_in_the_source_folder() -> None:
    below = {path.relative_to(ROOT).parts[1:3] for path in files("operator")}

    assert below == {("src", "ebbtide")}


def test_no_module_has_a_name_that_says_nothing() -> None:
    found = [relative(path) for path in python_files() if VAGUE & {path.stem, path.parent.name}]

    assert found == []


def test_no_module_is_named_after_one_of_the_standard_library() -> None:
    found = [
        relative(path)
        for path in files(PRODUCT, "e2e/world", "tests", suffix=".py")
        for name in {path.stem, path.parent.name if path.name == "__init__.py" else path.stem}
        if name in STANDARD and not name.startswith("__")
    ]

    assert found == []


@pytest.mark.parametrize("folder", [PRODUCT, "e2e/world"])
def test_each_package_states_its_rule_in_its_docstring(folder: str) -> None:
    packages = files(folder, suffix="__init__.py")

    assert packages
    missing = [
        relative(path)
        for path in packages
        if not path.read_text(encoding="utf-8").lstrip().startswith('"""')
    ]
    assert missing == []


def test_each_folder_of_product_code_is_a_package() -> None:
    missing = {
        relative(path.parent)
        for path in files(PRODUCT, suffix=".py")
        if not (path.parent / "__init__.py").is_file()
    }

    assert missing == set()


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / PRODUCT / "py.typed").is_file()


def test_tests_lie_where_make_runs_them() -> None:
    folders = ("architecture", "unit", "laws", "handlers", "runtime")
    run = (*(f"tests/{folder}/" for folder in folders), "e2e/tests/")
    stray = [
        relative(path)
        for path in python_files()
        if path.name.startswith("test_") and not relative(path).startswith(run)
    ]

    assert stray == []


def test_every_source_folder_has_sources() -> None:
    empty = [folder for folder in SOURCES if not files(folder, suffix=".py")]

    assert empty == []


def test_the_wheel_holds_the_package_and_its_licence_and_nothing_else(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", tmp_path],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()

    top = {name.split("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"ebbtide"}
    assert "ebbtide/py.typed" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
