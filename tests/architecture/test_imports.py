"""Which package may import which: the contracts are in pyproject.toml."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from architecture.tree import PRODUCT, ROOT

LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")


def lint_imports(source: Path) -> subprocess.CompletedProcess[str]:
    # The working directory is the first entry of the path, so a copy can be linted in place.
    return subprocess.run(
        [LINT_IMPORTS, "--no-cache", "--no-logo", ROOT / "pyproject.toml"],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_contract_is_kept() -> None:
    result = lint_imports(ROOT / "operator" / "src")

    assert result.returncode == 0, result.stdout + result.stderr


def test_every_package_is_under_a_contract() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = config["tool"]["importlinter"]["contracts"][0]["layers"]
    named = {name.strip(" ()") for layer in layers for name in layer.split("|")}
    packages = {f"ebbtide.{path.parent.name}" for path in (ROOT / PRODUCT).glob("*/__init__.py")}

    assert packages == named


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        pytest.param("core/values/__init__.py", "import time", "read no clock", id="clock"),
        pytest.param("wire/__init__.py", "import ebbtide.core", "points downwards", id="upwards"),
        pytest.param("coordinator/__init__.py", "import torch", "torch only", id="torch"),
        pytest.param("runtime/__init__.py", "import kubernetes", "no Kubernetes", id="client"),
        pytest.param("cluster/__init__.py", "import kopf", "kopf is a detail", id="kopf"),
        pytest.param(
            "manifests/__init__.py", "import ebbtide.runtime", "neither trainer", id="trainer"
        ),
        pytest.param(
            "core/values/__init__.py", "import ebbtide.core.step", "Inside the core", id="core"
        ),
    ],
)
def test_a_broken_contract_is_reported(
    tmp_path: Path, module: str, line: str, contract: str
) -> None:
    copy_package(tmp_path)
    target = tmp_path / "ebbtide" / module
    target.write_text(target.read_text(encoding="utf-8") + f"\n{line}\n", encoding="utf-8")

    result = lint_imports(tmp_path)

    broken = [entry for entry in result.stdout.splitlines() if entry.endswith("BROKEN")]
    assert result.returncode != 0
    assert any(contract in entry for entry in broken), result.stdout + result.stderr


def copy_package(target: Path) -> None:
    for source in sorted((ROOT / PRODUCT).rglob("*.py")):
        path = target / source.relative_to(ROOT / PRODUCT.rpartition("/")[0])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.read_bytes())
