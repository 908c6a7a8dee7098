"""
The three things the world asks of the kernel's network: lo up, an address more, one less.

Written against rtnetlink itself: it has to work inside a running event loop and from a process
that has just become its namespace's only inhabitant, and needs no program to be installed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct

SIOCGIFFLAGS = 0x8913
SIOCSIFFLAGS = 0x8914
IFF_UP = 0x1

RTM_NEWADDR = 20
RTM_DELADDR = 21
NLM_F_REQUEST = 0x1
NLM_F_ACK = 0x4
NLM_F_CREATE = 0x400
NLMSG_ERROR = 2
IFA_ADDRESS = 1
IFA_LOCAL = 2
HEADER = struct.Struct("=IHHII")
ADDRESS = struct.Struct("=BBBBi")
ATTRIBUTE = struct.Struct("=HH4s")
ERROR_CODE = struct.Struct("=i")
HOST_PREFIX = 32
ANSWER_SECONDS = 5.0
ANSWER_BYTES = 65_536


def raise_loopback() -> None:
    """Bring `lo` up; it is down in a new namespace."""
    request = struct.Struct("=16sH14x")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        answer = fcntl.ioctl(control, SIOCGIFFLAGS, request.pack(b"lo", 0))
        _, flags = request.unpack(answer)
        fcntl.ioctl(control, SIOCSIFFLAGS, request.pack(b"lo", flags | IFF_UP))


def add_address(address: str) -> None:
    """Give `lo` one more address; it is fine if it is there already."""
    _change_address(RTM_NEWADDR, NLM_F_CREATE, address, errno.EEXIST)


def remove_address(address: str) -> None:
    """Take an address from `lo`; it is fine if it is gone already."""
    _change_address(RTM_DELADDR, 0, address, errno.EADDRNOTAVAIL)


def _change_address(kind: int, flags: int, address: str, harmless: int) -> None:
    packed = socket.inet_aton(address)
    index = socket.if_nametoindex("lo")
    body = ADDRESS.pack(socket.AF_INET, HOST_PREFIX, 0, 0, index)
    body += b"".join(ATTRIBUTE.pack(8, name, packed) for name in (IFA_LOCAL, IFA_ADDRESS))
    length = HEADER.size + len(body)
    message = HEADER.pack(length, kind, NLM_F_REQUEST | NLM_F_ACK | flags, 1, 0) + body
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.settimeout(ANSWER_SECONDS)
        kernel.bind((0, 0))
        kernel.send(message)
        answer = kernel.recv(ANSWER_BYTES)
    code = _read_error(answer)
    if code not in (0, harmless):
        raise OSError(code, f"{os.strerror(code)}: address {address} on lo")


def _read_error(answer: bytes) -> int:
    if len(answer) < HEADER.size + ERROR_CODE.size:
        return errno.EBADMSG
    _, kind, _, _, _ = HEADER.unpack_from(answer)
    if kind != NLMSG_ERROR:
        return errno.EBADMSG
    (code,) = ERROR_CODE.unpack_from(answer, HEADER.size)
    return -int(code)
