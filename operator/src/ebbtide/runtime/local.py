"""
A job on this machine, to try a script out: a coordinator beside it, and forks of it as workers.

Each fork comes back from `join` like the script itself and runs the rest of it, as one worker of
one process. All of them, and the coordinator, end with the process that was started by hand.
"""

import atexit
import contextlib
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

import msgspec
import torch

from ebbtide.runtime import reaping
from ebbtide.runtime.environment import Place
from ebbtide.wire import names
from ebbtide.wire.messages import WorkSpec

JOB: Final = "local/try"
HOST: Final = "127.0.0.1"
GRACE: Final = 15.0


def work_for(processes: int, *, steps: int, global_batch_size: int) -> WorkSpec:
    """Return the working fields of a local job: all processes or none."""
    return WorkSpec(
        job=JOB,
        steps=steps,
        global_batch_size=global_batch_size,
        min_replicas=processes,
        desired=processes,
        coordinator_grace=GRACE,
    )


def start(processes: int, *, work: WorkSpec, checkpoint_path: str) -> Place:
    """Start coordinator and forks; return this process's place, another one in each."""
    folder = Path(tempfile.mkdtemp(prefix="ebbtide-local-"))
    token = folder / "token"
    token.write_text(secrets.token_hex(16))
    with socket.create_server((HOST, 0)) as free:
        coordinator = f"{HOST}:{free.getsockname()[1]}"
    checkpoints = checkpoint_path or str(folder / "checkpoints")
    pids = [_fork_coordinator(coordinator, token=token, work=work)]
    torch.set_num_threads(1)  # more would need a pool, which no fork survives
    index = 0
    for number in range(1, processes):
        pid = _fork()
        if pid == 0:
            index = number
            break
        pids.append(pid)
    if index == 0:
        atexit.register(_end, pids[0], pids[1:], folder)
    return Place(
        job=JOB,
        worker=names.pod_name(job="try", role=names.ROLE_WORKER, index=index, attempt=1),
        index=index,
        attempt=1,
        local_rank=0,
        processes=1,
        address=HOST,
        coordinator=coordinator,
        token_file=str(token),
        checkpoint_path=checkpoints,
    )


def alone(checkpoint_path: str) -> Place:
    """Return the place of a process that has neither peers nor a coordinator."""
    return Place(
        job=JOB,
        worker=names.pod_name(job="try", role=names.ROLE_WORKER, index=0, attempt=1),
        index=0,
        attempt=1,
        local_rank=0,
        processes=1,
        address=HOST,
        coordinator=f"{HOST}:{names.COORDINATOR_PORT}",
        token_file="",
        checkpoint_path=checkpoint_path,
    )


def _fork() -> int:
    """Fork a process that does not outlive this one."""
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        reaping.end_with(parent)
    return pid


def _fork_coordinator(address: str, *, token: Path, work: WorkSpec) -> int:
    pid = _fork()
    if pid == 0:
        _become(
            [sys.executable, "-m", "ebbtide.coordinator"],
            {
                **os.environ,
                names.ENV_JOB: JOB,
                names.ENV_ATTEMPT: "1",
                names.ENV_ADDRESS: HOST,
                names.ENV_COORDINATOR: address,
                names.ENV_TOKEN_FILE: str(token),
                names.ENV_WORK: msgspec.json.encode(work).decode(),
            },
        )
    return pid


def _become(words: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Replace this fork by a program that says nothing."""
    try:
        silence = os.open(os.devnull, os.O_RDWR)
        os.dup2(silence, sys.stdout.fileno())
        os.execve(words[0], list(words), dict(environment))  # noqa: S606 -- our own interpreter
    finally:
        os._exit(names.EXIT_USAGE)


def _end(coordinator: int, forks: Sequence[int], folder: Path) -> None:
    """At the end of the script that was started by hand: wait for the others, clear up."""
    for pid in forks:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(coordinator, signal.SIGTERM)
        os.waitpid(coordinator, 0)
    shutil.rmtree(folder, ignore_errors=True)
