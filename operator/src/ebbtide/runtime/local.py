"""
A job on this machine, to try a script out: a coordinator beside it, and forks of it as workers.

Each fork comes back from `join` like the script itself and runs the rest of it, as one worker of
one process. All of them, and the coordinator, end with the process that was started by hand, and a
keeper, which is no worker, removes their folder however that process ended.
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
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

import msgspec
import torch

from ebbtide.runtime import crew, reaping
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


def start(processes: int, *, work: WorkSpec, checkpoint_path: str) -> tuple[Place, dict[int, int]]:
    """
    Start coordinator and forks; return this process's place, another one in each, and its forks.

    These are by process id, the number of each; only the first process has any.
    """
    folder = Path(tempfile.mkdtemp(prefix="ebbtide-local-"))
    token = folder / "token"
    token.write_text(secrets.token_hex(16))
    with socket.create_server((HOST, 0)) as free:
        coordinator = f"{HOST}:{free.getsockname()[1]}"
    checkpoints = checkpoint_path or str(folder / "checkpoints")
    keeper = _fork_keeper(coordinator, folder=folder, token=token, work=work)
    torch.set_num_threads(1)  # more would need a pool, which no fork survives
    pids: dict[int, int] = {}
    index = 0
    for number in range(1, processes):
        pid = reaping.fork()
        if pid == 0:
            index, pids = number, {}
            break
        pids[pid] = number
    if index == 0:
        atexit.register(_clear_up, keeper, owner=os.getpid())
    place = Place(
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
        notice_seconds=crew.LEAVE_SECONDS,
        is_local=True,
    )
    return place, pids


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


def _fork_keeper(address: str, *, folder: Path, token: Path, work: WorkSpec) -> int:
    """Fork the process that starts the coordinator, and clears up once this one has gone."""
    parent = os.getpid()
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    pid = os.fork()
    if pid == 0:
        _keep(parent, _coordinator_environment(address, token=token, work=work), folder)
    signal.pthread_sigmask(signal.SIG_SETMASK, usual)
    return pid


def _keep(parent: int, environment: Mapping[str, str], folder: Path) -> NoReturn:
    """Wait for the end of the parent, which the kernel tells of, or for its word."""
    try:
        os.setsid()  # what is sent to the whole group, or typed, is not meant for it
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silence, stream)
        coordinator = reaping.fork()
        if coordinator == 0:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            words = [sys.executable, "-m", "ebbtide.coordinator"]
            os.execve(words[0], words, dict(environment))  # noqa: S606 -- our own interpreter
        reaping.end_with(parent, by=signal.SIGTERM)
        signal.sigwait({signal.SIGTERM})
        os.kill(coordinator, signal.SIGTERM)
        os.waitpid(coordinator, 0)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os._exit(0)


def _coordinator_environment(address: str, *, token: Path, work: WorkSpec) -> dict[str, str]:
    return {
        **os.environ,
        names.ENV_JOB: JOB,
        names.ENV_ATTEMPT: "1",
        names.ENV_ADDRESS: HOST,
        names.ENV_COORDINATOR: address,
        names.ENV_TOKEN_FILE: str(token),
        names.ENV_WORK: msgspec.json.encode(work).decode(),
    }


def _clear_up(keeper: int, *, owner: int) -> None:
    """At the end of the script that was started by hand, once the others have ended."""
    if os.getpid() != owner:
        return  # a fork of the script's own comes to its end
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(keeper, signal.SIGTERM)
        os.waitpid(keeper, 0)
