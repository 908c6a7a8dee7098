"""
Workers, servers and coordinators at once: a process that has imported everything forks them.

A worker's own PID 1 imports torch for some seconds; a hundred of them in a test run would be most
of it. What is forked here calls the very same `main` of `ebbtide.runtime.worker`, of its `server`,
or of `ebbtide.coordinator`, whose imports are then already done. Requests and answers are lines of
JSON on standard input and output.
"""

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, NoReturn

from ebbtide.coordinator import __main__ as coordinator
from ebbtide.runtime import preload, server, worker
from ebbtide.wire import names


def main() -> None:
    """Answer requests until standard input ends; then end what still runs."""
    preload.preload()
    ended: dict[int, int] = {}
    running: set[int] = set()
    print(json.dumps({"ready": os.getpid()}), flush=True)  # noqa: T201 -- the protocol
    for line in sys.stdin:
        request = json.loads(line)
        if "start" in request:
            pid = _start(request["start"])
            running.add(pid)
            answer: dict[str, Any] = {"pid": pid}
        else:
            _reap(running, ended)
            answer = {"code": ended.get(request["poll"])}
        print(json.dumps(answer), flush=True)  # noqa: T201 -- the protocol
    for pid in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    os._exit(0)  # taking all of torch apart again would take seconds


def _reap(running: set[int], ended: dict[int, int]) -> None:
    for pid in list(running):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            running.discard(pid)
            ended[pid] = os.waitstatus_to_exitcode(status)


def _start(request: dict[str, Any]) -> int:
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(request, tell)
    os.close(tell)
    os.read(ready, 1)  # from here on it leads a group that can be killed
    os.close(ready)
    return pid


def _become(request: dict[str, Any], tell: int) -> NoReturn:
    """Be a worker's PID 1, or one of its ranks: both come out of `main`."""
    os.setsid()
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.write(tell, b".")
    os.close(tell)
    os.environ.clear()
    os.environ.update(request["env"])
    tempfile.tempdir = None  # to be looked up in the environment of now
    code = 1
    try:
        match os.environ.get(names.ENV_ROLE):
            case names.ROLE_COORDINATOR:
                code = coordinator.main()
            case names.ROLE_SERVER:
                code = server.main(os.environ)
            case _:
                code = worker.main(request["arguments"])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:  # noqa: BLE001 -- the interpreter's own last resort, which a fork lacks
        sys.last_value = error
        traceback.print_exc()
    atexit._run_exitfuncs()  # as the interpreter does, before it takes itself apart
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class Nursery:
    """The test's side of it."""

    def __init__(self, log: Path) -> None:
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "support.nursery"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
            )
        self._receive()

    def start(self, *, env: dict[str, str], arguments: list[str], log: Path) -> int:
        """Fork a worker and return its process id; it leads a session of its own."""
        request = {"env": env, "arguments": arguments, "log": str(log)}
        return int(self._ask({"start": request})["pid"])

    def poll(self, pid: int) -> int | None:
        """Return a worker's exit code, negative for a signal, or None while it runs."""
        code = self._ask({"poll": pid})["code"]
        return None if code is None else int(code)

    def close(self) -> None:
        """End it and all that it started."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait(timeout=40)

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._process.stdin is None:
            raise RuntimeError("the nursery is closed")
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._receive()

    def _receive(self) -> dict[str, Any]:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise RuntimeError(f"the nursery ended with {self._process.poll()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


if __name__ == "__main__":
    main()
