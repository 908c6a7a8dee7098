"""
An API server in memory, behind the port of `ebbtide.cluster`.

It keeps what our code relies on: versions that grow, UIDs, 404, 409 and preconditions, graceful
deletion of pods that have a node, merge patches, applied status, pages, watches with bookmarks. A
test can delay or silence its watches and let chosen requests fail.
"""

import asyncio
import contextlib
import copy
import itertools
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ebbtide.cluster.errors import ClusterError, ConflictError, GoneError, NotFoundError

Json = dict[str, Any]
GRACE_SECONDS = 30
CREATED = "2026-01-01T12:00:00Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a path names."""

    collection: str  # as in /api/v1/namespaces/team/pods
    name: str = ""
    part: str = ""  # the sub-resource

    @property
    def path(self) -> str:
        """Where the object is."""
        return f"{self.collection}/{self.name}"

    @property
    def plural(self) -> str:
        """The kind's name in paths."""
        return self.collection.rsplit("/", 1)[1]

    @property
    def namespace(self) -> str:
        """Its namespace; "" for none, or for all."""
        parts = self.collection.split("/")
        return parts[-2] if "namespaces" in parts else ""


def parse_path(path: str) -> Place:
    """Take a path apart."""
    parts = path.strip("/").split("/")
    depth = 2 if parts[0] == "api" else 3
    if len(parts) > depth + 2 and parts[depth] == "namespaces":
        depth += 2
    root, rest = parts[: depth + 1], parts[depth + 1 :]
    name, part = (*rest, "", "")[:2]
    return Place(collection="/" + "/".join(root), name=name, part=part)


@dataclass(slots=True)
class Watcher:
    """One open watch."""

    place: Place
    lines: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)


@dataclass(slots=True)
class Fault:
    """Requests that shall fail."""

    method: str
    part: str  # of the path
    error: ClusterError
    times: int


class FakeApi:
    """Used within one event loop."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.requests: list[tuple[str, str]] = []
        self.bodies: list[Mapping[str, Any]] = []
        self.delay = 0.0  # seconds by which every watch lags
        self.page = 0  # items of a page; 0: as many as are asked for
        self.gone = False  # the next watch is told that its history is gone
        self._versions = itertools.count(100)
        self._uids = itertools.count(1)
        self._watchers: list[Watcher] = []
        self._history: list[tuple[int, str, bytes]] = []
        self._faults: list[Fault] = []

    # ------------------------------------------------------------ what tests do

    def put(self, path: str, body: Json) -> Json:
        """Store an object as if somebody had written it; watches hear of it."""
        place = parse_path(path)
        known = self.objects.get(path)
        stored = copy.deepcopy(body)
        meta = stored.setdefault("metadata", {})
        meta.setdefault("name", place.name)
        if place.namespace:
            meta.setdefault("namespace", place.namespace)
        meta.setdefault("uid", f"uid-{next(self._uids)}" if known is None else _uid(known))
        meta.setdefault("creationTimestamp", CREATED)
        meta.setdefault("generation", 1)
        meta["resourceVersion"] = str(next(self._versions))
        self.objects[path] = stored
        self._tell("ADDED" if known is None else "MODIFIED", place, stored)
        return stored

    def change(self, path: str, **parts: Any) -> Json:
        """Merge into an object as if somebody had patched it."""
        return self.put(path, _merge(self.objects[path], parts))

    def remove(self, path: str) -> None:
        """Take an object away as if its end had come."""
        found = self.objects.pop(path)
        found["metadata"]["resourceVersion"] = str(next(self._versions))
        self._tell("DELETED", parse_path(path), found)

    def fail(self, method: str, part: str, error: ClusterError, *, times: int = 1) -> None:
        """Let the next requests of this kind fail."""
        self._faults.append(Fault(method, part, error, times))

    def end_watches(self) -> None:
        """Let the server end every watch, as it does now and then."""
        for watcher in self._watchers:
            watcher.lines.put_nowait(None)

    def names(self, collection: str) -> list[str]:
        """The names of what is stored in one collection."""
        return [path.rsplit("/", 1)[1] for path in self.objects if _inside(path, collection)]

    def count(self, method: str, part: str = "") -> int:
        """How many requests of this kind came."""
        return sum(1 for done, path in self.requests if done == method and part in path)

    @property
    def writes(self) -> int:
        """How many requests wrote."""
        return sum(1 for method, _ in self.requests if method not in ("read", "stream"))

    # ------------------------------------------------------------ the port

    async def read(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """Fetch an object or a page of a list."""
        await self._begin("read", path)
        place = parse_path(path)
        if place.name:
            return _encode(self._get(place))
        return _encode(self._list(place, params or {}))

    async def create(self, path: str, body: Mapping[str, Any]) -> bytes:
        """Post one object."""
        await self._begin("create", path, body)
        target = f"{path}/{body['metadata']['name']}"
        if target in self.objects:
            raise ConflictError(f"{target} already exists")
        return _encode(self.put(target, dict(body)))

    async def patch(self, path: str, body: Mapping[str, Any]) -> bytes:
        """Merge into one object."""
        await self._begin("patch", path, body)
        place = parse_path(path)
        self._check(place, body.get("metadata", {}))
        return _encode(self.put(place.path, _merge(self.objects[place.path], body)))

    async def apply(self, path: str, body: Mapping[str, Any], *, manager: str) -> bytes:
        """Apply; of a status, replace it as the one manager of all of it would."""
        await self._begin("apply", path, body)
        if not manager:
            raise ValueError("no field manager")
        place = parse_path(path)
        if place.part:
            self._check(place, body["metadata"])
            stored = {**self.objects[place.path], place.part: body[place.part]}
            return _encode(self.put(place.path, stored))
        if place.path in self.objects:
            self._check(place, body["metadata"])
            return _encode(self.put(place.path, _merge(self.objects[place.path], body)))
        return _encode(self.put(place.path, dict(body)))

    async def replace(self, path: str, body: Mapping[str, Any]) -> bytes:
        """Put one object in place of what is there."""
        await self._begin("replace", path, body)
        place = parse_path(path)
        self._check(place, body["metadata"])
        return _encode(self.put(place.path, dict(body)))

    async def delete(self, path: str, body: Mapping[str, Any]) -> bytes:
        """Delete; a pod with a node keeps its object until its grace is over."""
        await self._begin("delete", path, body)
        place = parse_path(path)
        self._check(place, body.get("preconditions", {}))
        found = self.objects[place.path]
        bound = place.plural == "pods" and found.get("spec", {}).get("nodeName")
        if bound and body.get("gracePeriodSeconds") != 0:
            end = {
                "deletionTimestamp": "2026-01-01T12:00:30Z",
                "deletionGracePeriodSeconds": GRACE_SECONDS,
            }
            return _encode(self.put(place.path, _merge(found, {"metadata": end})))
        answer = _merge(found, {"metadata": {"deletionGracePeriodSeconds": 0}})
        self.remove(place.path)
        return _encode(answer)

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str]
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch."""
        await self._begin("stream", path)
        if self.gone:
            self.gone = False
            raise GoneError("too old resource version")
        watcher = Watcher(parse_path(path))
        for line in self._missed(watcher.place, int(params["resourceVersion"])):
            self._send(watcher, line)
        self._watchers.append(watcher)
        try:
            yield self._follow(watcher)
        finally:
            self._watchers.remove(watcher)

    # ------------------------------------------------------------ inside

    async def _begin(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> None:
        await asyncio.sleep(0)
        self.requests.append((method, path))
        if body is not None:
            self.bodies.append(body)
        for fault in self._faults:
            if fault.times and fault.method == method and fault.part in path:
                fault.times -= 1
                raise fault.error

    def _get(self, place: Place) -> Json:
        if place.path not in self.objects:
            raise NotFoundError(f"{place.path} not found")
        return self.objects[place.path]

    def _check(self, place: Place, wanted: Mapping[str, Any]) -> None:
        meta = self._get(place)["metadata"]
        for name in ("uid", "resourceVersion"):
            if wanted.get(name, meta[name]) != meta[name]:
                raise ConflictError(f"{place.path} is another one now: {name} differs")

    def _list(self, place: Place, params: Mapping[str, str]) -> Json:
        found = [body for path, body in self.objects.items() if _inside(path, place.collection)]
        start = int(params.get("continue", "0"))
        size = self.page or int(params.get("limit", "0")) or len(found)
        rest = start + size < len(found)
        meta = {"resourceVersion": str(next(self._versions))}
        return {
            "metadata": meta | ({"continue": str(start + size)} if rest else {}),
            "items": found[start : start + size],
        }

    def _missed(self, place: Place, version: int) -> Iterator[bytes]:
        for at, path, line in self._history:
            if at > version and _inside(path, place.collection):
                yield line

    def _tell(self, kind: str, place: Place, found: Json) -> None:
        line = _line(kind, found)
        self._history.append((int(_version(found)), place.path, line))
        for watcher in self._watchers:
            if _inside(place.path, watcher.place.collection):
                self._send(watcher, line)

    def _send(self, watcher: Watcher, line: bytes) -> None:
        if self.delay:
            loop = asyncio.get_running_loop()
            loop.call_later(self.delay, watcher.lines.put_nowait, line)
        else:
            watcher.lines.put_nowait(line)

    @staticmethod
    async def _follow(watcher: Watcher) -> AsyncIterator[bytes]:
        while (line := await watcher.lines.get()) is not None:
            yield line


def _inside(path: str, collection: str) -> bool:
    """Tell whether an object belongs to a collection, of one namespace or of all."""
    place, wanted = parse_path(path), parse_path(collection)
    if place.plural != wanted.plural:
        return False
    return not wanted.namespace or wanted.namespace == place.namespace


def _merge(old: Mapping[str, Any], change: Mapping[str, Any]) -> Json:
    merged = dict(old)
    for key, value in change.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            inner = merged.get(key)
            merged[key] = _merge(inner if isinstance(inner, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def _line(kind: str, found: Json) -> bytes:
    return json.dumps({"type": kind, "object": found}).encode() + b"\n"


def _encode(found: Json) -> bytes:
    return json.dumps(found).encode()


def _uid(found: Json) -> str:
    return str(found["metadata"]["uid"])


def _version(found: Json) -> str:
    return str(found["metadata"]["resourceVersion"])
