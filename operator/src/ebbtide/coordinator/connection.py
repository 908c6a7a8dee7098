"""One accepted connection: frames in, frames out, and limits on both."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any, Final

from ebbtide.wire.frames import MAX_FRAME, Decoder, FrameError, encode
from ebbtide.wire.greeting import find_fault
from ebbtide.wire.messages import (
    PROTOCOL,
    Answer,
    Canary,
    Challenge,
    Message,
    Refused,
    Register,
    RegisterServer,
)

GREETING_SECONDS: Final = 5.0
GREETING_BYTES: Final = 4096  # a stranger may not make us hold more
MAX_UNSENT_BYTES: Final = 4 << 20  # a reader that is further behind is dropped
READ_BYTES: Final = 1 << 16
SIDES: Final = ("worker", "server", "operator")
LINGER_SECONDS: Final = 5.0  # what is unsent this long after closing is given up


class Rejected(Exception):  # noqa: N818 -- says what happened to the caller
    """The caller does not get in; the text says why."""


class Connection:
    """Reads and writes messages; never waits for a slow reader."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @property
    def peer(self) -> str:
        """Who is at the other end."""
        name = self._writer.get_extra_info("peername")
        return f"{name[0]}:{name[1]}" if name else "unknown"

    @property
    def host(self) -> str:
        """The address of the other end."""
        name = self._writer.get_extra_info("peername")
        return str(name[0]) if name else ""

    def send(self, message: Message) -> None:
        """Queue a message; a reader that is too far behind is cut off."""
        if self._writer.is_closing():
            return
        self._writer.write(encode(message))
        if self._writer.transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self._writer.transport.abort()

    def close(self) -> None:
        """Close once what was sent is out, or soon."""
        if self._writer.is_closing():
            return
        self._writer.close()
        asyncio.get_running_loop().call_later(LINGER_SECONDS, self._writer.transport.abort)

    def abort(self) -> None:
        """Close at once."""
        self._writer.transport.abort()

    async def greet(self, *, token: bytes, attempt: int) -> str:
        """Make the caller prove itself; return the side it speaks for."""
        nonce = secrets.token_hex(16)
        self.send(Challenge(protocol=PROTOCOL, nonce=nonce, attempt=attempt))
        answer: Answer = await self._read_one(Answer, limit=GREETING_BYTES)
        why = find_fault(
            answer, token=token, nonce=nonce, sides=SIDES, caller=self.peer, here="coordinator"
        )
        if why:
            self.send(Refused(reason=why))
            self.close()
            raise Rejected(why)
        return answer.side

    async def read_first(self) -> Register | Canary:
        """Read what a worker process begins with, within the time of a greeting."""
        said: Register | Canary = await self._read_one(Register | Canary, limit=MAX_FRAME)
        return said

    async def read_server(self) -> RegisterServer:
        """Read what a parameter server begins with, within the time of a greeting."""
        said: RegisterServer = await self._read_one(RegisterServer, limit=MAX_FRAME)
        return said

    async def read(self, kinds: object) -> AsyncIterator[Any]:
        """Yield messages until the other end closes."""
        decoder = Decoder(kinds)
        while data := await self._reader.read(READ_BYTES):
            for message in decoder.feed(data):
                yield message

    async def _read_one(self, kinds: object, *, limit: int) -> Any:  # noqa: ANN401 -- of these kinds
        async with asyncio.timeout(GREETING_SECONDS):
            head = await self._reader.readexactly(4)
            length = int.from_bytes(head, "big")
            decoder = Decoder(kinds, limit=limit)
            for _ in decoder.feed(head):  # checks the announced length
                raise FrameError("an empty frame")
            return decoder.decode(await self._reader.readexactly(length))
