"""What the documents show must be so."""

import ast
import re
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from architecture.tree import ROOT, relative, tracked
from ebbtide.api.convert import parse_job, parse_pool, parse_profile
from ebbtide.core.values.job import Job
from ebbtide.data.listed_prices import embedded_price

DOCUMENTS = [pytest.param(path, id=relative(path)) for path in tracked() if path.suffix == ".md"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = re.findall(r"^([a-z0-9-]+):.*?## ", MAKEFILE, flags=re.MULTILINE)

FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```", flags=re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
TWO_SENTENCES = re.compile(r"[a-z)`*][.!?][)*]* +[A-Z]")


def blocks(path: Path, language: str) -> list[str]:
    found = FENCE.findall(path.read_text(encoding="utf-8"))
    return [textwrap.dedent(body) for name, body in found if name == language]


def prose(path: Path) -> list[tuple[int, str]]:
    """Lines with their numbers, without code and tables."""
    lines: list[tuple[int, str]] = []
    is_code = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code and not line.startswith(("|", "    ")):
            lines.append((number, line))
    return lines


@pytest.mark.parametrize("path", DOCUMENTS)
def test_links_lead_somewhere(path: Path) -> None:
    targets = LINK.findall(path.read_text(encoding="utf-8"))

    missing = [target for target in targets if not (path.parent / target).exists()]
    assert missing == []


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_sentence_has_its_own_line(path: Path) -> None:
    found = [f"{number}: {line}" for number, line in prose(path) if TWO_SENTENCES.search(line)]

    assert found == []


@pytest.mark.parametrize("path", DOCUMENTS)
def test_python_examples_are_python(path: Path) -> None:
    for block in blocks(path, "python"):
        ast.parse(block)


@pytest.mark.parametrize("path", DOCUMENTS)
def test_yaml_examples_are_valid(path: Path) -> None:
    for block in blocks(path, "yaml"):
        for manifest in yaml.safe_load_all(block):
            check_manifest(manifest)


def check_manifest(manifest: dict[str, Any]) -> None:
    """As the operator reads it; what only the API server knows is for the end-to-end tests."""
    match manifest["kind"]:
        case "TrainingJob":
            job = parse_job(manifest)
            assert isinstance(job, Job), job
        case "CapacityPool":
            assert parse_pool(manifest, embedded_price).name == manifest["metadata"]["name"]
        case "WorkloadProfile":
            assert parse_profile(manifest).workload
        case kind:
            pytest.fail(f"nothing checks examples of kind {kind} yet")


@pytest.mark.parametrize("path", DOCUMENTS)
def test_make_targets_that_are_named_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    named = set(re.findall(r"(?:`|^)make ([a-z0-9-]+)", text, flags=re.MULTILINE))
    assert named - set(TARGETS) == set()


def test_no_line_that_make_runs_even_in_a_dry_run_starts_tests() -> None:
    # A dry run executes every line that names $(MAKE); one that starts tests would start itself.
    lines = MAKEFILE.replace("\\\n", " ").splitlines()

    found = [
        line for line in lines if "$(MAKE)" in line and ("$(TESTS)" in line or "python" in line)
    ]
    assert found == []


@pytest.mark.parametrize("target", TARGETS)
def test_each_documented_target_can_be_planned(target: str) -> None:
    result = subprocess.run(
        ["make", "--dry-run", target],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )

    assert result.returncode == 0, result.stderr


def test_ci_calls_the_commands_of_the_readme() -> None:
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    for command in ("make demo", "make test"):
        assert command in ci
        assert command in readme
