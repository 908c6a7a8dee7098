"""What provider agents do to nodes through the API: taint, cordon, drain, delete."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from world.api import JSON, MERGE, Api, ApiError, Json
from world.cloud.fit import occupies

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NOT_FOUND: Final = 404
CONFLICT: Final = 409
TOO_MANY: Final = 429
ATTEMPTS: Final = 20


def node_path(name: str) -> str:
    """Return the path of a node."""
    return f"/api/v1/nodes/{name}"


async def add_taint(api: Api, node: str, taint: Mapping[str, str]) -> None:
    """Put a taint on a node, once."""

    def change(spec: Json) -> Json:
        others = [item for item in spec.get("taints", []) if not _same(item, taint)]
        return {"taints": [*others, dict(taint)]}

    await _change_spec(api, node, change)


async def remove_taint(api: Api, node: str, taint: Mapping[str, str]) -> None:
    """Take a taint off a node, if it is there."""

    def change(spec: Json) -> Json:
        return {"taints": [item for item in spec.get("taints", []) if not _same(item, taint)]}

    await _change_spec(api, node, change)


async def cordon(api: Api, node: str, *, on: bool = True) -> None:
    """Mark a node unschedulable, or schedulable again."""
    await api.request("PATCH", node_path(node), {"spec": {"unschedulable": on}}, content_type=MERGE)


async def delete_node(api: Api, node: str) -> None:
    """Delete the Node object, as the cloud controller does when the machine is gone."""
    try:
        await api.request("DELETE", node_path(node))
    except ApiError as error:
        if error.status != NOT_FOUND:
            raise


async def drain(api: Api, node: str, *, retry_seconds: float) -> None:
    """Evict every pod of a node by the eviction API; a budget's 429 is honoured and retried."""
    pods = await api.request("GET", "/api/v1/pods", fieldSelector=f"spec.nodeName={node}")
    async with asyncio.TaskGroup() as tasks:
        for pod in pods.get("items") or []:
            if occupies(pod) and not _is_daemon(pod):
                tasks.create_task(_evict(api, pod["metadata"], retry_seconds))


async def _evict(api: Api, metadata: Json, retry_seconds: float) -> None:
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/eviction"
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        "deleteOptions": {"preconditions": {"uid": metadata["uid"]}},
    }
    while True:
        try:
            await api.request("POST", path, body, content_type=JSON)
        except ApiError as error:
            if error.status in {NOT_FOUND, CONFLICT}:  # gone, or another pod of this name
                return
            if error.status != TOO_MANY:
                raise
            await asyncio.sleep(retry_seconds)
        else:
            return


async def _change_spec(api: Api, node: str, change: Callable[[Json], Json]) -> None:
    """Read, change and write a node's spec; taints are one list, so nobody's may be lost."""
    for _ in range(ATTEMPTS):
        found = await api.request("GET", node_path(node))
        version = found["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": version}, "spec": change(found["spec"])}
        try:
            await api.request("PATCH", node_path(node), body, content_type=MERGE)
        except ApiError as error:
            if error.status != CONFLICT:
                raise
        else:
            return
    message = f"node {node} changed at each of {ATTEMPTS} attempts to write its spec"
    raise TimeoutError(message)


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return (one["key"], one["effect"]) == (other["key"], other["effect"])


def _is_daemon(pod: Json) -> bool:
    owners = pod["metadata"].get("ownerReferences", [])
    return any(owner["kind"] in {"DaemonSet", "Node"} for owner in owners)
