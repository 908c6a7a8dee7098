"""
One connection between a worker and a server: small checked frames, and tensors beside them.

Frames are those of the trainer protocol: four bytes of length, then JSON. Tensors travel as plain
bytes after the frame that announces them, read straight into the memory they are meant for. Nothing
here waits longer than it is told; what cannot be right ends this connection and no other.
"""

import contextlib
import secrets
import select
import socket
import struct
import threading
import time
from collections.abc import Iterable
from typing import Any, Final, TypeVar

import msgspec
import torch
from torch import Tensor

from ebbtide.runtime.paramserver.messages import ROLES
from ebbtide.wire.frames import FrameError, prove
from ebbtide.wire.greeting import find_fault
from ebbtide.wire.messages import PROTOCOL, Answer, Challenge, Message, Refused

MAX_CONTROL: Final = 8 << 20  # a description of ten thousand parameters fits
MAX_GREETING: Final = 4096  # a stranger may not make us hold more
GREETING_SECONDS: Final = 5.0
SEND_SECONDS: Final = 20.0  # without a byte taken: the other end is not there
READ_SECONDS: Final = 60.0  # in the middle of a frame or a tensor
_CHUNK: Final = 1 << 22
_HEAD: Final = struct.Struct(">I")

Kind = TypeVar("Kind", bound=Message)


class ChannelClosed(ConnectionError):  # noqa: N818 -- says what happened
    """The other end is gone, does not answer, or said something that cannot be."""


class Channel:
    """A connection. One thread reads; any thread may send."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._lock = threading.Lock()
        self._head = bytearray(_HEAD.size)
        try:
            self._far: tuple[str, int] = sock.getpeername()[:2]
        except OSError as error:
            raise ChannelClosed(f"the other end is gone: {error}") from error
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(SEND_SECONDS)

    @property
    def host(self) -> str:
        """The address of the other end."""
        return self._far[0]

    @property
    def peer(self) -> str:
        """Who is at the other end."""
        return f"{self._far[0]}:{self._far[1]}"

    def fileno(self) -> int:
        """Return the descriptor, to wait on several channels at a time."""
        return self._sock.fileno()

    def close(self) -> None:
        """End it: whoever reads or writes here learns at once."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    # ------------------------------------------------------------ sending

    def send(self, message: Message, tensors: Iterable[Tensor] = ()) -> None:
        """Send a frame, and the bytes of contiguous tensors on the CPU right after it."""
        body = msgspec.json.encode(message)
        if len(body) > MAX_CONTROL:
            raise FrameError(f"a {type(message).__name__} of {len(body)} bytes is too long")
        with self._lock:
            try:
                self._sock.sendall(_HEAD.pack(len(body)) + body)
                for tensor in tensors:
                    self._send_tensor(tensor)
            except OSError as error:
                raise ChannelClosed(f"sending failed: {error}") from error

    def _send_tensor(self, tensor: Tensor) -> None:
        view = bytes_of(tensor)
        for start in range(0, len(view), _CHUNK):  # each chunk has its own time
            self._sock.sendall(view[start : start + _CHUNK])

    # ------------------------------------------------------------ reading

    def read(self, kinds: Any, *, limit: int = MAX_CONTROL, seconds: float | None = None) -> Any:
        """Return the next message of these types, whole within a time; wait for ever without."""
        until = None if seconds is None else time.monotonic() + seconds
        if not self._wait(until):
            raise ChannelClosed(f"nothing came within {seconds} s")
        self._fill(memoryview(self._head), until=until)
        (length,) = _HEAD.unpack(self._head)
        if length > limit:
            raise FrameError(f"a frame of {length} bytes is announced, the limit is {limit}")
        body = bytearray(length)
        self._fill(memoryview(body), until=until)
        try:
            return _decoder(kinds).decode(body)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise FrameError(f"not a message that is expected here: {error}") from error

    def read_into(self, tensor: Tensor) -> None:
        """Fill a contiguous tensor on the CPU with what comes next."""
        self._fill(bytes_of(tensor))

    def _wait(self, until: float | None) -> bool:
        """Wait for something to read, or the end; tell whether it came in time."""
        # Not by the socket's own time-out: that one is also the one of whoever sends meanwhile.
        try:
            poll = select.poll()
            poll.register(self._sock, select.POLLIN)
            left = None if until is None else max(0.0, until - time.monotonic()) * 1000
            return bool(poll.poll(left))
        except (OSError, ValueError) as error:
            raise ChannelClosed(f"reading failed: {error}") from error

    def _fill(self, view: memoryview, *, until: float | None = None) -> None:
        """Fill some memory by a time; without one, as long as a megabyte a second keeps coming."""
        began = time.monotonic()
        done = 0
        while done < len(view):
            if until is not None and not self._wait(until):
                raise ChannelClosed(f"{done} of {len(view)} bytes came in the time there was")
            try:
                count = self._sock.recv_into(view[done:])
            except (OSError, ValueError) as error:
                raise ChannelClosed(f"reading failed: {error}") from error
            if count == 0:
                raise ChannelClosed("the other end closed the connection")
            done += count
            if done < len(view) and time.monotonic() > began + READ_SECONDS + done / 1e6:
                raise ChannelClosed("the other end sends too slowly")


_DECODERS: dict[Any, "msgspec.json.Decoder[Any]"] = {}


def _decoder(kinds: Any) -> "msgspec.json.Decoder[Any]":
    if kinds not in _DECODERS:
        _DECODERS[kinds] = msgspec.json.Decoder(kinds)
    return _DECODERS[kinds]


def bytes_of(tensor: Tensor) -> memoryview:
    """Return a contiguous tensor's own memory as bytes."""
    flat = tensor.detach().view(-1).view(torch.uint8)
    memory: Any = flat.numpy()
    return memoryview(memory)


# ---------------------------------------------------------------- beginning a connection


def connect(address: tuple[str, int], *, token: bytes, role: str, seconds: float) -> Channel:
    """Connect to a server and prove that we belong to the job."""
    try:
        channel = Channel(socket.create_connection(address, timeout=seconds))
    except OSError as error:
        raise ChannelClosed(f"{address[0]}:{address[1]}: {error}") from error
    try:
        challenge = channel.read(Challenge | Refused, limit=MAX_GREETING, seconds=seconds)
        _check(challenge)
        digest = prove(token=token, nonce=challenge.nonce, side=role)
        channel.send(Answer(protocol=PROTOCOL, side=role, digest=digest))
    except (ChannelClosed, FrameError):
        channel.close()
        raise
    return channel


def _check(challenge: Challenge | Refused) -> None:
    if isinstance(challenge, Refused):
        raise ChannelClosed(f"refused: {challenge.reason}")
    if challenge.protocol != PROTOCOL:
        raise ChannelClosed(
            f"the server speaks protocol {challenge.protocol}, this process {PROTOCOL}: use images"
            " of one release"
        )


def welcome(channel: Channel, *, token: bytes, attempt: int) -> str:
    """Make a caller prove itself; return its role, or raise `ChannelClosed` after telling why."""
    nonce = secrets.token_hex(16)
    channel.send(Challenge(protocol=PROTOCOL, nonce=nonce, attempt=attempt))
    answer: Answer = channel.read(Answer, limit=MAX_GREETING, seconds=GREETING_SECONDS)
    why = find_fault(
        answer, token=token, nonce=nonce, sides=ROLES, caller=channel.peer, here="parameter server"
    )
    if why:
        channel.send(Refused(reason=why))
        raise ChannelClosed(why)
    return answer.side
