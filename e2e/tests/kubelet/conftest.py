"""A bench for the process kubelet: nodes at a real control plane, without a cloud around them."""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from world.api import Api, ApiError
from world.kubelet import HostsFile, Images, Kubelet, NodeShape
from world.kubelet.detection import find_view
from world.kubelet.views import View
from world.network import node_address

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from world.session import Session

TERMINAL = ("Succeeded", "Failed")
LIMIT = 60.0  # seconds; a loaded machine, not an expectation


@dataclass(slots=True)
class Bench:
    """Makes nodes and pods, and waits for what becomes of them."""

    api: Api
    session: Session
    root: Path
    namespace: str
    hosts: HostsFile
    images: Images
    kubelets: list[Kubelet] = field(default_factory=list)
    running: list[asyncio.Task[None]] = field(default_factory=list)
    subnets: list[int] = field(default_factory=list)

    async def close(self) -> None:
        """Power every node off and take it out of the cluster."""
        for kubelet in self.kubelets:
            kubelet.power_off()
        await asyncio.gather(*self.running)
        for number in self.subnets:
            self.session.network.release_subnet(number)
        for name in {kubelet.shape.name for kubelet in self.kubelets}:
            with contextlib.suppress(ApiError):
                await self.api.request("DELETE", f"/api/v1/nodes/{name}")

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    async def boot(self, **shape: Any) -> Kubelet:
        """Start a node and wait until it is ready."""
        number = self.session.network.take_subnet()
        self.subnets.append(number)
        shape = {"name": f"{self.namespace}-{number}", "ip": node_address(number), **shape}
        kubelet = Kubelet(
            api=self.api,
            shape=NodeShape(**shape),
            root=self.root / "nodes",
            serving=self.session.serving,
            images=self.images,
            hosts=self.hosts,
            addresses=self.session.network,
        )
        self.kubelets.append(kubelet)
        self.running.append(asyncio.create_task(kubelet.run()))
        await asyncio.wait_for(kubelet.ready.wait(), LIMIT)
        return kubelet

    async def pod(
        self, node: Kubelet, name: str, command: list[str] | str, **more: Any
    ) -> dict[str, Any]:
        """Create a pod of one container on a node; spec= adds to the pod's spec."""
        words = ["sh", "-c", command] if isinstance(command, str) else command
        container = {"name": "main", "image": "any", "command": words, **more.pop("container", {})}
        spec = {
            "nodeName": node.shape.name,
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "containers": [container],
            **more.pop("spec", {}),
        }
        body = {"metadata": {"name": name, **more.pop("metadata", {})}, "spec": spec}
        return await self.api.request("POST", self.pods, body)

    async def until(
        self, path: str, holds: Callable[[dict[str, Any] | None], Any], limit: float = LIMIT
    ) -> dict[str, Any]:
        """Watch an object until something holds; None stands for an object that is gone."""
        folder, _, name = path.rpartition("/")
        last: dict[str, Any] | None = None
        try:
            async with asyncio.timeout(limit):
                events = self.api.watch(folder, fieldSelector=f"metadata.name={name}")
                async with contextlib.aclosing(events):
                    async for kind, found in events:
                        if kind == "SYNC":
                            last = found[0] if found else None
                        else:
                            last = None if kind == "DELETED" else found
                        if holds(last):
                            return last or {}
        except TimeoutError:
            pytest.fail(f"{path} did not get there within {limit} s; last seen: {last}")
        raise AssertionError

    async def phase(self, name: str, *phases: str, limit: float = LIMIT) -> dict[str, Any]:
        return await self.until(
            f"{self.pods}/{name}", lambda pod: pod and pod["status"]["phase"] in phases, limit
        )

    async def ended(self, name: str, limit: float = LIMIT) -> dict[str, Any]:
        return await self.phase(name, *TERMINAL, limit=limit)

    async def gone(self, name: str, limit: float = LIMIT) -> None:
        await self.until(f"{self.pods}/{name}", lambda pod: pod is None, limit)

    async def log(self, name: str, **params: str) -> str:
        return await self.api.text("GET", f"{self.pods}/{name}/log", None, **params)

    async def log_has(self, name: str, words: str) -> str:
        """Follow a pod's log until some words are in it: the pod says where it is."""
        await self.phase(name, "Running", *TERMINAL)
        seen = ""
        path = f"{self.pods}/{name}/log"
        async with asyncio.timeout(LIMIT):
            async with self.api.session.get(path, params={"follow": "true"}) as answer:
                assert answer.status == 200, await answer.text()
                async for chunk in answer.content.iter_any():
                    seen += chunk.decode()
                    if words in seen:
                        return seen
        pytest.fail(f"the log ended without {words!r}: {seen}")


@pytest.fixture(params=[View.OVERLAY])
def view(request: pytest.FixtureRequest) -> View:
    """How containers see the machine: as asked for, or the best that the machine allows."""
    order = list(View)
    wanted: View = request.param
    return max(wanted, find_view(), key=order.index)


@pytest.fixture
async def bench(
    session: Session, namespace: str, tmp_path: Path, view: View
) -> AsyncIterator[Bench]:
    """A namespace of its own; at the end no kubelet may have met an error it did not expect."""
    async with Api(session.kubeconfig) as api:
        await api.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        hosts = HostsFile(tmp_path / "hosts")
        following = asyncio.create_task(hosts.run(api))
        found = Bench(
            api=api,
            session=session,
            root=tmp_path,
            namespace=namespace,
            hosts=hosts,
            images=Images(view=view),
        )
        account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        await found.until(account, lambda account: account is not None)
        yield found
        await found.close()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await api.request("DELETE", f"/api/v1/namespaces/{namespace}")
        await api.request("DELETE", found.pods, gracePeriodSeconds="0")
        assert [fault for kubelet in found.kubelets for fault in kubelet.faults] == []


@pytest.fixture
async def node(bench: Bench) -> Kubelet:
    return await bench.boot()


def processes(marker: str) -> list[int]:
    """Return the processes of the machine whose command line has a word."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if marker.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return [pid for pid in found if pid != os.getpid()]


@pytest.fixture
def running() -> Callable[..., list[int]]:
    """Finds processes by a word of their command line."""

    def find(marker: str, program: str = "") -> list[int]:
        found = processes(marker)
        if not program:
            return found
        return [pid for pid in found if Path(f"/proc/{pid}/comm").read_text().strip() == program]

    return find


@pytest.fixture
def until_none() -> Callable[[str], Any]:
    """Waits until no process has a word in its command line."""

    async def wait(marker: str) -> None:
        async with asyncio.timeout(LIMIT):
            while processes(marker):  # noqa: ASYNC110 - the kernel tells only the parent
                await asyncio.sleep(0.05)

    return wait
