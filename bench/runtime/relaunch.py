"""
From the loss of a worker to the scripts running again: an unmodified script under agents.

Two agents with one rank each: those of `launcher: Torchrun` here, torchrun's own there, which meet
over c10d with settings that find a lost agent as soon as they can and wait for no other. One
worker, agent and script, is killed and none comes instead. A script that is left runs again from
its first line on, if that process then applies a step. To the step itself it is what the script
takes to import torch besides, which is no launcher's to save: that row has no bar.
"""

import contextlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ebbtide.wire.messages import WorkSpec
from rows import Row
from runtime import bed, small
from runtime.train_relaunched import BEGUN
from support.nursery import Nursery
from support.processes import Job, kill_tree

ROUNDS: Final = 3
WORKERS: Final = 2
SETTLED_STEPS: Final = 5
BAR: Final = 5.0
SETTINGS: Final = "keep_alive_interval=1,keep_alive_max_attempt=2,last_call_timeout=1"
"""Of c10d's rendezvous, the shortest that work; its own are 5 s, three times, and 30 s."""
PEER: Final = "torchrun, shortest timeouts"
_SCRIPT: Final = Path(__file__).parent / "train_relaunched.py"
_OPTIONS: Final = ("--max-restarts=100", "--no-python", *bed.BOUND, sys.executable)
"""What stands before the script for both: a script ends with its agent, however that ends."""


@dataclass(frozen=True, slots=True)
class Relaunch:
    """One loss: seconds from the kill until all scripts that are left ..."""

    running: float
    """... were at their first line again."""
    stepping: float
    """... had applied a step again."""


def rows() -> list[Row]:
    """Lose a worker of each, in turns."""
    ours: list[Relaunch] = []
    theirs: list[Relaunch] = []
    with bed.open_nursery() as nursery:
        for number in range(ROUNDS):
            ours.append(lose_ours(nursery))
            theirs.append(lose_torchrun())
            print(f" {number + 1}/{ROUNDS}", end="", flush=True, file=sys.stderr)
    return rows_of(ours, theirs)


def rows_of(ours: Sequence[Relaunch], theirs: Sequence[Relaunch]) -> list[Row]:
    """Judge the medians."""
    running = statistics.median(loss.running for loss in ours)
    stepping = statistics.median(loss.stepping for loss in ours)
    peer = statistics.median(loss.running for loss in theirs)
    peers = {PEER: statistics.median(loss.stepping for loss in theirs)}
    return [
        Row("loss to scripts running, times torchrun's", peer / running, "x", "higher", BAR),
        Row("... median", running, "s", "lower", peers={PEER: peer}),
        Row("loss to next step of a cold script, median", stepping, "s", "lower", peers=peers),
    ]


def lose_ours(nursery: Nursery) -> Relaunch:
    """Train under our agents and lose one."""
    work = WorkSpec(
        job="bench/relaunch", steps=0, global_batch_size=0, min_replicas=1, desired=WORKERS
    )
    launch = ("--torchrun", "--", "torchrun", *_OPTIONS)
    with bed.open_folder() as folder:
        job = Job(folder=folder, nursery=nursery, work=work, script=_SCRIPT, launch=launch)
        with bed.coordinated(job):
            *_, last = [bed.start_worker(job, index) for index in range(WORKERS)]
            return lose(bed.marks_of(folder), last.kill)


def lose_torchrun() -> Relaunch:
    """Train under torchrun's agents and lose one that is not the host of their store."""
    with bed.open_folder() as folder, contextlib.ExitStack() as stack:
        [port] = bed.free_ports(1)
        *_, last = [
            stack.enter_context(_torchrun(folder, port, is_host=index == 0))
            for index in range(WORKERS)
        ]
        return lose(bed.marks_of(folder), lambda: kill_tree(last))


@contextlib.contextmanager
def _torchrun(folder: Path, port: int, *, is_host: bool) -> Iterator[int]:
    words = [
        sys.executable, "-m", "torch.distributed.run", f"--nnodes=1:{WORKERS}",
        "--nproc-per-node=1", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}",
        f"--rdzv-conf=is_host={str(is_host).lower()},{SETTINGS}", *_OPTIONS, str(_SCRIPT),
    ]  # fmt: skip
    with bed.running(words, folder=folder, environment=bed.TORCHRUN_BEST) as agent:
        yield agent.pid


def lose(path: Path, kill: Callable[[], None]) -> Relaunch:
    """Kill a worker once all train, and wait until those that are left do again."""
    before = _await_steps(path, set(), processes=WORKERS, step=SETTLED_STEPS)
    killed_at = time.monotonic()
    kill()
    after = _await_steps(path, set(before), processes=WORKERS - 1, step=0).values()
    return Relaunch(
        running=max(marks[BEGUN] for marks in after) - killed_at,
        stepping=max(marks[0] for marks in after) - killed_at,
    )


def _await_steps(
    path: Path, known: set[int], *, processes: int, step: int
) -> dict[int, dict[int, float]]:
    """Wait for that step of so many processes not known before; return their marks by pid."""

    def look() -> dict[int, dict[int, float]] | None:
        moments: dict[int, dict[int, float]] = {}
        for mark in small.read_marks(path):
            if mark.pid not in known:
                moments.setdefault(mark.pid, {})[mark.step] = mark.at
        there = {pid: marks for pid, marks in moments.items() if step in marks}
        return there if len(there) >= processes else None

    return bed.await_some(look, f"step {step} of {processes} scripts")
