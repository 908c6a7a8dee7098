"""From the lines of a watch into the caches."""

from typing import Any

import msgspec

from ebbtide.cluster.cache import NodeCache, PodCache
from ebbtide.cluster.reading import CachedNode, CachedPod, read_node, read_pod
from ebbtide.cluster.shapes import NodeShape, PodShape

DELETED = "DELETED"


class PodSink:
    """Pods of one namespace, or ("") of all."""

    def __init__(self, cache: PodCache, *, namespace: str = "") -> None:
        self._cache = cache
        self._namespace = namespace
        self._decoder: msgspec.json.Decoder[PodShape] = msgspec.json.Decoder(PodShape)

    def read(self, item: msgspec.Raw) -> CachedPod | None:
        """Return the slim form of one pod; None for one whose labels are not of our making."""
        return read_pod(self._decoder.decode(item))

    def listed(self, items: list[Any], version: int) -> None:
        """Take every pod that there is."""
        pods = [item for item in items if item is not None]
        self._cache.replace(pods, namespace=self._namespace, version=version)

    def seen(self, kind: str, found: msgspec.Raw) -> str:
        """Take one pod's news."""
        shape = self._decoder.decode(found)
        pod = read_pod(shape)
        if kind == DELETED:
            meta = shape.metadata
            self._cache.drop(meta.namespace, meta.name, meta.uid, version=meta.version, last=pod)
        elif pod is not None:
            self._cache.put(pod)
        return shape.metadata.resource_version

    def refused(self) -> bool:
        """Without pods there is nothing that could be decided."""
        return False


class NodeSink:
    """All nodes."""

    def __init__(self, cache: NodeCache) -> None:
        self._cache = cache
        self._decoder: msgspec.json.Decoder[NodeShape] = msgspec.json.Decoder(NodeShape)

    def read(self, item: msgspec.Raw) -> CachedNode:
        """Return the slim form of one node."""
        return read_node(self._decoder.decode(item))

    def listed(self, items: list[Any], version: int) -> None:
        """Take every node that there is."""
        del version
        self._cache.readable = True
        self._cache.replace(items)

    def seen(self, kind: str, found: msgspec.Raw) -> str:
        """Take one node's news."""
        shape = self._decoder.decode(found)
        if kind == DELETED:
            self._cache.drop(shape.metadata.name, shape.metadata.uid)
        else:
            self._cache.put(read_node(shape))
        return shape.metadata.resource_version

    def refused(self) -> bool:
        """Without the right to read nodes, losses are seen on pods alone."""
        self._cache.readable = False
        return True
