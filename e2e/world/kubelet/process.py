"""One run of a container as a process of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from world.kubelet import sandbox as sandboxes
from world.kubelet.status import KILLED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from world.kubelet.sandbox import Sandbox
    from world.kubelet.warm import Forked, Warm

START_ERROR: Final = 128
# util-linux 2.38 says this, and exits 1, when the child of unshare got SIGKILL.
KILLED_WORDS: Final = b"unshare: sigprocmask unblock failed: Invalid argument\n"
LONGEST_REPORT: Final = 4096


class Process:
    """
    A container's command in namespaces of its own.

    Start it on the thread that lives as long as the world: the kernel kills the container when
    the thread that started it ends.
    """

    def __init__(
        self,
        command: Sequence[str],
        sandbox: Sandbox,
        *,
        environment: Mapping[str, str],
        log: Path,
        warm: Warm | None = None,
    ) -> None:
        """Start, by `warm` if it can; `begin` and `end` tell how it goes on."""
        loop = asyncio.get_running_loop()
        self._begun: asyncio.Future[str] = loop.create_future()
        self._ended: asyncio.Future[int] = loop.create_future()
        self._loop = loop
        self._log = log
        self._to_terminate = False
        self._reading, writing = os.pipe()
        try:
            self._popen = _spawn(
                command, sandbox, environment=environment, log=log, report=writing, warm=warm
            )
        finally:
            os.close(writing)
        self._watching = os.pidfd_open(self._popen.pid)
        loop.add_reader(self._reading, self._hear)
        loop.add_reader(self._watching, self._end)

    @property
    def pid(self) -> int:
        """The process outside the container; PID 1 is its only child."""
        return self._popen.pid

    async def begin(self) -> str:
        """Return nothing as soon as the command runs, else why it never did."""
        return await asyncio.shield(self._begun)

    async def end(self) -> int:
        """Return the exit code when no process of the container is left."""
        return await asyncio.shield(self._ended)

    def first_pid(self) -> int | None:
        """Return PID 1 of the container, by the number that it has outside."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        try:
            found = children.read_text(encoding="ascii").split()
        except OSError:
            return None
        return int(found[0]) if found else None

    def terminate(self) -> None:
        """Send SIGTERM to PID 1, once the command runs: the shell before it would ignore it."""
        if self._begun.done():
            self._signal(signal.SIGTERM)
        else:
            self._to_terminate = True

    def kill(self) -> None:
        """End every process of the container; not its group, for some leave that."""
        if not self._ended.done() and not self._signal(signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                self._popen.kill()

    def _signal(self, number: signal.Signals) -> bool:
        pid = None if self._ended.done() else self.first_pid()
        if pid is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        return True

    def _hear(self) -> None:
        """Read what the script says about the set-up; at its end nothing more can come."""
        self._loop.remove_reader(self._reading)
        said = os.read(self._reading, LONGEST_REPORT).decode(errors="replace").strip()
        os.close(self._reading)
        if said == sandboxes.BEGUN:
            said = ""
        elif not said:
            said = "the container ended while it was set up"
        if not self._begun.done():
            self._begun.set_result(said)
        if self._to_terminate:
            self._signal(signal.SIGTERM)

    def _end(self) -> None:
        self._loop.remove_reader(self._watching)
        os.close(self._watching)
        code = self._popen.wait()
        if code < 0:
            code = 128 - code
        elif code == 1 and _strip(self._log, KILLED_WORDS):
            code = KILLED
        if not self._ended.done():
            self._ended.set_result(code)


def _spawn(
    command: Sequence[str],
    sandbox: Sandbox,
    *,
    environment: Mapping[str, str],
    log: Path,
    report: int,
    warm: Warm | None,
) -> subprocess.Popen[bytes] | Forked:
    shared = sandboxes.submounts(Path("/proc/self/mountinfo").read_text(encoding="utf-8"))
    devices = sandboxes.device_files()
    table = sandboxes.mount_table(sandbox, shared=shared, devices=devices)
    sandbox.folder.mkdir(parents=True, exist_ok=True)
    sandbox.table.write_text(table, encoding="utf-8")
    is_warm = warm is not None and warm.takes(command, environment)
    text = sandboxes.script(sandbox, shared=shared, devices=devices, becomes=not is_warm)
    with log.open("ab") as output:
        if warm is not None and is_warm:
            return warm.start(
                command,
                script=text,
                folder=sandbox.working_folder,
                environment=environment,
                log=output.fileno(),
                report=report,
            )
        return subprocess.Popen(
            [*sandboxes.ISOLATE, "/bin/sh", "-c", text, "sh", *command],
            stdin=report,
            stdout=output,
            stderr=output,
            env=dict(environment),
            cwd="/",
            start_new_session=True,
        )


def _strip(log: Path, words: bytes) -> bool:
    """Cut the words off the end of a log; tell whether they were there."""
    with log.open("r+b") as file:
        start = file.seek(0, os.SEEK_END) - len(words)
        if start < 0:
            return False
        file.seek(start)
        if file.read() != words:
            return False
        file.truncate(start)
    return True
