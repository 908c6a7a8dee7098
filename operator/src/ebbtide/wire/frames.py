"""
Frames: four bytes of length, big-endian, then that many bytes of JSON.

A frame that is too long, or not the JSON of a known message, is a `FrameError`; whoever reads
closes that one connection.
"""

import hashlib
import hmac
import struct
from collections.abc import Iterator
from typing import Any, Final, cast

import msgspec

from ebbtide.wire.messages import Message

MAX_FRAME: Final = 1 << 20
_HEAD: Final = struct.Struct(">I")


class FrameError(ValueError):
    """What came over the socket is no frame of this protocol."""


def encode(message: Message) -> bytes:
    """Return the frame of one message."""
    body = msgspec.json.encode(message)
    if len(body) > MAX_FRAME:
        msg = f"a {type(message).__name__} of {len(body)} bytes does not fit a frame of {MAX_FRAME}"
        raise FrameError(msg)
    return _HEAD.pack(len(body)) + body


class Decoder:
    """Cuts a byte stream into messages of the given (union of) types."""

    def __init__(self, kinds: object, *, limit: int = MAX_FRAME) -> None:
        self._limit = limit
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(cast("Any", kinds))
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        """Take bytes as they come; yield every message that is complete."""
        self._buffer += data
        while len(self._buffer) >= _HEAD.size:
            (length,) = _HEAD.unpack_from(self._buffer)
            if length > self._limit:
                msg = f"a frame of {length} bytes is announced, the limit is {self._limit}"
                raise FrameError(msg)
            end = _HEAD.size + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_HEAD.size : end])
            del self._buffer[:end]
            yield self.decode(body)

    def decode(self, body: bytes) -> Any:  # noqa: ANN401 -- the union given at construction
        """Return the message in one frame's body."""
        try:
            return self._decoder.decode(body)
        except (msgspec.MsgspecError, RecursionError) as error:
            msg = f"not a message of this protocol: {error}"
            raise FrameError(msg) from error


def prove(*, token: bytes, nonce: str, side: str) -> str:
    """Return the digest that shows knowledge of the token without sending it."""
    return hmac.new(token, f"{nonce}:{side}".encode(), hashlib.sha256).hexdigest()


def is_proof(digest: str, *, token: bytes, nonce: str, side: str) -> bool:
    """Tell, in constant time, whether a digest proves knowledge of the token."""
    proof = prove(token=token, nonce=nonce, side=side).encode()
    return hmac.compare_digest(digest.encode(), proof)  # of texts it takes ASCII only
