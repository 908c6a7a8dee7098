"""
The operator's line to one coordinator: prove, ask, read the answer; every wait has a limit.

One call at a time on one connection, which is made when it is needed and given up after any error,
so that a late answer is never taken for the answer to something else.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from ebbtide.cluster.errors import ClusterError
from ebbtide.wire.frames import Decoder, FrameError, encode, prove
from ebbtide.wire.messages import (
    PROTOCOL,
    Answer,
    Call,
    Challenge,
    Refused,
    Reply,
    Report,
    WorkSpec,
)

CONNECT_SECONDS: Final = 2.0
ANSWER_SECONDS: Final = 3.0  # beyond what a long poll asks for
READ_BYTES: Final = 1 << 16
_FromCoordinator = Challenge | Refused | Reply


class CoordinatorUnreachable(ClusterError):  # noqa: N818 -- a state of the world, not a mistake
    """No answer came from the coordinator."""


class CallRefused(ClusterError):  # noqa: N818 -- an answer: no
    """The coordinator answered that it will not do what was asked."""


class CoordinatorClient:
    """One coordinator, reached at one address."""

    def __init__(self, host: str, port: int, token: bytes) -> None:
        self._host = host
        self._port = port
        self._token = token
        self._lock = asyncio.Lock()
        self._writer: asyncio.StreamWriter | None = None
        self._answers: AsyncIterator[_FromCoordinator] | None = None
        self._last_id = 0

    async def call(
        self,
        name: str,
        *,
        worker: str = "",
        on: bool = True,
        seconds: float = 0.0,
        work: WorkSpec | None = None,
        since: int = -1,
        wait: float = 0.0,
    ) -> Report | None:
        """Ask; `CoordinatorUnreachable` when no answer comes, `CallRefused` when it is no."""
        async with self._lock:
            self._last_id += 1
            asked = Call(
                id=self._last_id,
                name=name,
                worker=worker,
                on=on,
                seconds=seconds,
                work=work,
                since=since,
                wait=wait,
            )
            reply = await self._exchange(asked)
        if reply.error:
            raise CallRefused(reply.error)
        return reply.report

    async def close(self) -> None:
        """Hang up."""
        self._hang_up()

    async def _exchange(self, asked: Call) -> Reply:
        is_done = False
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                writer, answers = await self._connect()
            async with asyncio.timeout(asked.wait + ANSWER_SECONDS):
                writer.write(encode(asked))
                await writer.drain()
                reply = await _read_reply(answers)
            is_done = reply.id == asked.id
        except TimeoutError as error:
            raise CoordinatorUnreachable(f"{self._name} does not answer") from error
        except (OSError, FrameError) as error:
            raise CoordinatorUnreachable(f"{self._name}: {error}") from error
        finally:
            if not is_done:
                self._hang_up()
        if not is_done:
            raise CoordinatorUnreachable(f"{self._name} answered something else")
        return reply

    async def _connect(
        self,
    ) -> tuple[asyncio.StreamWriter, AsyncIterator[_FromCoordinator]]:
        if self._writer is not None and self._answers is not None:
            return self._writer, self._answers
        reader, self._writer = await asyncio.open_connection(self._host, self._port)
        self._answers = _read(reader)
        challenge = await _next(self._answers)
        if not isinstance(challenge, Challenge) or challenge.protocol != PROTOCOL:
            raise FrameError("no challenge of our protocol came")
        digest = prove(token=self._token, nonce=challenge.nonce, side="operator")
        self._writer.write(encode(Answer(protocol=PROTOCOL, side="operator", digest=digest)))
        return self._writer, self._answers

    def _hang_up(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
        self._writer = None
        self._answers = None

    @property
    def _name(self) -> str:
        return f"the coordinator at {self._host}:{self._port}"


async def _read(reader: asyncio.StreamReader) -> AsyncIterator[_FromCoordinator]:
    decoder = Decoder(_FromCoordinator)
    while data := await reader.read(READ_BYTES):
        for message in decoder.feed(data):
            yield message


async def _next(answers: AsyncIterator[_FromCoordinator]) -> _FromCoordinator:
    try:
        message = await anext(answers)
    except StopAsyncIteration:
        raise ConnectionResetError("it closed the connection") from None
    if isinstance(message, Refused):
        raise ConnectionRefusedError(f"it refused: {message.reason}")
    return message


async def _read_reply(answers: AsyncIterator[_FromCoordinator]) -> Reply:
    message = await _next(answers)
    if not isinstance(message, Reply):
        raise FrameError(f"a {type(message).__name__} came instead of a reply")
    return message
