"""The operator as a process against a real API server, without nodes: its pods stay pending."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import pytest
import yaml

from ebbtide.api.kinds import KINDS
from ebbtide.api.render import render_crd
from world.api import Api, ApiError
from world.build import die_with_parent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

Json = dict[str, Any]
APPLY: Final = "application/apply-patch+yaml"
CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OURS: Final = "/apis/ebbtide.dev/v1alpha1"
PATIENCE: Final = 60.0  # seconds; a loaded machine, not an expectation
POLL: Final = 0.1
NOT_FOUND: Final = 404


class Operator:
    """One operator process."""

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.log = folder / "operator.log"
        self._config = folder / "operator.yaml"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str, settings: Mapping[str, Any] | None = None) -> None:
        content = {"coordinatorImage": "ebbtide", **(settings or {})}
        self._config.write_text(yaml.safe_dump(content), encoding="utf-8")
        command = [
            *die_with_parent(), sys.executable, "-m", "ebbtide.controller", "--verbose",
            f"--config={self._config}", f"--kubeconfig={self.kubeconfig}", "--listen=127.0.0.1",
            "--health-port=0", "--metrics-port=0", *(options or ("--no-lease",)),
        ]  # fmt: skip
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def send(self, number: int) -> None:
        assert self.process is not None
        os.kill(self.process.pid, number)

    async def wait(self, seconds: float = 10.0) -> int:
        assert self.process is not None
        return await asyncio.to_thread(self.process.wait, seconds)

    async def stop(self) -> int:
        self.send(signal.SIGTERM)
        return await self.wait()

    async def kill(self) -> None:
        self.send(signal.SIGKILL)
        await self.wait()

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    async def says(self, words: str, seconds: float = PATIENCE) -> None:
        await until(lambda: words in self.text(), what=words, seconds=seconds, log=self.text)

    def with_token(self, token: str) -> Path:
        """Write a kubeconfig that logs in with a token instead."""
        config = yaml.safe_load(self.kubeconfig.read_text(encoding="utf-8"))
        config["users"][0]["user"] = {"token": token}
        path = self.log.with_name("by-token.kubeconfig")
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        return path

    async def get(self, page: str) -> tuple[int, str]:
        """Ask the operator itself."""
        await self.says("health on port")
        found = re.search(r"health on port (\d+), metrics on port (\d+)", self.text())
        assert found is not None
        port = found.group(2 if page == "/metrics" else 1)
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}{page}") as response,
        ):
            return response.status, await response.text()


class Bench:
    """A namespace with pools of its own, and what happens in it."""

    def __init__(self, api: Api, namespace: str, operator: Operator) -> None:
        self.api = api
        self.namespace = namespace
        self.operator = operator
        self.jobs = f"{OURS}/namespaces/{namespace}/trainingjobs"
        self.core = f"/api/v1/namespaces/{namespace}"
        self.pool = f"{namespace}-spot"[-63:].strip("-")

    async def add_job(self, name: str = "digits", *, workers: int = 3, **spec: Any) -> Json:
        body = {
            "apiVersion": "ebbtide.dev/v1alpha1",
            "kind": "TrainingJob",
            "metadata": {"name": name},
            "spec": {
                "work": {"steps": 600, "globalBatchSize": 64},
                "planMode": "Manual",
                "elasticPolicy": {"minReplicas": 1, "maxReplicas": workers, "replicas": workers},
                "capacity": {"pools": [self.pool], "onDemandFloor": 0, "spot": "Only"},
                "template": {
                    "spec": {
                        "containers": [
                            {
                                "name": "trainer",
                                "image": "registry.example/digits:1",
                                "command": ["python", "train.py"],
                                "resources": {"limits": {"nvidia.com/gpu": 1}},
                                "volumeMounts": [{"name": "data", "mountPath": "/checkpoints"}],
                            }
                        ],
                        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}],
                    }
                },
                **spec,
            },
        }
        return await self.api.request("POST", self.jobs, body)

    async def job(self, name: str = "digits") -> Json | None:
        try:
            return await self.api.request("GET", f"{self.jobs}/{name}")
        except ApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    async def pods(self) -> dict[str, Json]:
        found = await self.api.request("GET", f"{self.core}/pods")
        return {pod["metadata"]["name"]: pod for pod in found["items"]}

    async def events(self) -> list[Json]:
        found = await self.api.request("GET", f"{self.core}/events")
        events: list[Json] = found["items"]
        return [event for event in events if event["involvedObject"]["kind"] == "TrainingJob"]

    async def until_pods(self, number: int, *, seconds: float = PATIENCE) -> dict[str, Json]:
        found: dict[str, Json] = {}
        async with self._limit(f"{number} pods", seconds, lambda: f"{sorted(found)}"):
            while len(found := await self.pods()) != number:  # noqa: ASYNC110 -- a plain poll
                await asyncio.sleep(POLL)
        return found

    async def until_condition(
        self, kind: str, status: str = "True", *, name: str = "digits", seconds: float = PATIENCE
    ) -> Json:
        job: Json | None = None
        async with self._limit(f"{kind}={status}", seconds, lambda: json.dumps(job)):
            while True:
                job = await self.job(name)
                for found in (job or {}).get("status", {}).get("conditions") or []:
                    if (found["type"], found["status"]) == (kind, status):
                        condition: Json = found
                        return condition
                await asyncio.sleep(POLL)

    @contextlib.asynccontextmanager
    async def _limit(
        self, what: str, seconds: float, seen: Callable[[], str]
    ) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            pytest.fail(f"no {what} in {seconds} s; {seen()}\n{self.operator.text()[-4000:]}")


async def until(
    check: Callable[[], bool], *, what: str, seconds: float, log: Callable[[], str]
) -> None:
    try:
        async with asyncio.timeout(seconds):
            while not check():  # noqa: ASYNC110 -- a log file gives no sign
                await asyncio.sleep(POLL)
    except TimeoutError:
        pytest.fail(f"not within {seconds} s: {what}\n{log()[-4000:]}")


@pytest.fixture
async def server(kubeconfig: Path) -> AsyncIterator[Api]:
    """The API server with our kinds."""
    async with Api(kubeconfig) as api:
        for kind in KINDS:
            crd = render_crd(kind)
            path = f"{CRDS}/{crd['metadata']['name']}"
            await api.request(
                "PATCH", path, crd, content_type=APPLY, fieldManager="tests", force="true"
            )
            while True:
                conditions = (await api.request("GET", path)).get("status", {}).get("conditions")
                if any(c["type"] == "Established" for c in conditions or []):
                    break
                await asyncio.sleep(POLL)
        yield api


@pytest.fixture
async def operator(tmp_path: Path, kubeconfig: Path) -> AsyncIterator[Operator]:
    """An operator that the test starts."""
    found = Operator(tmp_path, kubeconfig)
    yield found
    if found.process is not None and found.process.poll() is None:
        await found.kill()


@pytest.fixture
async def bench(server: Api, namespace: str, operator: Operator) -> AsyncIterator[Bench]:
    """A namespace with a spot pool that has no node."""
    found = Bench(server, namespace, operator)
    await server.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    with contextlib.suppress(ApiError):  # its controller may be faster
        await server.request("POST", accounts, {"metadata": {"name": "default"}})
    pool = {
        "apiVersion": "ebbtide.dev/v1alpha1",
        "kind": "CapacityPool",
        "metadata": {"name": found.pool},
        "spec": {
            "nodeSelector": {"example.com/pool": found.pool},
            "market": "Spot",
            "maxNodes": 100,
            "gpu": {"type": "V100", "count": 1},
            "price": {"usdPerNodeHour": "0.92"},
        },
    }
    await server.request("POST", f"{OURS}/capacitypools", pool)
    yield found
    await server.request("DELETE", f"{OURS}/capacitypools/{found.pool}")
    jobs = await server.request("GET", found.jobs)
    for job in jobs["items"]:
        await server.request("DELETE", f"{found.jobs}/{job['metadata']['name']}")
    await server.request("DELETE", f"/api/v1/namespaces/{namespace}")


@pytest.fixture
async def proxy(kubeconfig: Path, tmp_path: Path) -> AsyncIterator[Proxy]:
    """A way to the API server that can be cut and silenced."""
    config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    cluster = config["clusters"][0]["cluster"]
    host, _, port = cluster["server"].removeprefix("https://").partition(":")
    found = Proxy(host, int(port))
    await found.start()
    cluster["server"] = f"https://127.0.0.1:{found.port}"
    found.kubeconfig = tmp_path / "by-proxy.kubeconfig"
    found.kubeconfig.touch(mode=0o600)
    found.kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
    yield found
    await found.stop()


class Proxy:
    """Forwards TCP; `silent` swallows what comes from the server, `down` refuses everything."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._swallowing: set[asyncio.StreamWriter] = set()
        self._open: set[asyncio.StreamWriter] = set()
        self.kubeconfig = Path()
        self.port = 0

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Refuse new connections and cut all there are."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._open):
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def silence(self) -> None:
        """From now on nothing comes through on the connections that are open; new ones work."""
        self._swallowing |= self._open

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, back}
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await asyncio.gather(self._copy(reader, back), self._copy(there, writer))
        finally:
            self._tasks.discard(task)
            self._open -= {writer, back}
            writer.transport.abort()
            back.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if writer not in self._swallowing:
                    writer.write(data)
                    await writer.drain()
            if writer not in self._swallowing:
                writer.close()
