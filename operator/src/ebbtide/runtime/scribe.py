"""
The trainer's hold on the process that writes beside it (`ebbtide.runtime.writer`).

The process is started when it is first needed, and again when it has died. `write` gives it a state
in shared memory and waits, in a thread of the saver's, until it says how that ended; a writer that
says nothing for too long is given up and killed, since a volume that hangs must not hold saves up
for ever.
"""

import contextlib
import json
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from ebbtide.runtime.archive import Facts, LostDuty
from ebbtide.runtime.manifest import Manifest

SILENT_SECONDS: Final = 300.0
"""A writer that did not come one piece further in this time is stuck."""
MAX_PACKET: Final = 1 << 16
_END_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.5


class WritingError(Exception):
    """The state was not written; the text says why, for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One state to be written: where it lies in the memory, and how and where it goes."""

    memory: int
    ranges: Sequence[tuple[int, int]]
    facts: Facts
    url: str
    owner: str
    retain: int
    spread_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What came of an order; `paused` is the part of the time, in seconds, that it did nothing."""

    manifest: Manifest
    paused: float


class Scribe:
    """One writer process, made anew when it is gone."""

    def __init__(self, *, silent_seconds: float = SILENT_SECONDS) -> None:
        self._silent_seconds = silent_seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._hurry = False

    def start(self) -> None:
        """Start the process, unless it runs."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return
            self._drop()
            near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with far:
                self._process = subprocess.Popen(  # noqa: S603 -- our own interpreter and module
                    [sys.executable, "-m", "ebbtide.runtime.writer", str(far.fileno())],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[far.fileno()],
                )
            self._line = near

    def hurry(self) -> None:
        """Let what is being written be written without pauses. From any thread."""
        with self._lock:
            self._hurry = True
            if self._line is not None:
                with contextlib.suppress(OSError):
                    self._line.send(b'{"hurry": true}', socket.MSG_DONTWAIT)

    def write(
        self,
        order: Order,
        *,
        may_commit: Callable[[], bool],
        on_progress: Callable[[int], None] = lambda _: None,
        deadline: float | None = None,
    ) -> Written:
        """
        Have a state written; `WritingError` when it was not, `LostDuty` when it may not be.

        `deadline` is on the monotonic clock: the writer is killed then.
        """
        try:
            self.start()
        except OSError as error:
            raise WritingError(f"no process to write checkpoints: {error}") from error
        self._send_order(order)
        while True:
            answer = self._await_answer(deadline)
            if "asks" in answer:
                self._send({"commit": may_commit()})
            elif "written" in answer:
                on_progress(int(answer["written"]))
            elif "dropped" in answer:
                raise LostDuty
            elif "failed" in answer:
                raise WritingError(str(answer["failed"]))
            else:
                manifest = Manifest(**answer["done"])
                return Written(manifest=manifest, paused=float(answer["paused"]))

    def close(self) -> None:
        """End the process, which may be deleting old checkpoints still: that is waited for."""
        with self._lock:
            if self._line is not None:
                self._line.close()
                self._line = None
            if self._process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_END_SECONDS)
            self._drop()

    def _send_order(self, order: Order) -> None:
        words = {
            "ranges": order.ranges,
            "url": order.url,
            "owner": order.owner,
            "retain": order.retain,
            "spread_seconds": order.spread_seconds,
            **asdict(order.facts),
        }
        self._hurry = False
        try:
            socket.send_fds(self._connection(), [json.dumps(words).encode()], [order.memory])
        except OSError as error:
            raise self._gone() from error

    def _send(self, words: dict[str, Any]) -> None:
        try:
            self._connection().send(json.dumps(words).encode())
        except OSError as error:
            raise self._gone() from error

    def _await_answer(self, deadline: float | None) -> dict[str, Any]:
        line = self._connection()
        silent_until = time.monotonic() + self._silent_seconds
        while True:
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                self._kill()
                raise WritingError("the time for it is used up")
            if now >= silent_until:
                self._kill()
                raise WritingError(
                    f"the writer made no progress in {self._silent_seconds:.0f} s: the volume or "
                    "the store hangs"
                )
            if select.select([line], [], [], _LOOK_SECONDS)[0]:
                break
        try:
            packet = line.recv(MAX_PACKET)
        except OSError as error:
            raise self._gone() from error
        if not packet:
            raise self._gone()
        answer: dict[str, Any] = json.loads(packet)
        return answer

    def _connection(self) -> socket.socket:
        if self._line is None:
            raise WritingError("the writer was closed")
        return self._line

    def _gone(self) -> WritingError:
        process = self._process
        code = None
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(_END_SECONDS)
        self._kill()
        return WritingError(
            f"the process that writes checkpoints ended with {code}: it may have been out of memory"
        )

    def _kill(self) -> None:
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        """With the lock held: let go of a process, whatever state it is in."""
        if self._line is not None:
            self._line.close()
            self._line = None
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_SECONDS)  # one that hangs in the kernel is left to it
            self._process = None
