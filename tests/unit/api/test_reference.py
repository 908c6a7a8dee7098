from pathlib import Path

import pytest

from ebbtide.api.reference import render_reference

PAGE = Path(__file__).parents[3] / "docs" / "api.md"


def row(path: str) -> str:
    marks = (f"| `{path}` |", f"| **`{path}`** |")
    return next(line for line in render_reference().splitlines() if line.startswith(marks))


def test_the_committed_reference_is_what_the_models_render() -> None:
    assert PAGE.read_text(encoding="utf-8") == render_reference()


@pytest.mark.parametrize(
    ("path", "cells"),
    [
        pytest.param("spec.work.steps", ["**", "| integer |"], id="a field that must be given"),
        pytest.param(
            "spec.planMode", ["`Auto`, `DryRun`, `Manual`", '`"Auto"`'], id="a word of several"
        ),
        pytest.param("spec.objective.deadline", ["date-time"], id="a moment"),
        pytest.param("spec.checkpoint.interval", ["integer or string"], id="a number or a word"),
        pytest.param("spec.maxLocalBatch", ["map of integer"], id="a map"),
        pytest.param("spec.capacity.pools", ["list of string"], id="a list"),
        pytest.param("status.plan.pools[].replicas", ["Workers there."], id="in a list"),
        pytest.param("status.attempts.*.judged", ["integer"], id="in a map"),
    ],
)
def test_a_field_has_its_type_and_default(path: str, cells: list[str]) -> None:
    assert all(cell in row(path) for cell in cells), row(path)


def test_the_pod_of_a_worker_is_left_to_kubernetes() -> None:
    page = render_reference()

    assert "`spec.template`" in page
    assert "`spec.template.spec" not in page.split("### Rules of TrainingJob")[0]


def test_rules_name_the_field_and_what_must_hold() -> None:
    page = render_reference()

    assert (
        "| `spec.elasticPolicy.minReplicas` | minReplicas must not be above maxReplicas |" in page
    )
    assert "| `metadata.name` | metadata.name must start with a letter" in page
