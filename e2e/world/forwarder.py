"""
Lets the outside reach the API server: bytes from a listening socket made before the namespace.

A socket stays in the network namespace where it was made, so one that listens on the machine's
own loopback goes on doing so after its process has entered another namespace.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

CHUNK = 65_536
CONNECT_SECONDS = 10.0
END_SECONDS = 5.0


class Forwarder:
    """Passes connections on in a thread of its own, whatever the main thread's loop does."""

    def __init__(self, listener: socket.socket, target: tuple[str, int]) -> None:
        self._listener = listener
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._serving = threading.Event()
        self._thread = threading.Thread(target=self._run, name="forwarder", daemon=True)

    def start(self) -> None:
        """Begin to accept; return when it does."""
        self._thread.start()
        if not self._serving.wait(END_SECONDS):
            message = "the forwarder to the API server did not start"
            raise TimeoutError(message)

    def stop(self) -> None:
        """Close every connection; the listening socket itself stays for the next forwarder."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(END_SECONDS)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        copy = self._listener.dup()
        server = await asyncio.start_server(self._pass_on, sock=copy)
        self._serving.set()
        await self._stopping.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:  # the API server is not there (now): the client sees a closed connection
            writer.close()
            return
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_copy(reader, far_writer))
                both.create_task(_copy(far_reader, writer))
        except* OSError:
            pass  # one side is gone, so the other is closed below
        finally:
            writer.close()
            far_writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(CHUNK):
        writer.write(chunk)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()
