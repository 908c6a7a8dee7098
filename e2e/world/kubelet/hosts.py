"""
The hosts files of pods: what a cluster's DNS would answer about Services.

Every pod has a file of its own, for short names depend on its namespace and its own name is in it.
A file is bind-mounted over /etc/hosts, so it is rewritten in place and never replaced.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from world.kubelet.context import CLUSTER_DOMAIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from world.api import Api

Json: TypeAlias = dict[str, Any]

SLICES: Final = "/apis/discovery.k8s.io/v1/endpointslices"
SERVICE_LABEL: Final = "kubernetes.io/service-name"
LOOPBACK: Final = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Endpoint:
    """An address behind a Service."""

    namespace: str
    service: str
    ip: str
    hostname: str = ""

    def names(self, namespace: str) -> list[str]:
        """Return the names of this address, the longest first, as a pod of a namespace may say."""
        names = []
        for first in (f"{self.hostname}.{self.service}", self.service):
            if first.startswith("."):
                continue
            zone = f"{first}.{self.namespace}"
            names += [f"{zone}.svc.{CLUSTER_DOMAIN}", f"{zone}.svc", zone]
            if namespace == self.namespace:
                names.append(first)
        return names


def endpoints_of(piece: Json) -> list[Endpoint]:
    """Return the ready addresses of an EndpointSlice; with publishNotReadyAddresses all are."""
    meta = piece["metadata"]
    service = (meta.get("labels") or {}).get(SERVICE_LABEL)
    if not service:
        return []
    return [
        Endpoint(
            namespace=meta["namespace"],
            service=service,
            ip=address,
            hostname=endpoint.get("hostname") or "",
        )
        for endpoint in piece.get("endpoints") or []
        if (endpoint.get("conditions") or {}).get("ready") is not False
        for address in endpoint["addresses"]
    ]


def render(endpoints: Iterable[Endpoint], *, namespace: str, ip: str, names: Iterable[str]) -> str:
    """Return a hosts file: loopback, the pod itself, then every Service it can name."""
    own = f"{ip} {' '.join(names)}\n"
    others = (f"{e.ip} {' '.join(e.names(namespace))}\n" for e in sorted(set(endpoints)))
    return f"{LOOPBACK}{own}{''.join(others)}"


def rewrite(path: Path, text: str) -> None:
    """
    Write a file in place and in one go; a shorter text is filled up with blank lines.

    Nobody ever reads the file empty or cut short, as after a truncation.
    """
    with path.open("r+b") as file:
        length = os.fstat(file.fileno()).st_size
        os.pwrite(file.fileno(), text.encode().ljust(length, b"\n"), 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    path: Path
    namespace: str
    ip: str
    names: tuple[str, ...]


class HostsFile:
    """Keeps the hosts file of every pod up to date."""

    def __init__(self, folder: Path) -> None:
        """Keep the files in a folder, which is made when it is missing."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._readers: dict[str, _Reader] = {}
        self._pieces: dict[str, list[Endpoint]] = {}

    async def run(self, api: Api) -> None:
        """Follow the EndpointSlices of the cluster until cancelled."""
        async for kind, found in api.watch(SLICES):
            if kind == "SYNC":
                self._pieces = {piece["metadata"]["uid"]: endpoints_of(piece) for piece in found}
            elif kind == "DELETED":
                self._pieces.pop(found["metadata"]["uid"], None)
            else:
                self._pieces[found["metadata"]["uid"]] = endpoints_of(found)
            self._rewrite_all()

    def attach(self, uid: str, *, namespace: str, ip: str, names: tuple[str, ...]) -> Path:
        """Make the file of a pod and keep it up to date from now on."""
        path = self._folder / f"{uid}.hosts"
        path.touch()
        self._readers[uid] = _Reader(path=path, namespace=namespace, ip=ip, names=names)
        self._rewrite(self._readers[uid])
        return path

    def detach(self, uid: str) -> None:
        """Remove the file of a pod."""
        reader = self._readers.pop(uid, None)
        if reader is not None:
            reader.path.unlink(missing_ok=True)

    def addresses(self) -> Mapping[tuple[str, str], list[str]]:
        """Return the addresses of each Service, by namespace and name."""
        found = defaultdict(list)
        for piece in self._pieces.values():
            for endpoint in piece:
                found[endpoint.namespace, endpoint.service].append(endpoint.ip)
        return found

    def _rewrite_all(self) -> None:
        for reader in self._readers.values():
            self._rewrite(reader)

    def _rewrite(self, reader: _Reader) -> None:
        every = [endpoint for piece in self._pieces.values() for endpoint in piece]
        text = render(every, namespace=reader.namespace, ip=reader.ip, names=reader.names)
        rewrite(reader.path, text)
