"""A real coordinator process and fake workers, on loopback addresses of their own."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from ebbtide.cluster.coordinator_client import CoordinatorClient, CoordinatorUnreachable
from ebbtide.wire import names
from ebbtide.wire.messages import Report, WorkSpec

REPOSITORY: Final = Path(__file__).resolve().parents[2]
TOKEN: Final = b"a made-up token"
LIMIT_SECONDS: Final = 20.0


def make_work(**changes: Any) -> WorkSpec:
    """A small job that does not end by itself."""
    fields: dict[str, Any] = {
        "job": "default/fake",
        "steps": 1_000_000,
        "global_batch_size": 64,
        "min_replicas": 1,
        "desired": 2,
        "coordinator_grace": 30.0,
    }
    return WorkSpec(**fields | changes)


class FakeProcess:
    """One process of a worker, and what it said."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.events: list[dict[str, Any]] = []
        self._news = asyncio.Condition()
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        output = self.process.stdout
        while output is not None and (line := await output.readline()):
            async with self._news:
                self.events.append(json.loads(line))
                self._news.notify_all()
        async with self._news:
            self._news.notify_all()

    def said(self, event: str) -> list[dict[str, Any]]:
        """All events of this name so far."""
        return [each for each in self.events if each["event"] == event]

    async def until(self, event: str, *, count: int = 1) -> dict[str, Any]:
        """Wait for the so-many-th event of this name."""
        async with asyncio.timeout(LIMIT_SECONDS), self._news:
            await self._news.wait_for(lambda: len(self.said(event)) >= count)
        return self.said(event)[count - 1]

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    async def end(self) -> int:
        """Wait for its exit code."""
        async with asyncio.timeout(LIMIT_SECONDS):
            code = await self.process.wait()
            await self._reader
        return code

    async def kill(self) -> None:
        """Kill it if it still runs, and reap it."""
        if self.process.returncode is None:
            self.process.kill()
        await self.end()


class FakeJob:
    """Starts and ends everything; `report` asks the coordinator like the operator does."""

    def __init__(self, folder: Path, work: WorkSpec) -> None:
        self.work = work
        self.checkpoint = folder / "checkpoint"
        self._token = folder / "token"
        self._token.write_bytes(TOKEN)
        self._port = find_free_port()
        self._attempt = 0
        self.coordinator: asyncio.subprocess.Process | None = None
        self.client = CoordinatorClient("127.0.0.1", self._port, TOKEN)
        self._processes: list[FakeProcess] = []

    @property
    def address(self) -> str:
        """Where the coordinator listens."""
        return f"127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        await self.start_coordinator()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.client.close()
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.process.send_signal(signal.SIGCONT)
            await process.kill()
        await self.kill_coordinator()

    async def start_coordinator(self) -> None:
        """Start the next attempt and wait until it answers."""
        self._attempt += 1
        environment = {
            names.ENV_ATTEMPT: str(self._attempt),
            names.ENV_WORK: msgspec.json.encode(self.work).decode(),
            names.ENV_TOKEN_FILE: str(self._token),
            names.ENV_ADDRESS: "127.0.0.1",
            names.ENV_COORDINATOR: self.address,
        }
        self.coordinator = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "ebbtide.coordinator",
            env=os.environ | environment | {"PYTHONPATH": _python_path()},
        )
        await self.until(lambda report: report.attempt == self._attempt)

    async def kill_coordinator(self) -> None:
        """Kill it without a word."""
        if self.coordinator is None:
            return
        if self.coordinator.returncode is None:
            self.coordinator.kill()
        await self.coordinator.wait()
        self.coordinator = None

    async def stop_coordinator(self) -> int:
        """Ask it to end, as the kubelet does; return its exit code."""
        coordinator, self.coordinator = self.coordinator, None
        if coordinator is None:
            raise RuntimeError("there is no coordinator to stop")
        coordinator.terminate()
        async with asyncio.timeout(LIMIT_SECONDS):
            return await coordinator.wait()

    async def start(self, index: int, *, attempt: int = 1, **options: Any) -> FakeProcess:
        """Start one process of a worker."""
        identity = {
            "worker": name_of(index, attempt=attempt),
            "index": index,
            "attempt": attempt,
            "local_rank": 0,
            "processes": 1,
            "address": f"127.0.0.{10 + index}",
            "store_port": 1,
        }
        identity |= options.pop("identity", {})
        settings = {
            "identity": identity,
            "coordinator": self.address,
            "token": TOKEN.decode(),
            "checkpoint": str(self.checkpoint),
        }
        process = FakeProcess(
            await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "support.fake_worker",
                json.dumps(settings | options),
                stdout=asyncio.subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": _python_path()},
            )
        )
        self._processes.append(process)
        return process

    async def report(self) -> Report:
        """What the coordinator tells now."""
        report = await self.client.call("status")
        if report is None:
            raise CoordinatorUnreachable("no report came")
        return report

    async def until(self, is_so: Callable[[Report], bool]) -> Report:
        """Follow the reports until one is as wanted; progress alone is looked at twice a second."""
        async with asyncio.timeout(LIMIT_SECONDS):
            since = -1
            while True:
                report = await self._ask(since=since, wait=0.5)
                if report is not None and is_so(report):
                    return report
                since = -1 if report is None else report.version

    async def _ask(self, *, since: int, wait: float) -> Report | None:
        try:
            return await self.client.call("status", since=since, wait=wait)
        except CoordinatorUnreachable:
            await asyncio.sleep(0.02)
            return None


def name_of(index: int, *, attempt: int = 1) -> str:
    """Name the pod of one attempt."""
    return names.pod_name(job="fake", role=names.ROLE_WORKER, index=index, attempt=attempt)


def find_free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _python_path() -> str:
    return os.pathsep.join([str(REPOSITORY / "operator" / "src"), str(REPOSITORY / "tests")])
