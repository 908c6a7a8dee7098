"""The shell around the ledger: sockets, the clock and the log."""

import asyncio
import contextlib
import itertools
import logging
import time
from typing import Final

from ebbtide.coordinator import metrics
from ebbtide.coordinator.connection import Connection, Rejected
from ebbtide.coordinator.exposition import Exposition, port_of
from ebbtide.coordinator.ledger import Ledger
from ebbtide.coordinator.outbox import Outbox
from ebbtide.coordinator.settings import Settings
from ebbtide.wire.frames import FrameError
from ebbtide.wire.greeting import MAX_STRANGERS, Strangers
from ebbtide.wire.messages import (
    Call,
    Canary,
    FromServer,
    FromWorker,
    Refused,
    Reply,
)

TICK_SECONDS: Final = 0.05
MAX_CONNECTIONS: Final = 16_384  # two of a process, see `Canary`
MAX_QUOTE: Final = 300  # characters of a stranger's words in the log
MAX_CALLS: Final = 64  # of one operator connection at a time
MAX_WAIT_SECONDS: Final = 60.0  # a status call is answered by then
OPERATOR_SILENCE_SECONDS: Final = 900.0

log = logging.getLogger("ebbtide.coordinator")


class Server:
    """Owns the ledger; everything happens on one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        now = time.monotonic()
        self._ledger = Ledger(
            attempt=settings.attempt,
            work=settings.work,
            now=now,
            epoch=time.time() - now,
        )
        self._links = itertools.count(1)
        self._connections: dict[int, Connection] = {}
        self._canaries: dict[tuple[str, int], Connection] = {}  # by worker and local rank
        self._strangers: Strangers[Connection] = Strangers(limit=MAX_STRANGERS)
        self._changed = asyncio.Event()
        self._told_version = 0
        self._is_closing = False
        self._finish = asyncio.Event()
        self._handlers: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None
        self._exposition = Exposition(lambda: metrics.render(self._ledger.state))

    @property
    def port(self) -> int:
        """Where it listens; 0: nowhere."""
        return port_of(self._listener)

    @property
    def metrics_port(self) -> int:
        """Where it serves metrics; 0: nowhere."""
        return self._exposition.port

    async def start(self) -> None:
        """Begin to listen."""
        self._listener = await asyncio.start_server(
            self._accept, self._settings.host or None, self._settings.port, backlog=1024
        )
        if self._settings.metrics_port is not None:
            await self._exposition.start(self._settings.host or None, self._settings.metrics_port)
        log.info("attempt %d listens on port %d", self._settings.attempt, self.port)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, or the operator said that all is finished."""
        waits = [asyncio.create_task(event.wait()) for event in (stop, self._finish)]
        try:
            while not any(wait.done() for wait in waits):
                await asyncio.wait(waits, timeout=TICK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                self._carry_out(self._ledger.tick(now=time.monotonic()))
        finally:
            for wait in waits:
                wait.cancel()
            await self._shut_down()

    async def _shut_down(self) -> None:
        self._is_closing = True
        if self._listener is not None:
            self._listener.close()
        for connection in self._connections.values():
            connection.close()
        for task in self._handlers:
            task.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)
        await self._exposition.close()
        log.info("stopped")

    # ------------------------------------------------------------ connections

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._welcome(Connection(reader, writer)))
        self._handlers.add(task)
        task.add_done_callback(self._handlers.discard)

    async def _welcome(self, connection: Connection) -> None:
        if not self._let_in(connection):
            connection.send(Refused(reason="too many connections"))
            connection.close()
            return
        try:
            await self._serve(connection)
        except (FrameError, Rejected, TimeoutError, asyncio.IncompleteReadError) as error:
            reason = str(error) or type(error).__name__  # may quote what a stranger sent
            log.info("connection of %s closed: %s", connection.peer, ascii(reason)[:MAX_QUOTE])
        except OSError as error:
            log.info("connection of %s broke: %s", connection.peer, error)
        except Exception:  # outermost: a fault met by one connection must not end the job's others
            log.exception("connection of %s failed", connection.peer)
        finally:
            connection.close()

    def _let_in(self, newcomer: Connection) -> bool:
        if len(self._connections) >= MAX_CONNECTIONS:
            return False
        loser = self._strangers.admit(newcomer, host=newcomer.host)
        if loser is not None and loser is not newcomer:
            loser.abort()
        return loser is not newcomer

    async def _serve(self, connection: Connection) -> None:
        try:
            side = await connection.greet(
                token=self._settings.token, attempt=self._settings.attempt
            )
        finally:
            self._strangers.dismiss(connection)
        link = next(self._links)
        self._connections[link] = connection
        try:
            if side == "worker":
                await self._serve_worker(connection, link)
            elif side == "server":
                await self._serve_server(connection, link)
            else:
                await self._serve_operator(connection)
        finally:
            del self._connections[link]
            self._carry_out(self._ledger.lose(link, now=time.monotonic()))

    async def _serve_worker(self, connection: Connection, link: int) -> None:
        said = await connection.read_first()
        if isinstance(said, Canary):
            await self._keep_canary(connection, said)
            return
        self._carry_out(self._ledger.register(link, said, now=time.monotonic()))
        async for message in connection.read(FromWorker):
            self._carry_out(self._ledger.hear(link, message, now=time.monotonic()))

    async def _keep_canary(self, connection: Connection, heard: Canary) -> None:
        """Wait for the end of a process's second connection: that of the process."""
        place = (heard.worker, heard.local_rank)
        former = self._canaries.get(place)
        self._canaries[place] = connection
        if former is not None:
            former.abort()
        try:
            async for _ in connection.read(Canary):
                raise FrameError("a canary that goes on talking")
        finally:
            is_newest = self._canaries.get(place) is connection
            if is_newest:
                del self._canaries[place]
        if is_newest:
            self._carry_out(self._ledger.lose_process(*place, now=time.monotonic()))

    async def _serve_server(self, connection: Connection, link: int) -> None:
        said = await connection.read_server()
        self._carry_out(self._ledger.register_server(link, said, now=time.monotonic()))
        async for message in connection.read(FromServer):
            self._carry_out(self._ledger.hear_server(link, message, now=time.monotonic()))

    def _carry_out(self, out: Outbox) -> None:
        if self._is_closing:
            return  # our own end must not look like the loss of members to those still connected
        for note in out.notes:
            log.info("%s", note)
        for send in out.sends:
            connection = self._connections.get(send.link)
            if connection is not None:
                connection.send(send.message)
        for link in out.closes:
            connection = self._connections.get(link)
            if connection is not None:
                connection.close()
        if self._ledger.version != self._told_version:
            self._told_version = self._ledger.version
            self._changed.set()
            self._changed = asyncio.Event()

    # ------------------------------------------------------------ the operator's calls

    async def _serve_operator(self, connection: Connection) -> None:
        tasks: set[asyncio.Task[None]] = set()
        calls = connection.read(Call)
        try:
            while True:
                async with asyncio.timeout(OPERATOR_SILENCE_SECONDS):
                    asked = await anext(calls, None)
                if asked is None:
                    return
                if len(tasks) >= MAX_CALLS:
                    connection.send(Reply(id=asked.id, error="too many calls at a time"))
                    continue
                task = asyncio.create_task(self._answer(connection, asked))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, connection: Connection, asked: Call) -> None:
        error, out = self._ledger.call(asked, now=time.monotonic())
        self._carry_out(out)
        if asked.name == "status":
            await self._wait_for_change(since=asked.since, seconds=asked.wait)
        report = self._ledger.report() if not error else None
        connection.send(Reply(id=asked.id, error=error, report=report))
        if asked.name == "finish" and not error:
            self._finish.set()

    async def _wait_for_change(self, *, since: int, seconds: float) -> None:
        limit = min(max(0.0, seconds), MAX_WAIT_SECONDS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                while self._ledger.version == since:
                    await self._changed.wait()
