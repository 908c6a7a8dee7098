"""
SIGTERM and the end of the notice, watched from a side thread.

Python runs a signal's handler in the main thread and only between two bytecodes: never while torch
computes or waits in C. So the handler does nothing; the number arrives through the wake-up
descriptor, which C code writes, in a thread that always listens. The same thread ends the process
when the notice is used up, whatever the script still does: exit 82 beats being killed.
"""

import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Final

from ebbtide.runtime.membership import Membership
from ebbtide.runtime.reporting import say
from ebbtide.wire import names

MARGIN_SECONDS: Final = 0.25  # the kernel's own end of the process takes a moment
_LOOK_SECONDS: Final = 0.1


class Notice:
    """Watches one process's end."""

    def __init__(
        self,
        *,
        seconds: float,
        on_signal: Callable[[str, float], None],
        deadline: Callable[[], float | None],
    ) -> None:
        """
        `on_signal(reason, seconds)` is called once, from the side thread.

        `deadline` gives the monotonic time by which the process must be gone, if it must go.
        """
        self._seconds = seconds
        self._on_signal = on_signal
        self._deadline = deadline
        self._near, self._far = socket.socketpair()
        self._near.settimeout(0)
        self._far.settimeout(0)
        self._thread = threading.Thread(target=self._watch, name="ebbtide-notice", daemon=True)

    def start(self) -> None:
        """Begin to watch. Signals are caught only when this is called from the main thread."""
        if threading.current_thread() is threading.main_thread():
            previous = signal.getsignal(signal.SIGTERM)

            def handle(number: int, frame: FrameType | None) -> None:
                if callable(previous):
                    previous(number, frame)

            signal.signal(signal.SIGTERM, handle)
            signal.set_wakeup_fd(self._near.fileno(), warn_on_full_buffer=False)
        else:
            say("join() was not called from the main thread: SIGTERM is not watched")
        self._thread.start()

    def _watch(self) -> None:
        told = False
        while True:
            readable, _, _ = select.select([self._far], [], [], _LOOK_SECONDS)
            if readable and signal.SIGTERM in self._far.recv(64) and not told:
                told = True
                self._on_signal("SIGTERM", self._seconds)
            deadline = self._deadline()
            if deadline is not None and time.monotonic() >= deadline - MARGIN_SECONDS:
                end_now("the notice is used up")


def watch_notice(membership: Membership, *, seconds: float) -> None:
    """Have a member asked to leave by SIGTERM, and its process ended when the notice is used up."""

    def deadline() -> float | None:
        leave = membership.leave_requested()
        return None if leave is None else leave.deadline

    Notice(
        seconds=seconds,
        on_signal=lambda reason, seconds: membership.request_leave(reason=reason, seconds=seconds),
        deadline=deadline,
    ).start()


def end_now(reason: str) -> None:
    """End this process at once with the code of a worker that was told to leave."""
    say(f"leaving at once: {reason}")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(names.EXIT_LEFT)
