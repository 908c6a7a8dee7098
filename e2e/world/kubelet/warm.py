"""
Warm images: a container of theirs is forked from a process that has done its imports already.

Importing torch takes a worker seconds of processor time, and a run of the end-to-end tests starts
some hundred workers. So where a test asks for it, `python -m MODULE ...` becomes a fork of one
process that has imported what the module preloads. All else is as in a cold container: namespaces,
root, environment, first process, exit status. What is measured for users starts cold.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from world.build import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

LONGEST_MESSAGE: Final = 1 << 17
READY_SECONDS: Final = 60.0
HERE: Final = Path(__file__).resolve().parents[2]
"""Where the package `world` lies."""


class Forked:
    """A process that is our child although another one forked it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def wait(self) -> int:
        """Return its exit code, negative for a signal."""
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)

    def kill(self) -> None:
        """End it."""
        os.kill(self.pid, signal.SIGKILL)


class Warm:
    """Forks containers that run one module; a context manager, started by its first container."""

    def __init__(self, module: str, *, log: Path) -> None:
        """Start nothing yet; `module` is what `python -m` names in the containers' commands."""
        self._module = module
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None

    def __enter__(self) -> Self:
        """Start nothing yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the process; its containers are the kubelets' to end."""
        if self._channel is not None:
            self._channel.close()
        if self._process is not None:
            self._process.wait(READY_SECONDS)

    def heat(self) -> None:
        """Have the imports done now: whoever comes first waits for them, and kubelets must not."""
        self._connect()

    def takes(self, command: Sequence[str], environment: Mapping[str, str]) -> bool:
        """Tell whether a command is one that a fork of ours can become."""
        if list(command[1:3]) != ["-m", self._module]:
            return False
        python = shutil.which(command[0], path=environment.get("PATH"))
        ours = python is not None and Path(python).parent == Path(sys.executable).parent
        # What the interpreter reads at its start comes too late for a fork.
        return ours and not any(name.startswith(("PYTHON", "LD_")) for name in environment)

    def start(
        self,
        command: Sequence[str],
        *,
        script: str,
        folder: str,
        environment: Mapping[str, str],
        log: int,
        report: int,
    ) -> Forked:
        """
        Fork a container that runs a set-up script, then the module with the command's arguments.

        `folder` is its working folder, `log` and `report` are descriptors: for what it writes, and
        for what the script says about the set-up.
        """
        channel = self._connect()
        request = {
            "command": list(command),
            "script": script,
            "folder": folder,
            "environment": dict(environment),
        }
        socket.send_fds(channel, [json.dumps(request).encode()], [log, report])
        return Forked(int(self._hear(channel)))

    def _hear(self, channel: socket.socket) -> bytes:
        answer = channel.recv(64)
        if not answer:
            message = f"the warm process is gone\n{self._log.read_text(errors='replace')[-2000:]}"
            raise RuntimeError(message)
        return answer

    def _connect(self) -> socket.socket:
        if self._channel is not None:
            return self._channel
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(READY_SECONDS)
        command = [*die_with_parent(), sys.executable, "-m", "world.kubelet.forking"]
        with theirs, self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno()), self._module],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )
        self._channel = ours
        self._hear(ours)  # its imports are done
        return ours
