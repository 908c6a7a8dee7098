"""
The last word against a call into gloo that does not end although its generation is over.

Breaking shuts the connections that were found when the group was formed. Should one have escaped,
the call would wait on: so after a second every connection to the members is looked for and shut,
and after ten the process says where it is stuck and leaves. Others can go on without it; a hung
member would hold everybody up for ever.
"""

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ebbtide.runtime.reporting import say
from ebbtide.wire.names import EXIT_LEFT

LOOK_SECONDS: Final = 0.5
SHUT_SECONDS: Final = 1.0
LEAVE_SECONDS: Final = 10.0


class Watchdog:
    """Watches one thread's calls; a thread of its own, which costs two looks a second."""

    def __init__(
        self, *, overdue: Callable[[], bool], shut: Callable[[], None], leave: Callable[[], None]
    ) -> None:
        """`overdue` tells whether the call that goes on should have ended; asked at any time."""
        self._overdue = overdue
        self._shut = shut
        self._leave = leave
        self._since: float | None = None  # when the call was first found overdue
        self._inside = False
        threading.Thread(target=self._watch, name="ebbtide-watchdog", daemon=True).start()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Hold this around a call that may hang."""
        self._inside = True
        try:
            yield
        finally:
            self._inside = False

    def _watch(self) -> None:
        pause = threading.Event()
        while not pause.wait(LOOK_SECONDS):
            self.look(now=time.monotonic())

    def look(self, *, now: float) -> None:
        """See whether the call has been overdue for too long, and do something about it."""
        if not (self._inside and self._overdue()):
            self._since = None
            return
        if self._since is None:
            self._since = now
        overdue = now - self._since
        if overdue >= LEAVE_SECONDS:
            self._leave()
        elif overdue >= SHUT_SECONDS:
            self._shut()


def leave_now() -> None:
    """Say where every thread is, and end this process as one that left."""
    say("a broken collective does not end; this process leaves so that the others can go on")
    faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
    os._exit(EXIT_LEFT)
