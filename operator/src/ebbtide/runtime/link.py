"""
The side thread: one connection to the coordinator, made again for as long as it takes.

It knows nothing of training. What it hears goes to an `Ear`; what is to be said comes from there.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, Protocol

from ebbtide.wire.frames import Decoder, FrameError, encode, prove
from ebbtide.wire.messages import (
    PROTOCOL,
    Answer,
    Beat,
    Challenge,
    Heartbeat,
    Message,
    Refused,
    ToWorker,
    Welcome,
)

CONNECT_SECONDS: Final = 5.0
GREETING_SECONDS: Final = 5.0
BACK_OFF: Final = (0.1, 0.2, 0.4, 0.7, 1.0)  # the last one repeats
SILENT_BEATS: Final = 8  # heartbeats without an answer until the connection is given up ...
SILENT_SECONDS: Final = 2.0  # ... but never before
FLUSH_POLL_SECONDS: Final = 0.01
MAX_UNSENT: Final = 1024
READ_BYTES: Final = 1 << 16

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[str, int], Awaitable[Streams]]

log = logging.getLogger("ebbtide.runtime")


class Ear(Protocol):
    """Who listens. Called from the side thread; nothing here may block."""

    def introduce(self) -> Sequence[Message]:
        """Return what to say first: Register, then what has happened since."""

    def beat(self, *, beats: int) -> Heartbeat:
        """Return the heartbeat to send now."""

    def hear(self, message: ToWorker) -> None:
        """Take a message in."""

    def grant(self, beat: Beat, *, asked_at: float) -> None:
        """Take the answer to the heartbeat that was sent at that moment."""

    def away(self, why: str) -> None:
        """There is no connection, or there is none any more."""

    def wait(self) -> None:
        """Time passes without a connection."""

    def heartbeat_seconds(self) -> float:
        """Return how often to beat."""


class LinkRefusedError(ConnectionError):
    """The coordinator does not take us, or is not the one we may talk to."""


class Link:
    """Runs the connection in a daemon thread of its own."""

    def __init__(
        self, *, coordinator: str, token: bytes, ear: Ear, connect: Connect, side: str = "worker"
    ) -> None:
        host, _, port = coordinator.rpartition(":")
        self._host, self._port = host, int(port)
        self._token = token
        self._ear = ear
        self._side = side
        self._connect = connect
        self._lock = threading.Lock()
        self._unsent: deque[Message] = deque()
        self._is_open = False  # the introduction was taken; what follows is queued behind it
        self._is_closed = False
        self._attempt = 0  # the largest of the coordinators met
        self._asked: deque[float] = deque()  # when the unanswered heartbeats were sent
        self._beats = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._hurry: asyncio.Event | None = None
        self._is_welcome = False
        self._flushed = threading.Event()
        self._thread = threading.Thread(target=self._main, name="ebbtide-link", daemon=True)

    # ------------------------------------------------------------ from any thread

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self, *, seconds: float = 1.0) -> None:
        """End the thread, waiting for it at most so long."""
        with self._lock:
            self._is_closed = True
        self._stir()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(seconds)

    def send(self, message: Message) -> None:
        """Queue a message; dropped without a connection (the next introduction makes up for it)."""
        with self._lock:
            if not self._is_open or len(self._unsent) >= MAX_UNSENT:
                return
            self._unsent.append(message)
            self._flushed.clear()
        self._stir()

    def flush(self, *, seconds: float) -> bool:
        """Wait until everything queued is handed to the network."""
        with self._lock:
            if not self._is_open:
                return False
        return self._flushed.wait(seconds)

    def beat_now(self) -> None:
        """Send a heartbeat without waiting for its time."""
        loop, hurry = self._loop, self._hurry
        if loop is not None and hurry is not None:
            with contextlib.suppress(RuntimeError):  # the loop has just ended
                loop.call_soon_threadsafe(hurry.set)

    def _stir(self) -> None:
        loop, wake = self._loop, self._wake
        if loop is not None and wake is not None:
            with contextlib.suppress(RuntimeError):  # the loop has just ended
                loop.call_soon_threadsafe(wake.set)

    # ------------------------------------------------------------ in the side thread

    def _main(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._wake, self._hurry = asyncio.Event(), asyncio.Event()
        tries = 0
        while True:
            self._is_welcome = False
            why = await self._try_session()
            if self._has_closed():
                return
            self._ear.away(why)
            tries = 0 if self._is_welcome else tries + 1
            await self._pause(BACK_OFF[min(tries, len(BACK_OFF) - 1)])

    async def _try_session(self) -> str:
        """Hold one connection for as long as it lasts; return why it ended."""
        try:
            await self._session()
        except (OSError, FrameError, TimeoutError) as error:
            return str(error) or type(error).__name__
        except Exception as error:  # outermost: this thread must outlive whatever happens in it
            log.exception("the link failed")
            return repr(error)
        finally:
            with self._lock:
                self._is_open = False
                self._unsent.clear()
        return "the coordinator closed the connection"

    def _has_closed(self) -> bool:
        with self._lock:
            return self._is_closed

    async def _pause(self, seconds: float) -> None:
        """Wait before the next try; closing ends it early."""
        until = time.monotonic() + seconds
        while not self._has_closed() and (left := until - time.monotonic()) > 0:
            self._ear.wait()
            await self._wait_for_wake(min(left, 0.1))

    async def _wait_for_wake(self, seconds: float) -> None:
        if self._wake is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()

    async def _session(self) -> None:
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await self._connect(self._host, self._port)
        try:
            messages = _read(reader)
            async with asyncio.timeout(GREETING_SECONDS):
                await self._greet(messages, writer)
            await self._talk(messages, writer)
        finally:
            writer.transport.abort()

    async def _greet(self, messages: AsyncIterator[ToWorker], writer: asyncio.StreamWriter) -> None:
        challenge = await _next(messages)
        if not isinstance(challenge, Challenge):
            raise LinkRefusedError(f"a {type(challenge).__name__} came instead of a challenge")
        if challenge.protocol != PROTOCOL:
            raise LinkRefusedError(
                f"the coordinator speaks protocol {challenge.protocol}, this process {PROTOCOL}:"
                " use images of one release"
            )
        if challenge.attempt < self._attempt:
            raise LinkRefusedError(f"coordinator attempt {challenge.attempt} is an older one")
        self._attempt = challenge.attempt
        digest = prove(token=self._token, nonce=challenge.nonce, side=self._side)
        writer.write(encode(Answer(protocol=PROTOCOL, side=self._side, digest=digest)))
        self._asked.clear()
        self._beats = 0
        self._introduce(writer)
        welcome = await _next(messages)
        self._ear.hear(welcome)
        if not isinstance(welcome, Welcome):
            raise LinkRefusedError(f"a {type(welcome).__name__} came instead of a welcome")
        self._is_welcome = True

    def _introduce(self, writer: asyncio.StreamWriter) -> None:
        """Say who we are; what is queued from here on is queued behind it."""
        with self._lock:
            self._is_open = True
            self._unsent.clear()
        for message in self._ear.introduce():
            writer.write(encode(message))

    async def _talk(self, messages: AsyncIterator[ToWorker], writer: asyncio.StreamWriter) -> None:
        tasks = [
            asyncio.create_task(self._listen(messages)),
            asyncio.create_task(self._beat(writer)),
            asyncio.create_task(self._speak(writer)),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _listen(self, messages: AsyncIterator[ToWorker]) -> None:
        async for message in messages:
            if isinstance(message, Beat):
                self._beats += 1
                if self._asked:
                    self._ear.grant(message, asked_at=self._asked.popleft())
            else:
                self._ear.hear(message)

    async def _beat(self, writer: asyncio.StreamWriter) -> None:
        while self._hurry is not None:
            every = self._ear.heartbeat_seconds()
            now = time.monotonic()
            if self._asked and now - self._asked[0] > max(SILENT_SECONDS, SILENT_BEATS * every):
                raise TimeoutError("the coordinator does not answer")
            self._asked.append(now)
            writer.write(encode(self._ear.beat(beats=self._beats)))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(every):
                    await self._hurry.wait()
            self._hurry.clear()

    async def _speak(self, writer: asyncio.StreamWriter) -> None:
        while True:
            self._write_unsent(writer)
            await writer.drain()
            is_out = writer.transport.get_write_buffer_size() == 0
            with self._lock:
                if is_out and not self._unsent:
                    self._flushed.set()
            if self._has_closed():
                return
            await self._wait_for_wake(1.0 if is_out else FLUSH_POLL_SECONDS)

    def _write_unsent(self, writer: asyncio.StreamWriter) -> None:
        with self._lock:
            unsent = list(self._unsent)
            self._unsent.clear()
        for message in unsent:
            writer.write(encode(message))


def connect_from(address: str) -> Connect:
    """Return a connector that looks the name up at every call and comes from this address."""

    async def connect(host: str, port: int) -> Streams:
        local = (address, 0) if address else None
        return await asyncio.open_connection(host, port, local_addr=local)

    return connect


async def _read(reader: asyncio.StreamReader) -> AsyncIterator[ToWorker]:
    decoder = Decoder(ToWorker)
    while data := await reader.read(READ_BYTES):
        for message in decoder.feed(data):
            yield message


async def _next(messages: AsyncIterator[ToWorker]) -> ToWorker:
    try:
        message = await anext(messages)
    except StopAsyncIteration:
        raise LinkRefusedError("the coordinator closed the connection") from None
    if isinstance(message, Refused):
        raise LinkRefusedError(f"refused: {message.reason}")
    return message
