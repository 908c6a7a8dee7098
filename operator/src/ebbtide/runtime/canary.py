"""
A connection to the coordinator that ends within a millisecond of its process being killed.

The kernel closes a killed process's sockets after it has torn down the memory: 20 ms late for a
small trainer, 50 ms more for each gigabyte, and later still while a forked child (a data loader)
holds a copy. But a thread may have a table of descriptors of its own, and a thread that dies drops
its table at once. So one thread holds nothing but this connection, and nobody else has it.

Where the kernel or a filter of system calls refuses such a table, there is no canary, and a loss is
noticed as it was before.
"""

import ctypes
import errno
import logging
import os
import signal
import socket
import threading
from dataclasses import dataclass, field
from typing import Final

from ebbtide.runtime import sockets
from ebbtide.wire.frames import Decoder, FrameError, encode, prove
from ebbtide.wire.messages import PROTOCOL, Answer, Canary, Challenge, Refused

GREETING_SECONDS: Final = 5.0
READ_BYTES: Final = 1 << 16
_FIRST: Final = 3  # the standard streams stay
_LAST: Final = (1 << 32) - 1
_UNSHARE: Final = 2  # CLOSE_RANGE_UNSHARE
_CLONE_FILES: Final = 0x400

log = logging.getLogger("ebbtide.runtime")


@dataclass(slots=True)
class _Perch:
    """What the thread that holds a connection tells the one that made it."""

    descriptor: int
    ready: threading.Event = field(default_factory=threading.Event)
    error: int = 0


def release(
    *, coordinator: tuple[str, int], token: bytes, address: str, hello: Canary
) -> threading.Thread:
    """Start to set one up, in a thread; it ends when the coordinator closes the connection."""
    thread = threading.Thread(
        target=_set_up,
        kwargs={"coordinator": coordinator, "token": token, "address": address, "hello": hello},
        name="ebbtide-canary-setup",
        daemon=True,
    )
    thread.start()
    return thread


def _set_up(*, coordinator: tuple[str, int], token: bytes, address: str, hello: Canary) -> None:
    """Connect and greet; hand the connection to a thread that has nothing else; let go of it."""
    try:
        with socket.create_connection(
            coordinator, timeout=GREETING_SECONDS, source_address=(address, 0) if address else None
        ) as connection:
            _greet(connection, token=token)
            sockets.watch_peer(connection)
            connection.settimeout(None)
            perch = _Perch(connection.fileno())
            holder = threading.Thread(
                target=_hold, args=(perch,), name="ebbtide-canary", daemon=True
            )
            holder.start()
            perch.ready.wait()
            if perch.error:
                log.info("no canary: %s", os.strerror(perch.error))
                return
            connection.sendall(encode(hello))  # only now would the end of it mean an end of ours
    except (OSError, FrameError) as error:
        log.info("no canary: %s", error)


def _greet(connection: socket.socket, *, token: bytes) -> None:
    decoder = Decoder(Challenge | Refused)
    while data := connection.recv(READ_BYTES):
        for message in decoder.feed(data):
            if not isinstance(message, Challenge):
                raise ConnectionRefusedError(message.reason)
            digest = prove(token=token, nonce=message.nonce, side="worker")
            connection.sendall(encode(Answer(protocol=PROTOCOL, side="worker", digest=digest)))
            return
    raise ConnectionResetError("the coordinator closed the connection")


def _hold(perch: _Perch) -> None:
    """
    Have one descriptor of all, and wait for its end.

    Little happens here on purpose: whatever Python closed in this thread, say in a collection of
    garbage, it would close in the wrong table; a signal's wake-up would be written into it too.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    libc = ctypes.CDLL(None, use_errno=True)
    perch.error = _keep_only(libc, perch.descriptor)
    perch.ready.set()
    if not perch.error:
        byte = ctypes.create_string_buffer(1)
        while libc.recv(perch.descriptor, byte, 1, 0) == -1 and ctypes.get_errno() == errno.EINTR:
            pass
        libc.close(perch.descriptor)


def _keep_only(libc: ctypes.CDLL, descriptor: int) -> int:
    """Give the calling thread a table of its own with this descriptor; return errno, 0 = done."""
    above = descriptor + 1
    # Container runtimes filter unshare(2) and let this one through, so it comes first.
    close_range = getattr(libc, "close_range", None)  # glibc has it since 2.34
    if close_range is None or close_range(above, ctypes.c_uint(_LAST), _UNSHARE) != 0:
        if libc.unshare(_CLONE_FILES) != 0:
            return ctypes.get_errno() or errno.ENOSYS
        os.closerange(above, os.sysconf("SC_OPEN_MAX"))
    os.closerange(_FIRST, descriptor)
    return 0
