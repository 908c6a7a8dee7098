"""
From the kill of a member to the next step: ours with a warm spare, torchrun and torchft at best.

A kill is SIGKILL of one rank's process, at any moment of a step. The next step is the first that a
process applies which had applied none before the kill: the promoted spare, or what torchrun started
anew. So neither a step that was already reduced counts, nor one that a survivor made alone. torchft
has no spare to promote: there, where it is installed, it is the first that the survivor does make
alone.
"""

import contextlib
import importlib.util
import os
import random
import signal
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ebbtide.wire.messages import Recovery
from rows import Row
from runtime import bed, small
from support.nursery import Nursery
from support.processes import Job

ROUNDS: Final = 4
KILLS_EACH: Final = 10
"""Of ours in a round; of torchrun there is one, which takes as long as all of these."""
SETTLED_STEPS: Final = 5
PAIR: Final = 2
PAIR_STEPS: Final = 4 * SETTLED_STEPS
"""Of two replicas of torchft together, which must have met first."""
BAR_RATIO: Final = 50.0
GOAL_RATIO: Final = 100.0
BAR_REFORMING_MS: Final = 30.0
TORCHFT: Final = "torchft, heartbeats lost for 0.3 s"
_TORCHRUN: Final = Path(__file__).parent / "train_torchrun.py"
_TORCHFT: Final = Path(__file__).parent / "train_torchft.py"
_LIGHTHOUSE: Final = Path(sys.executable).parent / "torchft_lighthouse"
_QUORUM: Final = (
    "--min_replicas=1", "--join_timeout_ms=100", "--quorum_tick_ms=20",
    "--heartbeat_timeout_ms=300",
)  # fmt: skip
"""Its own are 60 s, 0.1 s and 5 s; a replica here sends a heartbeat each 0.05 s."""


@dataclass(frozen=True, slots=True)
class Kill:
    """One loss made good: seconds after the kill."""

    noticed: float
    """The coordinator knew."""
    held: float
    """The survivors held still, and the next generation was ordered."""
    formed: float
    """It stood, and had the state."""
    next_step: float

    @property
    def reforming(self) -> float:
        """How long forming the next generation took."""
        return self.formed - self.held


def rows() -> list[Row]:
    """Kill members of both, in turn."""
    return rows_of(*measure(rounds=ROUNDS, kills=KILLS_EACH))


def measure(*, rounds: int, kills: int) -> tuple[list[Kill], list[float], list[float]]:
    """Return our kills, and the seconds that each kill of torchrun's and of torchft's took."""
    chance = random.Random(0)
    has_torchft = importlib.util.find_spec("torchft") is not None
    ours: list[Kill] = []
    torchrun: list[float] = []
    torchft: list[float] = []
    with bed.open_nursery() as nursery:
        for number in range(rounds):
            torchrun.append(kill_torchrun(chance))
            ours += kill_ours(nursery, num=kills, chance=chance)
            if has_torchft:
                torchft.append(kill_torchft(chance))
            print(f" {number + 1}/{rounds}", end="", flush=True, file=sys.stderr)
    return ours, torchrun, torchft


def rows_of(ours: Sequence[Kill], theirs: Sequence[float], torchft: Sequence[float]) -> list[Row]:
    """Judge what was measured; of torchft there may be nothing."""
    next_steps = [kill.next_step * 1000 for kill in ours]
    median, slowest = statistics.median(next_steps), max(next_steps)
    noticed = statistics.median(kill.noticed for kill in ours) * 1000
    held = statistics.median(kill.held for kill in ours) * 1000
    peer, goal = statistics.median(theirs) * 1000, {"goal": GOAL_RATIO}
    reforming = statistics.median(kill.reforming for kill in ours) * 1000
    others = {"torchrun": theirs, **({TORCHFT: torchft} if torchft else {})}
    medians = {name: statistics.median(seconds) * 1000 for name, seconds in others.items()}
    slowests = {name: max(seconds) * 1000 for name, seconds in others.items()}
    return [
        Row("kill to next step, times torchrun's", peer / median, "x", "higher", BAR_RATIO, goal),
        Row("... median", median, "ms", "lower", peers=medians),
        Row("... slowest", slowest, "ms", "lower", peers=slowests),
        Row("kill to its notice, median", noticed, "ms", "lower"),
        Row("kill to all held still, median", held, "ms", "lower"),
        Row(
            "re-forming from then on, median",
            reforming,
            "ms",
            "lower",
            BAR_REFORMING_MS,
            of_machine=True,
        ),
    ]


# ---------------------------------------------------------------- ours


def kill_ours(nursery: Nursery, *, num: int, chance: random.Random) -> list[Kill]:
    """Train with two members and a spare, and kill so many members, one after the other."""
    with bed.open_job(nursery, members=2) as job:
        run = Run(job, spares=1)
        return [run.kill_member(chance) for _ in range(num)]


class Run:
    """A job of ours with its workers, of whom members are killed and come again as spares."""

    def __init__(self, job: Job, *, spares: int) -> None:
        self.job = job
        self._spares = spares
        self._attempts = dict.fromkeys(range(job.work.desired + spares), 1)
        for index in self._attempts:
            bed.start_worker(job, index)

    def await_whole(self) -> None:
        """Wait until all members train and the spares stand by."""
        members = self.job.work.desired
        bed.await_states(self.job, members=members, spares=self._spares)
        _await_steps(bed.marks_of(self.job.folder), processes=members)

    def kill_member(self, chance: random.Random) -> Kill:
        """Kill a member's rank, wait for the step after, start the lost worker's next attempt."""
        self.await_whole()
        job = self.job
        victim = chance.choice(job.report().members)
        pid = _rank_of(job.workers[victim].pid)
        killed_at, killed_epoch = _kill(pid, chance)
        before = {mark.pid for mark in _marks(job.folder) if mark.at < killed_at}
        next_step = _await_newcomer(job.folder, before)
        recovery = bed.await_some(lambda: _recovery_after(job, killed_epoch), "recovery's word")
        index = int(victim.rsplit("-", 2)[1])
        self._attempts[index] += 1
        bed.start_worker(job, index, attempt=self._attempts[index])
        stopped = recovery.stopped_at - killed_epoch
        return Kill(
            noticed=stopped + recovery.noticed_after,
            held=stopped + recovery.held_after,
            formed=stopped + recovery.formed_after,
            next_step=next_step - killed_at,
        )


def _recovery_after(job: Job, epoch: float) -> Recovery | None:
    """Return the newest recovery once training goes on, if it is of after that moment."""
    newest = job.report().recoveries[-1]
    is_it = newest.stopped_at + newest.formed_after > epoch and newest.stepping_after >= 0
    return newest if is_it else None


def _rank_of(first_process: int) -> int:
    """Return the only child of a worker's first process."""
    path = Path(f"/proc/{first_process}/task/{first_process}/children")
    (child,) = path.read_text(encoding="ascii").split()
    return int(child)


# ---------------------------------------------------------------- torchrun


def kill_torchrun(chance: random.Random) -> float:
    """Train with two processes under torchrun, kill one, return the seconds to the next step."""
    words = [
        sys.executable, "-m", "torch.distributed.run", "--nnodes=1", "--nproc-per-node=2",
        "--max-restarts=100", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", str(_TORCHRUN),
    ]  # fmt: skip
    best = bed.TORCHRUN_BEST
    with bed.open_folder() as folder, bed.running(words, folder=folder, environment=best):
        _await_steps(bed.marks_of(folder), processes=2)
        before = {mark.pid for mark in _marks(folder)}
        killed_at, _ = _kill(chance.choice(sorted(before)), chance)
        return _await_newcomer(folder, before) - killed_at


# ---------------------------------------------------------------- torchft


def kill_torchft(chance: random.Random) -> float:
    """Train with two replicas of torchft, kill one, return the seconds to the other's next step."""
    [port] = bed.free_ports(1)
    found = {"TORCHFT_LIGHTHOUSE": f"http://127.0.0.1:{port}"}
    with bed.open_folder() as folder, contextlib.ExitStack() as stack:
        for words in (
            [str(_LIGHTHOUSE), f"--bind=[::]:{port}", *_QUORUM],
            *[[sys.executable, str(_TORCHFT)]] * PAIR,
        ):
            stack.enter_context(bed.running(words, folder=folder, environment=found))
        bed.await_some(lambda: _is_pair(_marks(folder)[-PAIR_STEPS:]), "steps of two replicas")
        victim = chance.choice(sorted({mark.pid for mark in _marks(folder)}))
        killed_at, _ = _kill(victim, chance)
        return bed.await_some(lambda: first_alone(_marks(folder), killed_at), "step") - killed_at


def _is_pair(marks: Sequence[small.Mark]) -> bool | None:
    steps = {(mark.pid, mark.step) for mark in marks}
    pids = {mark.pid for mark in marks}
    is_full, is_joint = len(marks) == PAIR_STEPS, steps == {(pid, PAIR) for pid in pids}
    return True if is_full and is_joint and len(pids) == PAIR else None


def first_alone(marks: Sequence[small.Mark], after: float) -> float | None:
    """Return when a replica first made a step alone after that moment."""
    return next((mark.at for mark in marks if mark.at > after and mark.step == 1), None)


# ---------------------------------------------------------------- all


def _marks(folder: Path) -> list[small.Mark]:
    return small.read_marks(bed.marks_of(folder))


def _await_steps(path: Path, *, processes: int) -> None:
    """Wait until each of the newest `processes` processes has applied some steps."""

    def look() -> bool | None:
        counts: dict[int, int] = {}
        for mark in small.read_marks(path):
            counts[mark.pid] = counts.get(mark.pid, 0) + 1
        newest = list(counts.values())[-processes:]
        return True if len(newest) == processes and min(newest) >= SETTLED_STEPS else None

    bed.await_some(look, f"{SETTLED_STEPS} steps of {processes} processes")


def _kill(pid: int, chance: random.Random) -> tuple[float, float]:
    """Kill a process at any moment of a step; return when, monotonic and since the epoch."""
    time.sleep(chance.uniform(0, 2 * small.COMPUTE_S))
    moments = time.monotonic(), time.time()
    os.kill(pid, signal.SIGKILL)
    return moments


def _await_newcomer(folder: Path, before: set[int]) -> float:
    """Return when a process that was not there before applied its first step."""

    def look() -> float | None:
        return next((mark.at for mark in _marks(folder) if mark.pid not in before), None)

    return bed.await_some(look, "step of a newcomer")
