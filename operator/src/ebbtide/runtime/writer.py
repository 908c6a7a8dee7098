"""
The process beside a trainer that writes its checkpoints: `python -m ebbtide.runtime.writer FD`.

It holds the memory that a state was copied into, and takes orders over a socket, one at a time. It
writes in small pieces with pauses between them, so that the trainer does not feel it; told to
hurry, it pauses no more. Right before a checkpoint would become visible it asks whether it still
may. When the trainer is gone it leaves nothing behind and ends: the right to save is gone too.

No torch here, so it is small and there at once. Orders and answers are JSON, one per packet.
"""

import contextlib
import errno
import json
import mmap
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from ebbtide.runtime import archive
from ebbtide.runtime.archive import Facts, LostDuty
from ebbtide.runtime.stores import Store, describe_failure, open_store

PIECE_BYTES: Final = 1 << 22
MAX_PACKET: Final = 1 << 16
PROGRESS_SECONDS: Final = 1.0
NICENESS: Final = 19
DUTY: Final = 0.2
"""The part of its time that a paced write is busy: the rest belongs to whoever trains beside it."""
_DEAF_TO: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class GoneError(Exception):
    """The trainer is gone."""


class Writer:
    """Carries out the orders of one trainer."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._stores: dict[tuple[str, str], Store] = {}
        self._hurry = False

    def serve(self) -> None:
        """Take orders until the trainer is gone."""
        with contextlib.suppress(GoneError):
            while True:
                order, memory = self._receive()
                if memory is None:
                    continue  # to hurry, after the end of what was to be hurried
                with mmap.mmap(memory, 0, prot=mmap.PROT_READ) as area:
                    os.close(memory)
                    answer = self._carry_out(order, area)
                self._send(answer)
                if "done" in answer:
                    archive.tidy(self._store(order), retain=order["retain"])

    def _carry_out(self, order: dict[str, Any], area: mmap.mmap) -> dict[str, Any]:
        self._hurry = False
        pieces = _Pieces(order, area, self)
        facts = Facts(**{name: order[name] for name in Facts.__dataclass_fields__})
        try:
            store = self._store(order)
            manifest = archive.record(store, facts, pieces.give(), may_commit=self._may_commit)
        except LostDuty:
            return {"dropped": True}
        except (OSError, ValueError) as error:
            url = order["url"]
            text = describe_failure(error, url) if isinstance(error, OSError) else str(error)
            return {"failed": text}
        finally:
            pieces.release()
        return {"done": asdict(manifest), "paused": pieces.paused}

    def _store(self, order: dict[str, Any]) -> Store:
        key = (order["url"], order["owner"])
        if key not in self._stores:
            self._stores[key] = open_store(key[0], owner=key[1])
        return self._stores[key]

    def pause(self, seconds: float) -> float:
        """Wait, unless told to hurry; return how long it was."""
        began = time.monotonic()
        while not self._hurry and (left := began + seconds - time.monotonic()) > 0:
            self._listen(left)
        self._listen(0)
        return time.monotonic() - began

    def tell(self, written: int) -> None:
        """Say how far it is."""
        self._send({"written": written})

    def _may_commit(self) -> bool:
        self._send({"asks": True})
        while True:
            answer, _ = self._receive()
            if "commit" in answer:
                return bool(answer["commit"])
            self._note(answer)

    def _listen(self, seconds: float) -> None:
        if select.select([self._line], [], [], seconds)[0]:
            self._note(self._receive()[0])

    def _note(self, word: dict[str, Any]) -> None:
        self._hurry = self._hurry or "hurry" in word

    def _send(self, answer: dict[str, Any]) -> None:
        try:
            self._line.send(json.dumps(answer).encode())
        except OSError as error:
            raise GoneError from error

    def _receive(self) -> tuple[dict[str, Any], int | None]:
        try:
            packet, descriptors, _, _ = socket.recv_fds(self._line, MAX_PACKET, 1)
        except OSError as error:
            raise GoneError from error
        if not packet:
            raise GoneError
        return json.loads(packet), descriptors[0] if descriptors else None


class _Pieces:
    """The bytes of one order, with pauses between them."""

    def __init__(self, order: dict[str, Any], area: mmap.mmap, writer: Writer) -> None:
        self._whole = memoryview(area)
        self._ranges: list[tuple[int, int]] = order["ranges"]
        self._left = sum(end - start for start, end in self._ranges)
        self._until = time.monotonic() + float(order["spread_seconds"])
        self._writer = writer
        self.paused = 0.0  # seconds

    def give(self) -> Iterator[memoryview]:
        """Give them all, spread over the time that the order allows."""
        told = time.monotonic()
        total = self._left
        for start, end in self._ranges:
            for at in range(start, end, PIECE_BYTES):
                piece = self._whole[at : min(at + PIECE_BYTES, end)]
                began = time.monotonic()
                yield piece
                self._left -= len(piece)
                piece.release()
                self.paused += self._writer.pause(self._pause(time.monotonic() - began))
                if time.monotonic() - told >= PROGRESS_SECONDS:
                    told = time.monotonic()
                    self._writer.tell(total - self._left)

    def _pause(self, seconds: float) -> float:
        """Return how long to pause after a piece that took so long: less as time runs out."""
        to_come = -(-self._left // PIECE_BYTES)
        if to_come == 0:
            return 0.0
        affordable: float = (self._until - time.monotonic()) / to_come - seconds
        return min(seconds * (1 / DUTY - 1), max(0.0, affordable))

    def release(self) -> None:
        """Let go of the memory, so that its mapping can end."""
        self._whole.release()


def main() -> None:
    """Serve the trainer at the other end of the socket that was passed on."""
    for number in _DEAF_TO:
        signal.signal(number, signal.SIG_IGN)  # it ends with the trainer, which may still save
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    line = socket.socket(fileno=int(sys.argv[1]))
    try:
        Writer(line).serve()
    except OSError as error:
        if error.errno != errno.EPIPE:
            raise


if __name__ == "__main__":
    main()
