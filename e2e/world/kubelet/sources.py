"""Where the environment and the files of a pod come from: ConfigMaps, Secrets, the pod itself."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from world.api import ApiError
from world.kubelet import quantity
from world.kubelet.errors import NotYetError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from world.kubelet.context import PodContext

Json: TypeAlias = dict[str, Any]

NOT_FOUND: Final = 404
SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
REFERENCE: Final = re.compile(r"\$\$|\$\(([^()]*)\)")


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace $(NAME) by its value, leave unknown names alone, and make $$ a single $."""

    def replacement(match: re.Match[str]) -> str:
        if match[1] is None:
            return "$"
        return values.get(match[1], match[0])

    return REFERENCE.sub(replacement, text)


@dataclass(frozen=True, slots=True)
class Sources:
    """Reads what a pod refers to."""

    context: PodContext

    async def data(self, kind: str, reference: Json, *, name: str = "") -> dict[str, bytes]:
        """Return the entries of a ConfigMap or Secret; none when it is missing and optional."""
        name = name or reference["name"]
        path = f"/api/v1/namespaces/{self.context.namespace}/{kind}/{name}"
        try:
            found = await self.context.link.request("GET", path)
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            if reference.get("optional"):
                return {}
            message = f'{kind.removesuffix("s")} "{name}" not found'
            raise NotYetError(message) from error
        if kind == "secrets":
            return _decoded(found.get("data"))
        plain = {key: text.encode() for key, text in (found.get("data") or {}).items()}
        return {**plain, **_decoded(found.get("binaryData"))}

    async def entry(self, kind: str, reference: Json) -> str | None:
        """Return one entry of a ConfigMap or Secret; None when it is missing and optional."""
        found = await self.data(kind, reference)
        if reference["key"] in found:
            return found[reference["key"]].decode()
        if reference.get("optional"):
            return None
        message = f"couldn't find key {reference['key']} in {kind} {reference['name']}"
        raise NotYetError(message)

    def field(self, path: str) -> str:
        """Return a field of the pod, as the downward API gives it."""
        context = self.context
        meta = context.pod["metadata"]
        key = SUBSCRIPT.fullmatch(path)
        if key is not None:
            return str((meta.get(key[1]) or {}).get(key[2], ""))
        if path in {"metadata.labels", "metadata.annotations"}:
            entries = meta.get(path.partition(".")[2]) or {}
            return "\n".join(f"{k}={json.dumps(entries[k])}" for k in sorted(entries))
        fields = {
            "metadata.name": context.name,
            "metadata.namespace": context.namespace,
            "metadata.uid": context.uid,
            "spec.nodeName": context.spec["nodeName"],
            "spec.serviceAccountName": context.spec.get("serviceAccountName", ""),
            "status.hostIP": context.host_ip,
            "status.hostIPs": context.host_ip,
            "status.podIP": context.ip,
            "status.podIPs": context.ip,
        }
        if path not in fields:
            message = f"the downward API has no field {path}"
            raise UnsupportedError(message)
        return str(fields[path])

    def resource(self, reference: Json, container: Json | None = None) -> str:
        """Return a limit or request, else what the node has, in units of the divisor."""
        if container is None:
            named = reference["containerName"]
            every = [*self.context.spec.get("initContainers", []), *self.context.spec["containers"]]
            container = next(found for found in every if found["name"] == named)
        section, _, resource = reference["resource"].partition(".")
        found = (container.get("resources", {}).get(section) or {}).get(resource)
        if found is None:
            found = self.context.capacity.get(resource, "0") if section == "limits" else "0"
        return quantity.divide(str(found), str(reference.get("divisor") or "1"))

    async def token(self, projection: Json) -> str:
        """Have the API server make a token for the pod's service account."""
        context = self.context
        spec: Json = {
            "expirationSeconds": projection.get("expirationSeconds", 3600),
            "boundObjectRef": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": context.name,
                "uid": context.uid,
            },
        }
        if projection.get("audience"):
            spec["audiences"] = [projection["audience"]]
        account = context.spec.get("serviceAccountName") or "default"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"/api/v1/namespaces/{context.namespace}/serviceaccounts/{account}/token"
        try:
            found = await context.link.request("POST", path, body)
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            message = f"failed to fetch token: {error.message}"
            raise NotYetError(message) from error
        return str(found["status"]["token"])


def _decoded(entries: Mapping[str, str] | None) -> dict[str, bytes]:
    return {key: base64.b64decode(text) for key, text in (entries or {}).items()}
