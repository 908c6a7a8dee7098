"""Where a bench's processes live: a folder, a job of ours in it, and processes started by hand."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from ebbtide.wire.messages import WorkSpec
from runtime import small
from support.nursery import Nursery
from support.processes import Gone, Job, Worker, kill_tree

PATIENCE_S: Final = 60.0
ENDLESS: Final = 1_000_000
"""Steps of a run that is ended by hand."""
_LOOK_S: Final = 0.05
_HERE: Final = Path(__file__).parent
OURS: Final = _HERE / "train_ours.py"
TORCHRUN_BEST: Final = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
"""With the store shared, as it is by default, restarts on gloo fail until none is left."""
BOUND: Final = ("setpriv", "--pdeathsig", "KILL")
"""Before a command: it ends with the process that starts it, however that ends."""

Found = TypeVar("Found")


def await_some(
    look: Callable[[], Found | None], what: str, *, seconds: float = PATIENCE_S
) -> Found:
    """Look until something is found; `TimeoutError` names what did not come."""
    until = time.monotonic() + seconds
    while (found := look()) is None:
        if time.monotonic() > until:
            raise TimeoutError(f"no {what} in {seconds:.0f} s")
        time.sleep(_LOOK_S)
    return found


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """Give a folder that goes away."""
    with tempfile.TemporaryDirectory(prefix="ebbtide-bench-") as name:
        yield Path(name)


@contextlib.contextmanager
def open_nursery() -> Iterator[Nursery]:
    """Give a process that has imported all, as a worker's PID 1 has, and forks workers."""
    with open_folder() as folder:
        nursery = Nursery(folder / "log")
        try:
            yield nursery
        finally:
            nursery.close()


@contextlib.contextmanager
def open_job(
    nursery: Nursery, *, members: int, script: Path = OURS, steps: int = ENDLESS
) -> Iterator[Job]:
    """Give a job of so many members with its coordinator running; workers are started by hand."""
    with open_folder() as folder:
        job = Job(
            folder=folder,
            nursery=nursery,
            work=WorkSpec(
                job="bench/recovery",
                steps=steps,
                global_batch_size=small.GLOBAL_BATCH,
                min_replicas=members,
                desired=members,
                checkpoint_interval=3600.0,
            ),
            script=script,
        )
        with coordinated(job):
            yield job


@contextlib.contextmanager
def coordinated(job: Job) -> Iterator[None]:
    """Run a job's coordinator; end all of the job. What takes too long is told with its logs."""
    job.start_coordinator()
    try:
        yield
    except TimeoutError as error:
        error.add_note(f"{job.report()}\n{job.logs()}")
        raise
    finally:
        job.close()


def start_worker(job: Job, index: int, *, attempt: int = 1) -> Worker:
    """Start an attempt of a worker whose steps leave marks."""
    return job.start_worker(index, attempt=attempt, **{small.ENV_MARKS: str(marks_of(job.folder))})


def marks_of(folder: Path) -> Path:
    """Return where the marks of a folder's run are."""
    return folder / "marks"


def await_states(job: Job, *, members: int, spares: int) -> None:
    """Wait until so many members train and so many spares stand by."""

    def look() -> bool | None:
        with contextlib.suppress(Gone):
            report = job.report()
            states = [worker.state for worker in report.workers]
            stand = (states.count("member"), states.count("spare")) == (members, spares)
            return True if stand and report.training else None
        return None

    await_some(look, f"{members} members and {spares} spares")


def free_ports(num: int) -> list[int]:
    """Return ports that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        free = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(num)]
        return [int(each.getsockname()[1]) for each in free]


@contextlib.contextmanager
def running(
    words: Sequence[str], *, folder: Path, environment: Mapping[str, str]
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a command in a session of its own, with what it says in `folder`; end its tree."""
    with (folder / "said").open("ab") as said:
        process = subprocess.Popen(
            [*BOUND, *words],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "OMP_NUM_THREADS": "1",
                small.ENV_MARKS: str(marks_of(folder)),
                **environment,
            },
        )
    try:
        yield process
    finally:
        kill_tree(process.pid)
        process.wait()
