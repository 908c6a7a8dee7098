"""From the rendered schemas to the reference that people read: every field in one table."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ebbtide.api.kinds import KINDS, Kind
from ebbtide.api.render import render_schema
from ebbtide.wire.names import GROUP, VERSION

HEADER: Final = f"""# The kinds of `{GROUP}/{VERSION}`

Rendered by `make crds` from the models of `ebbtide.api`.
`kubectl explain` says the same.
A field in bold must be given; `[]` is an entry of a list, `*` any key of a map.
"""
_CLOSED: Final = ("spec.template",)
"""What is below belongs to Kubernetes."""

Json = Mapping[str, Any]


def render_reference() -> str:
    """Return the page as Markdown."""
    return "\n".join([HEADER, *(part for kind in KINDS for part in _kind(kind))])


def _kind(kind: Kind) -> Iterator[str]:
    schema = render_schema(kind.model)
    scope = "namespaced" if kind.namespaced else "cluster-scoped"
    short = f", short name `{kind.short}`" if kind.short else ""
    yield f"## {kind.name}\n\n{schema['description']}\nIt is {scope}{short}.\n"
    for part in ("spec", "status"):
        node = schema["properties"][part]
        yield f"### {part} of {kind.name}\n"
        yield "| field | type | default | meaning |\n|---|---|---|---|"
        yield from (_row(*found) for found in _fields(node, part))
        yield ""
    rules = list(_rules(schema, ""))
    if rules:
        yield f"### Rules of {kind.name}\n\n| where | what must hold |\n|---|---|"
        yield from (f"| `{path}` | {message} |" for path, message in rules)
        yield ""


def _fields(node: Json, path: str) -> Iterator[tuple[str, Json, bool]]:
    """Return every field below a node, with its path and whether it must be given."""
    for name, part in node.get("properties", {}).items():
        here = f"{path}.{name}"
        yield here, part, name in node.get("required", ())
        if here not in _CLOSED:
            inner, mark = _inner(part)
            yield from _fields(inner, here + mark)


def _inner(node: Json) -> tuple[Json, str]:
    """Return the part that has the fields of a node, and how its path goes on."""
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(node.get(key), Mapping):
            return node[key], mark
    return node, ""


def _row(path: str, node: Json, required: bool) -> str:  # noqa: FBT001 -- spread from a tuple
    name = f"**`{path}`**" if required else f"`{path}`"
    default = f"`{json.dumps(node['default'])}`" if "default" in node else ""
    return f"| {name} | {_type(node)} | {default} | {node.get('description', '')} |"


def _type(node: Json) -> str:
    if node.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"])
    if node["type"] == "array":
        return f"list of {_type(node['items'])}"
    if isinstance(node.get("additionalProperties"), Mapping):
        return f"map of {_type(node['additionalProperties'])}"
    return str(node.get("format") or node["type"])


def _rules(node: Json, path: str) -> Iterator[tuple[str, str]]:
    """Return what fields must fulfil together: the field to blame, and the words."""
    for rule in node.get("x-kubernetes-validations", ()):
        yield (path + rule.get("fieldPath", "")).lstrip(".") or "metadata.name", rule["message"]
    for name, part in node.get("properties", {}).items():
        inner, mark = _inner(part)
        yield from _rules(inner, f"{path}.{name}{mark}")
