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
import gc
import logging
import os
import signal
import socket
import threading
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


def release(
    *, coordinator: tuple[str, int], token: bytes, address: str, hello: Canary
) -> threading.Thread:
    """Start a thread that is one; it ends when the coordinator closes the connection."""
    thread = threading.Thread(
        target=_sing,
        kwargs={"coordinator": coordinator, "token": token, "address": address, "hello": hello},
        name="ebbtide-canary",
        daemon=True,
    )
    thread.start()
    return thread


def _sing(*, coordinator: tuple[str, int], token: bytes, address: str, hello: Canary) -> None:
    """
    Have one descriptor of all, and wait for its end.

    The connection is made in the thread's own table, or a fork in another thread would copy it.
    Whatever Python closed in this thread that is not its own, say in a collection of garbage, it
    would close in the wrong table: so none is collected until there is nothing more to do but to
    wait. A signal's wake-up would be written into the wrong table, too.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    libc = ctypes.CDLL(None, use_errno=True)
    error = _own_table(libc)
    if error:
        log.info("no canary: %s", os.strerror(error))
        return
    collects = gc.isenabled()
    gc.disable()
    try:
        descriptor = _connect(coordinator, token=token, address=address, hello=hello)
    except (OSError, FrameError) as failure:
        log.info("no canary: %s", failure)
        return
    finally:
        if collects:
            gc.enable()
    byte = ctypes.create_string_buffer(1)
    while libc.recv(descriptor, byte, 1, 0) == -1 and ctypes.get_errno() == errno.EINTR:
        pass
    libc.close(descriptor)


def _own_table(libc: ctypes.CDLL) -> int:
    """Give the calling thread an empty table of its own; return errno, 0 = done."""
    # Container runtimes filter unshare(2) and let this one through, so it comes first.
    close_range = getattr(libc, "close_range", None)  # glibc has it since 2.34
    if close_range is not None and close_range(_FIRST, ctypes.c_uint(_LAST), _UNSHARE) == 0:
        return 0
    if libc.unshare(_CLONE_FILES) != 0:
        return ctypes.get_errno() or errno.ENOSYS
    os.closerange(_FIRST, os.sysconf("SC_OPEN_MAX"))
    return 0


def _connect(coordinator: tuple[str, int], *, token: bytes, address: str, hello: Canary) -> int:
    """Connect, greet and say whose canary this is; return the descriptor."""
    source = (address, 0) if address else None
    with socket.create_connection(
        coordinator, timeout=GREETING_SECONDS, source_address=source
    ) as connection:
        _greet(connection, token=token)
        sockets.watch_peer(connection)
        connection.settimeout(None)
        connection.sendall(encode(hello))
        return connection.detach()


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
