"""
A job of plain processes on 127.0.0.x: one coordinator, any number of workers, and their losses.

What a cluster would do is done by hand here: starting an attempt, taking a node, sending SIGTERM.
"""

import contextlib
import itertools
import json
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from ebbtide.runtime import reaping
from ebbtide.wire import names
from ebbtide.wire.frames import Decoder, encode, prove
from ebbtide.wire.messages import (
    PROTOCOL,
    Answer,
    Call,
    Challenge,
    Refused,
    Reply,
    Report,
    WorkSpec,
)
from support.nursery import Nursery

PATIENCE: Final = 40.0  # seconds; a loaded machine, not an expectation
_LOOK: Final = 0.02
FAULTS: Final = "EBBTIDE_TESTFAULTS"
FIRED: Final = "EBBTIDE_TESTFIRED"
ANY: Final = -1


class Gone(Exception):  # noqa: N818 -- says what happened
    """The coordinator does not answer now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that a worker does to itself at a step; see `support.faults`."""

    worker: str
    step: int  # applied so far; ANY = whenever it comes by there
    action: str  # kill, stop, terminate, notice, exit, raise or wait
    where: str = "compute"  # before backward(), "applied": after optimizer.step(), or a phase
    local_rank: int = 0
    code: int = 3
    seconds: float = 0.0


@dataclass(slots=True, kw_only=True)
class Worker:
    """One process tree that the nursery started, of a worker for the most part."""

    name: str
    pid: int
    log: Path
    _nursery: Nursery

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._nursery.poll(self.pid)

    def kill(self) -> None:
        """Take the whole worker away at once, as a lost node does."""
        kill_tree(self.pid)

    def stop(self) -> None:
        """Freeze it: it answers nothing, and its connections stay."""
        os.killpg(self.pid, signal.SIGSTOP)

    def terminate(self) -> None:
        """Send SIGTERM to its first process, as a kubelet does."""
        os.kill(self.pid, signal.SIGTERM)

    def said(self) -> str:
        """Everything it printed."""
        return self.log.read_text()

    def await_code(self, patience: float = PATIENCE) -> int:
        """Wait until it ends; return its exit code."""
        await_that(
            lambda: self.code is not None, f"end of {self.name}", self.said, patience=patience
        )
        return int(self.code or 0)


@dataclass(slots=True, kw_only=True)
class Job:
    """One job in a folder of its own."""

    folder: Path
    nursery: Nursery
    work: WorkSpec
    script: Path
    arguments: list[str] = field(default_factory=list)
    launch: tuple[str, ...] = ("--", "python")  # what stands before the script
    patience: float = PATIENCE
    faults: list[Fault] = field(default_factory=list)
    notice_seconds: float = 10.0
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    workers: dict[str, Worker] = field(default_factory=dict)
    servers: dict[str, Worker] = field(default_factory=dict)
    port: int = 0
    metrics_port: int = 0
    coordinator: Worker | None = None
    coordinator_attempt: int = 0
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    # ------------------------------------------------------------ starting and ending

    def start_coordinator(self) -> None:
        """Start the next attempt of the coordinator, on the same port."""
        if not self.port:
            with socket.create_server(("127.0.0.1", 0)) as free:
                self.port = free.getsockname()[1]
            with socket.create_server(("127.0.0.1", 0)) as free:
                self.metrics_port = free.getsockname()[1]
        self.coordinator_attempt += 1
        environment = {
            **_environment(),
            names.ENV_JOB: self.work.job,
            names.ENV_ROLE: names.ROLE_COORDINATOR,
            names.ENV_ATTEMPT: str(self.coordinator_attempt),
            names.ENV_ADDRESS: "127.0.0.1",
            names.ENV_COORDINATOR: f"127.0.0.1:{self.port}",
            names.ENV_TOKEN_FILE: str(self._token_file()),
            names.ENV_WORK: msgspec.json.encode(self.work).decode(),
            names.ENV_METRICS_PORT: str(self.metrics_port),
        }
        log = self.folder / "coordinator.log"
        pid = self.nursery.start(env=environment, arguments=[], log=log)
        self.coordinator = Worker(name="coordinator", pid=pid, log=log, _nursery=self.nursery)

    def kill_coordinator(self) -> None:
        """Take the coordinator away."""
        if self.coordinator is not None:
            self.coordinator.kill()
            self.coordinator.await_code()

    def start_worker(self, index: int, *, attempt: int = 1, **extra: str) -> Worker:
        """Start one attempt of a worker."""
        environment = {**self.environment_of(index, attempt=attempt), **extra}
        name = environment[names.ENV_WORKER]
        log = self.folder / f"{name}.log"
        pid = self.nursery.start(
            env=environment,
            arguments=[*self.launch, str(self.script), *self.arguments],
            log=log,
        )
        worker = Worker(name=name, pid=pid, log=log, _nursery=self.nursery)
        self.workers[name] = worker
        return worker

    def environment_of(self, index: int, *, attempt: int = 1) -> dict[str, str]:
        """Return what one attempt of a worker finds in its environment."""
        name = names.pod_name(job="test", role=names.ROLE_WORKER, index=index, attempt=attempt)
        return {
            **_environment(),
            names.ENV_JOB: self.work.job,
            names.ENV_WORKER: name,
            names.ENV_INDEX: str(index),
            names.ENV_ATTEMPT: str(attempt),
            names.ENV_ADDRESS: f"127.0.{attempt}.{10 + index}",
            names.ENV_COORDINATOR: f"127.0.0.1:{self.port}",
            names.ENV_TOKEN_FILE: str(self._token_file()),
            names.ENV_CHECKPOINT_PATH: str(self.checkpoints),
            names.ENV_NOTICE_SECONDS: str(self.notice_seconds),
            names.ENV_PROCESSES: str(self.work.processes_per_worker),
            FAULTS: msgspec.json.encode([f for f in self.faults if f.worker == name]).decode(),
            FIRED: str(self.folder / "fired"),
        }

    def start_server(self, index: int, *, attempt: int = 1, **extra: str) -> Worker:
        """Start one attempt of a parameter server."""
        name = names.pod_name(job="test", role=names.ROLE_SERVER, index=index, attempt=attempt)
        log = self.folder / f"{name}.log"
        environment = {
            **_environment(),
            names.ENV_JOB: self.work.job,
            names.ENV_WORKER: name,
            names.ENV_ROLE: names.ROLE_SERVER,
            names.ENV_INDEX: str(index),
            names.ENV_ATTEMPT: str(attempt),
            names.ENV_ADDRESS: f"127.0.{attempt}.{100 + index}",
            names.ENV_COORDINATOR: f"127.0.0.1:{self.port}",
            names.ENV_TOKEN_FILE: str(self._token_file()),
            names.ENV_CHECKPOINT_PATH: str(self.checkpoints),
            names.ENV_NOTICE_SECONDS: str(self.notice_seconds),
            **extra,
        }
        pid = self.nursery.start(env=environment, arguments=[], log=log)
        server = Worker(name=name, pid=pid, log=log, _nursery=self.nursery)
        self.servers[name] = server
        return server

    def start(self, *, workers: int) -> list[Worker]:
        """Start the coordinator, all servers and workers 0 ... n - 1."""
        self.start_coordinator()
        for index in range(self.work.servers):
            self.start_server(index)
        return [self.start_worker(index) for index in range(workers)]

    def close(self) -> None:
        """End everything."""
        for process in (*self.workers.values(), *self.servers.values()):
            process.kill()
        self.kill_coordinator()

    # ------------------------------------------------------------ looking

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.folder / "checkpoints"

    def results(self) -> dict[str, dict[str, Any]]:
        """What each process of the script wrote at its end, by worker and local rank."""
        found = {}
        for path in sorted(self.folder.glob("checkpoints/result-*.json")):
            found[path.stem.removeprefix("result-")] = json.loads(path.read_text())
        return found

    def fired(self) -> list[str]:
        """The faults that happened, as `worker:step:action`."""
        path = self.folder / "fired"
        return path.read_text().split() if path.exists() else []

    def call(self, name: str, **fields: Any) -> Report | None:
        """Ask the coordinator, as the operator does."""
        call = Call(id=next(self._numbers), name=name, **fields)
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                return _ask(connection, call, token=self.token.encode())
        except OSError as error:
            raise Gone(str(error)) from error

    def work_with(self, **changes: Any) -> WorkSpec:
        """Return the working fields with some changed."""
        return msgspec.structs.replace(self.work, **changes)

    def report(self) -> Report:
        """Return the coordinator's report."""
        report = self.call("status")
        if report is None:
            raise Gone("no report")
        return report

    def await_report(self, wanted: Callable[[Report], bool], what: str) -> Report:
        """Wait until the report is as wanted."""
        last: Report | None = None

        def look() -> bool:
            nonlocal last
            with contextlib.suppress(Gone):
                last = self.report()
                return wanted(last)
            return False

        self.await_that(look, what, lambda: str(last))
        if last is None:
            raise Gone(what)
        return last

    def await_step(self, step: int) -> Report:
        """Wait until the job has applied a step."""
        return self.await_report(lambda report: report.step >= step, f"step {step}")

    def await_code(self, worker: Worker) -> int:
        """Wait until a worker ends; return its exit code."""
        self.await_that(lambda: worker.code is not None, f"the end of {worker.name}")
        code = worker.code
        if code is None:
            raise RuntimeError(worker.name)
        return code

    def await_done(self) -> dict[str, dict[str, Any]]:
        """Wait until all workers have ended; return what the survivors wrote."""
        for worker in self.workers.values():
            self.await_code(worker)
        return self.results()

    def await_that(
        self, is_so: Callable[[], bool], what: str, more: Callable[[], str] = lambda: ""
    ) -> None:
        """Wait for something; show the logs when it does not come."""
        await_that(is_so, what, lambda: f"{more()}\n{self.logs()}", patience=self.patience)

    def logs(self) -> str:
        """The ends of all logs."""
        parts = [
            f"---- {path.name}\n{path.read_text()[-3000:]}"
            for path in sorted(self.folder.glob("*.log"))
        ]
        return "\n".join(parts)

    def _token_file(self) -> Path:
        path = self.folder / "token"
        if not path.exists():
            path.write_text(self.token)
        return path


def start_script(nursery: Nursery, script: Path, *words: str, log: Path, **extra: str) -> Worker:
    """Start a script that belongs to no job: like any of a worker's, and without a cold start."""
    environment = {
        **_environment(),
        names.ENV_JOB: "tests/alone",
        names.ENV_WORKER: log.stem,
        names.ENV_INDEX: "0",
        names.ENV_ADDRESS: "127.0.0.1",
        names.ENV_COORDINATOR: "127.0.0.1:9",  # nobody listens there
        names.ENV_CHECKPOINT_PATH: str(log.parent),
        **extra,
    }
    pid = nursery.start(env=environment, arguments=["--", "python", str(script), *words], log=log)
    return Worker(name=log.stem, pid=pid, log=log, _nursery=nursery)


def await_that(
    is_so: Callable[[], bool],
    what: str,
    more: Callable[[], str] = lambda: "",
    *,
    patience: float = PATIENCE,
    look: float = _LOOK,
) -> None:
    """Wait for something that no single event tells; says everything when it does not come."""
    until = time.monotonic() + patience
    while not is_so():
        if time.monotonic() > until:
            raise TimeoutError(f"no {what} in {patience} s; {more()}")
        time.sleep(look)


def kill_tree(leader: int) -> None:
    """Kill a process group and whatever its leader started; it may have ended."""
    tree = reaping.descendants(leader)  # an agent gives each script a session of its own
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
    reaping.send(signal.SIGKILL, tree)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("EBBTIDE_")}
    kept["OMP_NUM_THREADS"] = "1"
    kept["PYTHONPATH"] = os.pathsep.join(sys.path)
    return kept


def _ask(connection: socket.socket, call: Call, *, token: bytes) -> Report | None:
    decoder = Decoder(Challenge | Refused | Reply)
    while data := connection.recv(1 << 16):
        for message in decoder.feed(data):
            match message:
                case Challenge():
                    digest = prove(token=token, nonce=message.nonce, side="operator")
                    answer = Answer(protocol=PROTOCOL, side="operator", digest=digest)
                    connection.sendall(encode(answer) + encode(call))
                case Reply(id=call.id, error="", report=report):
                    return report
                case _:
                    raise Gone(str(message))
    raise Gone("the connection ended")
