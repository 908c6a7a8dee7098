"""The pods and nodes of the cluster as the autoscaler sees them: two watches and a bell."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from world.api import Api, Json


class View:
    """A picture that follows the API server; `changed` is set at each change."""

    def __init__(self, api: Api) -> None:
        """Start without a picture."""
        self.pods: dict[str, Json] = {}
        self.nodes: dict[str, Json] = {}
        self.changed = asyncio.Event()
        self._api = api

    async def follow(self) -> None:
        """Keep the picture up to date until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow("/api/v1/pods", self.pods))
            tasks.create_task(self._follow("/api/v1/nodes", self.nodes))

    async def _follow(self, path: str, objects: dict[str, Json]) -> None:
        async for kind, found in self._api.watch(path):
            _apply(found, objects, gone=kind == "DELETED")
            self.changed.set()

    def pods_of(self, node: str) -> list[Json]:
        """Return the pods bound to a node, ended ones included."""
        return [pod for pod in self.pods.values() if pod["spec"].get("nodeName") == node]


def _apply(found: Json | list[Json], objects: dict[str, Json], *, gone: bool) -> None:
    if isinstance(found, list):  # the whole list, at first and after a gap
        objects.clear()
        objects.update({item["metadata"]["uid"]: item for item in found})
    elif gone:
        objects.pop(found["metadata"]["uid"], None)
    else:
        objects[found["metadata"]["uid"]] = found
