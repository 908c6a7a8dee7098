"""Models by name, and nothing heavy imported before one of them is asked for."""

import subprocess
import sys
from pathlib import Path

import pytest

from architecture.tree import PRODUCT, ROOT
from ebbtide.core.models import kinds
from support.plain_model import PLAIN

CORE = ROOT / PRODUCT / "core"
HEAVY = ("sklearn", "xgboost", "scipy")


def test_the_first_method_is_the_default() -> None:
    assert PLAIN.default == "means"


def test_the_names_are_those_of_the_command_line() -> None:
    assert list(kinds.MODULES) == [
        "step-time",
        "all-reduce",
        "iteration",
        "parameter-server",
        "checkpoint",
        "lifetime",
    ]
    with pytest.raises(KeyError):
        kinds.find("weather")


@pytest.mark.parametrize("name", kinds.MODULES)
def test_each_kind_is_found_and_whole(name: str) -> None:
    kind = kinds.find(name)

    assert kind.name == name
    assert kind.default in kind.methods
    assert kind.group
    assert kind.target.name not in {column.name for column in kind.inputs}


def test_importing_the_core_loads_no_library_that_only_a_fit_needs() -> None:
    modules = sorted(
        ".".join(path.relative_to(ROOT / "operator/src").with_suffix("").parts)
        for path in CORE.rglob("*.py")
        if path.name != "__init__.py"
    )
    program = (
        f"import sys, importlib\nfor name in {modules!r}: importlib.import_module(name)\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )

    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path(ROOT) / "operator" / "src")},
    )

    assert len(modules) > 20
    assert result.stdout.strip() == "[]"
