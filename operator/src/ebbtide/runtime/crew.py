"""
The processes of a local job, watched by the first of them: nobody replaces one that has gone.

So when one ends badly, or leaves its loop while others are in theirs, the others would wait for
ever: they are told to leave, which saves what only they hold, and are killed when they do not.
The first process then ends with the code of the one that failed.
"""

import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Mapping
from typing import Final, NoReturn

from ebbtide.runtime import reaping
from ebbtide.runtime.collective import Group
from ebbtide.runtime.membership import Membership
from ebbtide.runtime.reporting import say
from ebbtide.wire import names
from ebbtide.wire.messages import Released

LEAVE_SECONDS: Final = 10.0
"""What a process of a local job has, once it is told to go."""
EARLY_SECONDS: Final = 5.0
"""All processes may leave their loops early, one shortly after another."""
EXIT_EARLY: Final = 1
_MARGIN_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.1


class Crew:
    """The forks of the process that was started by hand, as that one sees them."""

    def __init__(self, forks: Mapping[int, int], membership: Membership, group: Group) -> None:
        """Prepare to watch `forks`, the number of each by its process id."""
        self._membership = membership
        self._group = group
        self._owner = os.getpid()
        self._running = dict(forks)
        self._changed = threading.Condition()
        self._left_at: float | None = None  # when the first one ended well, before the work did
        self._is_ending = False
        self.code = 0
        self._thread = threading.Thread(target=self._watch, name="ebbtide-local", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def end(self) -> None:
        """At the end of the first process: wait for the others, or end them; never for ever."""
        if os.getpid() != self._owner:
            return  # a fork of the script's own comes to its end
        limit = time.monotonic() + (0.0 if hasattr(sys, "last_value") else EARLY_SECONDS)
        try:
            while self._is_any_running() and not self._is_over(limit):
                self._wait(_LOOK_SECONDS)
            if self._is_any_running():
                self._end_others()
        except KeyboardInterrupt:
            self.code = self.code or 128 + signal.SIGINT
            reaping.send(signal.SIGKILL, list(self._running))
        if self.code and not hasattr(sys, "last_value"):
            _exit(self.code)

    # ------------------------------------------------------------ at the end

    def _is_over(self, limit: float) -> bool:
        """Tell whether there is nothing more to wait for."""
        now = self._membership.look()
        if self.code or now.leave is not None:
            return True
        return not isinstance(now.offer, Released) and time.monotonic() >= limit

    def _end_others(self) -> None:
        if not self.code and self._membership.look().leave is None:
            if not hasattr(sys, "last_value"):
                self.code = EXIT_EARLY
            say("process 0 of this local job ended before the work was done: ending the others")
        # Or they would wait for this one, in the middle of a step.
        self._group.close()
        self._membership.left(step=self._membership.look().step)
        self._send_away()
        until = time.monotonic() + LEAVE_SECONDS + _MARGIN_SECONDS
        while self._is_any_running() and time.monotonic() < until:
            self._wait(_LOOK_SECONDS)
        reaping.send(signal.SIGKILL, list(self._running))

    def _send_away(self) -> None:
        self._is_ending = True
        reaping.send(signal.SIGTERM, list(self._running))

    def _is_any_running(self) -> bool:
        with self._changed:
            return bool(self._running)

    def _wait(self, seconds: float) -> None:
        with self._changed:
            if self._running:
                self._changed.wait(seconds)

    # ------------------------------------------------------------ in the thread

    def _watch(self) -> None:
        """Take the ends of the forks as they come, and of nothing else that the script started."""
        handles = {os.pidfd_open(pid): pid for pid in self._running}
        poll = select.poll()
        for handle in handles:
            poll.register(handle, select.POLLIN)
        while handles or self._left_at is not None:
            for handle, _ in poll.poll(_LOOK_SECONDS * 1000):
                poll.unregister(handle)
                os.close(handle)
                self._note(handles.pop(handle))
            if self._left_at is not None and time.monotonic() - self._left_at > EARLY_SECONDS:
                self._left_at = None
                if self._is_waiting():
                    self._fail("another process ended before the work was done", code=EXIT_EARLY)

    def _note(self, pid: int) -> None:
        code = 0
        with contextlib.suppress(ChildProcessError):
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with self._changed:
            number = self._running.pop(pid)
            self._changed.notify_all()
        if self._is_ending or self.code:
            return
        if code == 0:
            self._left_at = self._left_at or time.monotonic()
        elif code != names.EXIT_LEFT or self._membership.look().leave is None:
            self._fail(f"process {number} {_words(code)}", code=128 - code if code < 0 else code)

    def _is_waiting(self) -> bool:
        """Tell whether this process is in its loop still: it can't take another step there."""
        now = self._membership.look()
        return not now.is_closed and not isinstance(now.offer, Released)

    def _fail(self, why: str, *, code: int) -> None:
        self.code = code
        say(f"{why}: ending the others of this local job")
        self._send_away()
        self._membership.request_leave(reason=why, seconds=LEAVE_SECONDS)


def _words(code: int) -> str:
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    if code == names.EXIT_LEFT:
        return "left"
    return f"failed with exit code {code}"


def _exit(code: int) -> NoReturn:
    """End as what went wrong says; what was registered before the job is not called any more."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
