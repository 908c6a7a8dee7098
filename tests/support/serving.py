"""A coordinator's server inside the test's own process, and connections to it made by hand."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from ebbtide.cluster.coordinator_client import CoordinatorClient
from ebbtide.coordinator.server import Server
from ebbtide.coordinator.settings import Settings
from ebbtide.wire.frames import Decoder, encode, prove
from ebbtide.wire.messages import PROTOCOL, Answer, Challenge, Register, ToWorker, WorkSpec
from support.fake_job import TOKEN, make_work

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A server in this process."""

    server: Server
    clients: list[CoordinatorClient] = field(default_factory=list)

    @property
    def port(self) -> int:
        """Where it listens."""
        return self.server.port

    def client(self, token: bytes = TOKEN) -> CoordinatorClient:
        """Return an operator's client of it."""
        self.clients.append(CoordinatorClient("127.0.0.1", self.port, token))
        return self.clients[-1]

    async def dial(self) -> tuple[Challenge, asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect, and return what it challenges with."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        challenge = await read(reader)
        assert isinstance(challenge, Challenge)
        return challenge, reader, writer

    async def enter(self, *, side: str = "worker", token: bytes = TOKEN) -> Streams:
        """Connect and answer the challenge."""
        challenge, reader, writer = await self.dial()
        digest = prove(token=token, nonce=challenge.nonce, side=side)
        writer.write(encode(Answer(protocol=PROTOCOL, side=side, digest=digest)))
        return reader, writer


@asynccontextmanager
async def running(work: WorkSpec | None = None) -> AsyncIterator[Running]:
    """Serve, until the end of the block."""
    settings = Settings(
        attempt=1, work=work or make_work(), token=TOKEN, host="127.0.0.1", port=0, metrics_port=0
    )
    started = Server(settings)
    await started.start()
    stop = asyncio.Event()
    task = asyncio.create_task(started.run(stop))
    made = Running(server=started)
    try:
        yield made
    finally:
        for client in made.clients:
            await client.close()
        stop.set()
        await task


async def read(reader: asyncio.StreamReader) -> ToWorker:
    """Read one message."""
    async with asyncio.timeout(5.0):
        (length,) = struct.unpack(">I", await reader.readexactly(4))
        message: ToWorker = Decoder(ToWorker).decode(await reader.readexactly(length))
    return message


async def has_ended(reader: asyncio.StreamReader) -> bool:
    """Read to the end of a connection; `TimeoutError` if it does not come."""
    async with asyncio.timeout(5.0):
        try:
            while await reader.read(1 << 16):
                pass
        except ConnectionResetError:
            pass
    return True


def register(worker: str = "w-0-1") -> Register:
    """Return how the only process of a worker introduces itself."""
    return Register(
        worker=worker,
        index=0,
        attempt=1,
        local_rank=0,
        processes=1,
        address="127.0.0.1",
        store_port=1,
    )
