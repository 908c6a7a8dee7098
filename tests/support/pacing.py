"""Links of a chosen width before servers, for all of their connections together."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final, Self

PIECE: Final = 1 << 16
_NOTHING_LEFT: Final = b""


class Pace:
    """One direction of a link."""

    def __init__(self, bytes_per_second: float) -> None:
        self.num_bytes = 0
        self._rate = bytes_per_second
        self._free_at = 0.0
        self._lock = threading.Lock()

    def wait(self, size: int) -> None:
        """Hold the caller until so many bytes are through."""
        with self._lock:
            self.num_bytes += size
            self._free_at = max(self._free_at, time.monotonic()) + size / self._rate
            until = self._free_at
        time.sleep(max(0.0, until - time.monotonic()))


class Link:
    """Passes every connection on to one port of this machine; a context manager."""

    def __init__(self, port: int, *, bytes_per_second: float = float("inf")) -> None:
        self._to = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.forth = Pace(bytes_per_second)
        self.back = Pace(bytes_per_second)
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        """Begin to pass on."""
        self._begin(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        """End every connection."""
        for each in (self._listener, *self._ends):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(10)

    def _begin(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                near, _ = self._listener.accept()
                self._join(near)

    def _join(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(self._to)
        except OSError:
            near.close()  # whoever connects tries again
            return
        for each in (near, far):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._ends.append(each)
        self._begin(partial(_pass_on, near, far, self.forth))
        self._begin(partial(_pass_on, far, near, self.back))


def _pass_on(source: socket.socket, target: socket.socket, pace: Pace) -> None:
    with contextlib.suppress(OSError):  # either end is gone
        while (piece := source.recv(PIECE)) != _NOTHING_LEFT:
            pace.wait(len(piece))
            target.sendall(piece)
    for each in (source, target):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
