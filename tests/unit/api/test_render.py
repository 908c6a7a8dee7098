import copy
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from ebbtide.api.fields import Schema
from ebbtide.api.kinds import JOB, KINDS, POOL, PROFILE, Kind
from ebbtide.api.render import (
    UnrenderableError,
    render_crd,
    render_files,
    render_schema,
    render_yaml,
    structural_errors,
)

CRDS = Path(__file__).parents[3] / "crds"
LIMIT = 200_000
"""What `kubectl apply` copies into an annotation must stay under 262144 bytes."""


def schema_at(path: str, kind: Kind = JOB) -> dict[str, Any]:
    node = render_schema(kind.model)
    for step in path.split("."):
        node = node["items"] if step == "[]" else node["properties"][step]
    return node


def nodes(node: dict[str, Any], path: str = "$") -> list[tuple[str, dict[str, Any]]]:
    found = [(path, node)]
    for name, part in node.get("properties", {}).items():
        found += nodes(part, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in node:
            found += nodes(node[key], f"{path}.{key}")
    return found


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_rendered_schema_is_structural(kind: Kind) -> None:
    assert structural_errors(render_schema(kind.model)) == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_definition_is_small_enough_to_apply(kind: Kind) -> None:
    assert len(render_yaml(kind)) < LIMIT


def test_the_committed_definitions_are_what_the_models_render() -> None:
    committed = {path.name: path.read_text(encoding="utf-8") for path in CRDS.glob("*.yaml")}

    assert committed == render_files()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_explain_has_a_word_on_every_field(kind: Kind) -> None:
    silent = [
        path
        for path, node in nodes(render_schema(kind.model))
        if not node.get("description") and not path.endswith(("additionalProperties", ".items"))
    ]

    assert silent == ["$.apiVersion", "$.kind", "$.metadata"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_everything_outside_the_template_is_bounded(kind: Kind) -> None:
    unbounded = []
    for path, node in nodes(render_schema(kind.model)):
        if ".template." in path or path in ("$.apiVersion", "$.kind"):
            continue
        if node.get("type") == "string" and not ({"maxLength", "enum", "format"} & set(node)):
            unbounded.append(path)
        if node.get("type") == "array" and "maxItems" not in node:
            unbounded.append(path)
        if "additionalProperties" in node and "maxProperties" not in node:
            unbounded.append(path)
        if node.get("type") == "integer" and not {"minimum", "maximum"} <= set(node):
            unbounded.append(path)

    assert unbounded in ([], ["$.status.observedGeneration"])


def test_only_the_template_keeps_unknown_fields() -> None:
    keeping = [
        path
        for path, node in nodes(render_schema(JOB.model))
        if node.get("x-kubernetes-preserve-unknown-fields")
    ]

    assert keeping
    assert all(path.startswith("$.spec.template") for path in keeping)


def test_defaults_stand_in_the_schema() -> None:
    assert schema_at("spec.backoffLimit")["default"] == 6
    assert schema_at("spec.capacity")["default"] == {"onDemandFloor": 1, "spot": "Allow"}
    assert schema_at("spec.checkpoint.interval")["default"] == "Auto"
    assert schema_at("spec.objective")["default"] == {"minimize": "Cost", "onBudget": "Stop"}
    assert schema_at("status")["default"] == {"observedGeneration": -1}


def test_nothing_below_status_or_template_is_filled_in_by_the_server() -> None:
    filled = [
        path
        for path, node in nodes(render_schema(JOB.model))
        if "default" in node and (".template" in path or path.startswith("$.status."))
    ]

    assert filled == []


@pytest.mark.parametrize("path", ["spec.processesPerWorker", "spec.checkpoint.interval"])
def test_a_number_or_a_word_is_an_int_or_string(path: str) -> None:
    node = schema_at(path)

    assert node["x-kubernetes-int-or-string"] is True
    assert "type" not in node


def test_conditions_are_a_map_by_type() -> None:
    node = schema_at("status.conditions")

    assert node["x-kubernetes-list-type"] == "map"
    assert node["x-kubernetes-list-map-keys"] == ["type"]


def test_every_rule_has_a_message_and_a_reason() -> None:
    rules = [
        rule
        for kind in KINDS
        for _, node in nodes(render_schema(kind.model))
        for rule in node.get("x-kubernetes-validations", ())
    ]

    assert len(rules) > 15
    assert all(rule["message"] and rule["reason"] for rule in rules)
    assert all("\n" not in rule["message"] for rule in rules)


def test_users_find_the_names_they_know() -> None:
    job = render_crd(JOB)["spec"]
    pool = render_crd(POOL)["spec"]

    assert job["scope"] == "Namespaced"
    assert job["names"]["shortNames"] == ["tj"]
    assert job["names"]["categories"] == ["ebbtide"]
    assert pool["scope"] == "Cluster"
    assert pool["names"]["shortNames"] == ["cpool"]


def test_the_number_of_workers_can_be_scaled() -> None:
    version = render_crd(JOB)["spec"]["versions"][0]

    assert version["subresources"]["scale"] == {
        "specReplicasPath": ".spec.elasticPolicy.replicas",
        "statusReplicasPath": ".status.replicas.ready",
        "labelSelectorPath": ".status.selector",
    }
    for path in version["subresources"]["scale"].values():
        assert schema_at(path.lstrip("."))


def test_a_kind_without_a_short_name_has_none() -> None:
    assert "shortNames" not in render_crd(PROFILE)["spec"]["names"]


def test_what_must_be_above_a_limit_is_said_in_the_words_of_openapi() -> None:
    node = schema_at("spec.checkpointBytes", PROFILE)

    assert (node["minimum"], node["exclusiveMinimum"]) == (0, True)


def test_every_column_shows_a_field_that_exists() -> None:
    for kind in KINDS:
        for column in kind.columns:
            if not column.path.startswith(".metadata."):
                assert schema_at(column.path.lstrip("."), kind)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        pytest.param({"type": None}, "no type", id="a node without a type"),
        pytest.param({"$ref": "#/x"}, "$ref", id="a reference"),
        pytest.param({"anyOf": [{"type": "string"}]}, "anyOf", id="alternatives"),
        pytest.param({"additionalProperties": True}, "must be a schema", id="anything goes"),
        pytest.param(
            {"properties": {}, "additionalProperties": {"type": "string"}},
            "exclude each other",
            id="named and unnamed fields",
        ),
        pytest.param(
            {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
            "must be required",
            id="a list map with an optional key",
        ),
    ],
)
def test_what_is_not_structural_is_found(change: dict[str, Any], fault: str) -> None:
    schema = copy.deepcopy(render_schema(POOL.model))
    node = schema["properties"]["spec"]["properties"]["zone"]
    node |= change
    if node["type"] is None:
        del node["type"]

    errors = structural_errors(schema)

    assert len(errors) == 1
    assert errors[0].startswith("$.spec.zone: ")
    assert fault in errors[0]


def test_a_model_that_no_definition_can_express_is_refused() -> None:
    class Either(Schema):
        spec: int | str = Field(description="One of two types.")
        status: str = ""

    class Anything(Schema):
        spec: Any = Field(description="Anything.")
        status: str = ""

    for model in (Either, Anything):
        with pytest.raises(UnrenderableError, match=r"types|no type"):
            render_schema(model)
