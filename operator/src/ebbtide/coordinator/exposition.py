"""
`GET /metrics` over plain HTTP, and nothing else.

One request a connection, of bounded size and time, from a bounded number of callers: whoever may
reach the pod may ask, and can neither hold memory nor learn a secret.
"""

import asyncio
import contextlib
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from ebbtide.coordinator.metrics import CONTENT_TYPE

PATH: Final = "/metrics"
MAX_HEAD: Final = 8192
MAX_CALLERS: Final = 32
ASK_SECONDS: Final = 5.0
_END: Final = b"\r\n\r\n"
_WORDS: Final = 3  # method, target, version


class Exposition:
    """The listener for those who scrape."""

    def __init__(self, render: Callable[[], str]) -> None:
        self._render = render
        self._callers: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """Where it listens; 0: nowhere."""
        return port_of(self._listener)

    async def start(self, host: str | None, port: int) -> None:
        """Begin to listen."""
        self._listener = await asyncio.start_server(self._accept, host, port, limit=MAX_HEAD)

    async def close(self) -> None:
        """Stop, whoever asks."""
        if self._listener is not None:
            self._listener.close()
        for caller in self._callers:
            caller.cancel()
        await asyncio.gather(*self._callers, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._callers) >= MAX_CALLERS:
            writer.write(_response(HTTPStatus.SERVICE_UNAVAILABLE))
            writer.close()
            return
        task = asyncio.create_task(self._serve(reader, writer))
        self._callers.add(task)
        task.add_done_callback(self._callers.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(ASK_SECONDS):
                writer.write(self._answer(await _read_head(reader)))
                await writer.drain()
        except (TimeoutError, OSError):
            writer.transport.abort()
        finally:
            writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(ASK_SECONDS):
                    await writer.wait_closed()

    def _answer(self, head: bytes | None) -> bytes:
        if head is None:
            return _response(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != _WORDS or not words[2].startswith(b"HTTP/1."):
            return _response(HTTPStatus.BAD_REQUEST)
        if words[0] != b"GET":
            return _response(HTTPStatus.METHOD_NOT_ALLOWED, "Allow: GET\r\n")
        if words[1].partition(b"?")[0] != PATH.encode():
            return _response(HTTPStatus.NOT_FOUND)
        return _response(HTTPStatus.OK, f"Content-Type: {CONTENT_TYPE}\r\n", self._render())


def port_of(listener: asyncio.Server | None) -> int:
    """Where a server listens; 0: nowhere."""
    return 0 if listener is None else int(listener.sockets[0].getsockname()[1])


async def _read_head(reader: asyncio.StreamReader) -> bytes | None:
    """Return a request's head; None when it is too long, empty when there is none."""
    try:
        return await reader.readuntil(_END)
    except asyncio.LimitOverrunError:
        return None
    except asyncio.IncompleteReadError:
        return b""


def _response(status: HTTPStatus, headers: str = "", body: str | None = None) -> bytes:
    content = (f"{status.phrase}\n" if body is None else body).encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n{headers}"
        f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + content
