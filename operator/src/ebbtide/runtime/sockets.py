"""
The sockets under a process group, found and shut: the only way to end a blocked gloo call.

gloo has no abort: a call that waits for a peer waits its whole time-out, from whichever thread one
asks. Shutting its connections down ends it within two milliseconds. They are found by inode, never
by descriptor number, since a number is reused at once; and what we hold is a duplicate, so that
nothing can be closed under us.
"""

import contextlib
import os
import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

DESCRIPTORS: Final = Path("/proc/self/fd")

# A peer whose machine or network is gone answers nothing: the kernel gives the connection up after
# so long. A peer that merely computes for long acknowledges, and is waited for.
UNANSWERED_MILLISECONDS: Final = 4000
_PROBE_SECONDS: Final = 1
_PROBES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Spared:
    """Connections that are not the group's: to this port, or taken at that one."""

    far: int
    near: int


def list_sockets() -> dict[str, int]:
    """Return this process's sockets: inode name to descriptor."""
    # As bare strings: objects for paths took longer than all else that forming a group does here.
    found = {}
    for name in os.listdir(DESCRIPTORS):  # noqa: PTH208 -- bare strings, for speed
        try:
            link = os.readlink(f"{DESCRIPTORS}/{name}")  # noqa: PTH115 -- bare strings, for speed
        except OSError:
            continue  # the listing's own, or closed meanwhile
        if link.startswith("socket:"):
            found[link] = int(name)
    return found


def hold_new(
    before: Mapping[str, int], *, addresses: Collection[str], spared: Spared
) -> list[socket.socket]:
    """
    Return duplicates of the connections made since `before` to or at one of these addresses.

    `spared` names those that must be left alone.
    """
    held: list[socket.socket] = []
    for inode, descriptor in list_sockets().items():
        if inode in before:
            continue
        duplicate = _duplicate(inode, descriptor)
        if duplicate is None:
            continue
        if _is_between(duplicate, addresses, spared):
            held.append(duplicate)
        else:
            duplicate.close()
    return held


def watch_peer(connection: socket.socket) -> None:
    """Let the kernel end a connection whose far end no longer answers."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _PROBE_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNANSWERED_MILLISECONDS)


def shut(connections: Collection[socket.socket]) -> None:
    """Shut connections down in both directions and let go of them."""
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()


def _duplicate(inode: str, descriptor: int) -> socket.socket | None:
    try:
        copy = os.dup(descriptor)
    except OSError:
        return None
    try:
        if str((DESCRIPTORS / str(copy)).readlink()) == inode:
            return socket.socket(fileno=copy)
    except OSError:
        pass
    os.close(copy)  # the number was reused between the look and the dup
    return None


def _is_between(connection: socket.socket, addresses: Collection[str], spared: Spared) -> bool:
    if connection.type != socket.SOCK_STREAM:
        return False
    try:
        near, far = _end(connection.getsockname()), _end(connection.getpeername())
    except OSError:
        return False  # listening, or already gone
    if far[1] == spared.far or near[1] == spared.near:
        return False
    return near[0] in addresses or far[0] in addresses


def _end(name: object) -> tuple[str, int]:
    match name:
        case (str(host), int(port), *_):
            return host.removeprefix("::ffff:"), port
        case _:
            return "", 0
