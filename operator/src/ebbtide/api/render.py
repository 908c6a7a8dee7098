"""
From typed models to custom resource definitions.

What pydantic emits is JSON Schema; the API server takes the narrower *structural* form: no
references, a type on every node, no alternatives that carry types. `structural_errors` checks that
rule by itself, since nothing short of an API server does.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from ebbtide.api.fields import OPEN_MARK, Schema
from ebbtide.api.kinds import KINDS, Kind
from ebbtide.wire.names import GROUP, VERSION

HEADER: Final = "# Rendered by `make crds` from ebbtide.api. Edit the models, not this file.\n"

_KEPT: Final = frozenset({
    "type", "description", "enum", "default", "pattern", "format", "required", "minimum", "maximum",
    "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
    "x-kubernetes-int-or-string", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
})  # fmt: skip
_JUNCTORS: Final = ("anyOf", "oneOf", "allOf", "not")
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_OPEN: Final = "x-kubernetes-preserve-unknown-fields"
_WITHOUT_DEFAULTS: Final = ("status", "template")

Json = dict[str, Any]


class UnrenderableError(TypeError):
    """A model uses something that the API server's schemas have no word for."""


def render_files() -> dict[str, str]:
    """Return every definition as a file's name and its text."""
    return {f"{GROUP}_{kind.plural}.yaml": render_yaml(kind) for kind in KINDS}


def render_yaml(kind: Kind) -> str:
    """Return one definition as YAML."""
    text: str = yaml.safe_dump(
        render_crd(kind), sort_keys=False, width=100, allow_unicode=True, default_flow_style=False
    )
    return HEADER + text


def render_crd(kind: Kind) -> Json:
    """Return one CustomResourceDefinition."""
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}, **_scale(kind)},
        "additionalPrinterColumns": [
            {"name": column.name, "type": column.type, "jsonPath": column.path}
            | ({"priority": 1} if column.wide else {})
            for column in kind.columns
        ],
        "schema": {"openAPIV3Schema": render_schema(kind.model)},
    }
    names = {
        "kind": kind.name,
        "listKind": f"{kind.name}List",
        "plural": kind.plural,
        "singular": kind.name.lower(),
        **({"shortNames": [kind.short]} if kind.short else {}),
        "categories": ["ebbtide"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": names,
            "versions": [version],
        },
    }


def _scale(kind: Kind) -> Json:
    if kind.scale is None:
        return {}
    paths = {
        "specReplicasPath": kind.scale.wanted,
        "statusReplicasPath": kind.scale.there,
        "labelSelectorPath": kind.scale.selector,
    }
    return {"scale": paths}


def render_schema(model: type[Schema]) -> Json:
    """Return the structural schema of one kind."""
    root = model.model_json_schema(by_alias=True)
    schema = _structural(root, root.get("$defs", {}), "")
    status_default = root["properties"]["status"].get("default")
    if status_default is not None:
        schema["properties"]["status"]["default"] = status_default
    standard = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    schema["properties"] = {**standard, "metadata": {"type": "object"}, **schema["properties"]}
    return schema


def _structural(node: Mapping[str, Any], named: Mapping[str, Any], path: str) -> Json:
    """Return one node and all below it in structural form."""
    node = _resolved(node, named)
    if node.get(_INT_OR_STRING):
        kept: Json = {key: node[key] for key in ("description", "default") if key in node}
        return {**kept, _INT_OR_STRING: True}
    unknown = set(node) & {"prefixItems", "patternProperties", "uniqueItems", *_JUNCTORS}
    if unknown or "type" not in node:
        raise UnrenderableError(f"{path or 'the root'}: {sorted(unknown) or 'no type'}")
    out = {key: value for key, value in node.items() if key in _KEPT}
    if "exclusiveMinimum" in node:  # OpenAPI 3.0 spells it as a property of the limit
        out |= {"minimum": node["exclusiveMinimum"], "exclusiveMinimum": True}
    steps = path.split(".")
    if out.get("default", ...) is None or any(part in steps for part in _WITHOUT_DEFAULTS):
        out.pop("default", None)
    if "properties" in node:
        out["properties"] = {
            name: _structural(part, named, f"{path}.{name}")
            for name, part in node["properties"].items()
        }
    if node.get(OPEN_MARK):
        out[_OPEN] = True
    elif isinstance(node.get("additionalProperties"), Mapping):
        out["additionalProperties"] = _structural(node["additionalProperties"], named, f"{path}.*")
    if "items" in node:
        out["items"] = _structural(node["items"], named, f"{path}[]")
    if "x-kubernetes-validations" in node:
        out["x-kubernetes-validations"] = node["x-kubernetes-validations"]
    return out


def _resolved(node: Mapping[str, Any], named: Mapping[str, Any]) -> Json:
    """Return the node itself: references followed, "or null" dropped, `const` spelt as enum."""
    out = dict(node)
    while "$ref" in out or ("anyOf" in out and not out.get(_INT_OR_STRING)):
        if "$ref" in out:
            target = named[out.pop("$ref").rsplit("/", 1)[-1]]
        else:
            branches = [part for part in out.pop("anyOf") if part.get("type") != "null"]
            if len(branches) != 1:
                raise UnrenderableError(f"one of several types: {branches}")
            target = branches[0]
        out = {**target, **out}
    if "const" in out:
        out["enum"] = [out.pop("const")]
    return out


def structural_errors(schema: Mapping[str, Any]) -> list[str]:
    """Return what the API server would refuse in a schema; nothing means it is structural."""
    return list(_walk(schema, "$"))


def _walk(node: Mapping[str, Any], path: str) -> Iterator[str]:
    yield from (f"{path}: {fault}" for fault in _faults(node))
    for name, part in node.get("properties", {}).items():
        yield from _walk(part, f"{path}.{name}")
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        part = node.get(key)
        if isinstance(part, Mapping):
            yield from _walk(part, path + mark)


def _faults(node: Mapping[str, Any]) -> Iterator[str]:
    """Return what is wrong with one node itself."""
    if "type" not in node and not node.get(_INT_OR_STRING) and not node.get(_OPEN):
        yield "no type"
    for word in ("$ref", "$defs", *_JUNCTORS):
        if word in node:
            yield word
    if "properties" in node and "additionalProperties" in node:
        yield "properties and additionalProperties exclude each other"
    for word in ("items", "additionalProperties"):
        if not isinstance(node.get(word, {}), Mapping):
            yield f"{word} must be a schema"
    if node.get("x-kubernetes-list-type") == "map":
        keys = set(node.get("x-kubernetes-list-map-keys", ()))
        if not keys or not keys <= set(node.get("items", {}).get("required", ())):
            yield "the keys of a list map must be required"
