"""The addresses of a node and its pods."""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

FIRST_POD: Final = 2
LAST_POD: Final = 254


class Addresses(Protocol):
    """Whoever can give this machine an address and take it away again."""

    def add(self, ip: str) -> None:
        """Make the address ours; it is no error when it is already."""

    def remove(self, ip: str) -> None:
        """Give the address up; it is no error when it is not ours."""


class LoopbackAddresses:
    """Does nothing: all of 127.0.0.0/8 belongs to the loopback interface anyway."""

    def add(self, ip: str) -> None:
        """Do nothing."""

    def remove(self, ip: str) -> None:
        """Do nothing."""


class Ring:
    """
    The pod addresses of one node, each used again as late as possible.

    A peer may still talk to the address of a dead pod, and must not reach a new one there.
    """

    def __init__(self, node_ip: str) -> None:
        """Take the /24 network of the node."""
        network = node_ip.rpartition(".")[0]
        self._free = deque(f"{network}.{host}" for host in range(FIRST_POD, LAST_POD + 1))

    def claim(self, wanted: str | None = None) -> str:
        """
        Return the wanted address if nobody has it, else the one that has been free the longest.

        After a reboot a pod of before asks for its own; a new one may have got it first.
        """
        if wanted is not None and wanted in self._free:
            self._free.remove(wanted)
            return wanted
        if not self._free:
            message = "every pod address of the node is in use"
            raise RuntimeError(message)
        return self._free.popleft()

    def release(self, ip: str) -> None:
        """Put an address at the end of the queue."""
        if ip not in self._free:
            self._free.append(ip)
