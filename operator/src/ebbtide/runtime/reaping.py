"""
A worker's PID 1: starts its processes, passes signals on, reaps, and ends with the right code.

Where a shell may stand between us and the trainer, signals go to every descendant: a shell does not
pass them on. Where we forked the trainer ourselves they go to it alone, since what it started, say
to load data, is its own to end. Orphans come to us (we are their subreaper) and are waited for like
children, so a trainer that a script started in the background still leaves in peace.
"""

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ebbtide.runtime.reporting import say
from ebbtide.wire import names

PASSED_ON: Final = frozenset(
    {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
)
STOPPING: Final = frozenset({signal.SIGTERM, signal.SIGINT})
WATCHED: Final = PASSED_ON | {signal.SIGCHLD}
_SUBREAPER: Final = 36  # PR_SET_CHILD_SUBREAPER
_PARENT_DEATH: Final = 1  # PR_SET_PDEATHSIG


def begin() -> None:
    """Get ready to fork: hear of every end, of orphans too, and of every signal by `supervise`."""
    adopt_orphans()
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)


def adopt_orphans() -> None:
    """Let orphaned descendants become this process's children, also when it is not PID 1."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_SUBREAPER, 1, 0, 0, 0)


def end_with(parent: int, *, by: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel signal this process when its parent ends, now where that has gone."""
    ctypes.CDLL(None).prctl(_PARENT_DEATH, by, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), by)


def fork() -> int:
    """Fork as `os.fork` does; the kernel kills the child when this process ends."""
    sys.stdout.flush()  # or both would write what waits there
    sys.stderr.flush()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        end_with(parent)
    return pid


@dataclass(slots=True, kw_only=True)
class Verdict:
    """What a worker's end amounts to, from the ends of its processes."""

    children: frozenset[int]
    stopping: bool = False
    failure: int = 0  # the first of a child
    stray: int = 0  # the first of an orphan
    left: bool = False
    done: int = 0
    running: set[int] = field(default_factory=set)

    def note(self, pid: int, code: int) -> bool:
        """Take the end of one process; True when the rest must be ended."""
        self.running.discard(pid)
        if code == names.EXIT_LEFT:
            self.left = True
            return False
        if self.stopping and code in {128 + number for number in STOPPING}:
            return False  # it had no say in how it ends: a shell, or a script before join()
        if code == 0:
            self.done += pid in self.children
            return False
        if pid not in self.children:
            self.stray = self.stray or code
            return False
        self.failure = self.failure or code
        return not self.stopping

    @property
    def code(self) -> int:
        """The worker's exit code."""
        if self.failure:
            return self.failure
        if self.left or (self.stopping and self.done < len(self.children)):
            return names.EXIT_LEFT
        return self.stray


def supervise(children: Sequence[int], *, wrapped: bool, patient: bool = True) -> int:
    """
    Watch over the children until nothing is left; return the exit code. Signals are blocked.

    `wrapped` says that a child may be a shell around the trainer, so that signals must go deeper.
    Without `patient`, what the children leave running is ended: they should have ended it.
    """
    verdict = Verdict(children=frozenset(children), running=set(children))
    said = False
    while True:
        number = signal.sigwait(WATCHED)
        if number in PASSED_ON:
            verdict.stopping |= number in STOPPING
            send(
                signal.Signals(number),
                descendants(os.getpid()) if wrapped else sorted(verdict.running),
            )
        if not _reap(verdict):
            return verdict.code
        if not verdict.running and not patient:
            send(signal.SIGKILL, descendants(os.getpid()))
        elif not verdict.running and not said:
            said = True
            say("the command ended; waiting for the processes that it left running")


def _reap(verdict: Verdict) -> bool:
    """Take all ends that are there; False when there is no process left."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        code = os.waitstatus_to_exitcode(status)
        if verdict.note(pid, 128 - code if code < 0 else code):
            say(f"process {pid} ended with {code}: ending the others of this worker")
            send(signal.SIGKILL, descendants(os.getpid()))


def descendants(root: int) -> list[int]:
    """Return all processes below one, parents first."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, ahead = [], [root]
    while ahead:
        below = parents.get(ahead.pop(0), [])
        found += below
        ahead += below
    return found


def send(number: signal.Signals, pids: Sequence[int]) -> None:
    """Send a signal to processes that may have ended."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
