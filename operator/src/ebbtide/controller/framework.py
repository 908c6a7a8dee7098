"""
kopf in a thread and event loop of its own.

When kopf ends it cancels every task of its loop that began after it, and when it fails it ends; in
a loop of its own neither can touch the rest of the operator, and it can be started again.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Final

RESTART_SECONDS: Final = 5.0

logger = logging.getLogger(__name__)

Operate = Callable[[asyncio.Event], Awaitable[None]]


class Framework:
    """One kopf; `operate` runs it until the event is set."""

    def __init__(self, operate: Operate) -> None:
        self._operate = operate
        self._stopping = threading.Event()
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._thread = threading.Thread(target=self._main, name="kopf", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    async def stop(self, *, seconds: float) -> bool:
        """End; tell whether it did within so many seconds. It dies with the process in any case."""
        self._stopping.set()
        if self._running is not None:
            loop, stop = self._running
            with contextlib.suppress(RuntimeError):  # its loop has ended meanwhile
                loop.call_soon_threadsafe(stop.set)
        await asyncio.to_thread(self._thread.join, seconds)
        return not self._thread.is_alive()

    def _main(self) -> None:
        while not self._stopping.is_set():
            try:
                asyncio.run(self._once())
            except Exception:
                logger.exception("kopf failed, next try in %.0f s", RESTART_SECONDS)
                self._stopping.wait(RESTART_SECONDS)

    async def _once(self) -> None:
        stop = asyncio.Event()
        self._running = asyncio.get_running_loop(), stop
        if self._stopping.is_set():
            return
        await self._operate(stop)
