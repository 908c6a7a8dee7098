"""What a trainer says on standard output, a line at a time, whole even among several processes."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

LINE_SECONDS: Final = 10.0
BAR_SECONDS: Final = 1.0
GIGABYTE: Final = 1e9
MEGABYTE: Final = 1e6


def say(text: str) -> None:
    """Print one line, at once."""
    sys.stdout.write(f"ebbtide: {text}\n")
    sys.stdout.flush()


class Waiting:
    """One line per interval for as long as something is waited for; nothing before the first."""

    def __init__(self, *, interval: float = LINE_SECONDS) -> None:
        """`interval` is in seconds."""
        self._interval = interval
        self._began = self._said_at = time.monotonic()

    def look(self, what: Callable[[], str]) -> None:
        """Say what is waited for, when it is time to."""
        now = time.monotonic()
        if now - self._said_at >= self._interval:
            self._said_at = now
            say(f"waiting for {what()}, {now - self._began:.0f} s so far")


class Progress:
    """
    How far something long has come: a bar on a terminal, one line per interval otherwise.

    What ends before the first interval says nothing. Use it as `with Progress(...) as progress`.
    """

    def __init__(self, what: str, *, total: int, interval: float = LINE_SECONDS) -> None:
        """`total` is in bytes, `interval` in seconds."""
        self._what = what
        self._total = total
        self._is_terminal = sys.stdout.isatty()
        self._interval = min(interval, BAR_SECONDS) if self._is_terminal else interval
        self._done = 0
        self._began = self._said_at = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def add(self, count: int) -> None:
        """Note that so many more bytes are done."""
        self.reach(self._done + count)

    def reach(self, done: int) -> None:
        """Note that so many bytes are done in all."""
        self._done = done
        if self._bar is not None:
            self._bar.update(0, completed=done)
        now = time.monotonic()
        if now - self._said_at < self._interval:
            return
        self._said_at = now
        if self._is_terminal:
            self._draw()
        else:
            say(self._words(now))

    def _words(self, now: float) -> str:
        rate = self._done / max(1e-9, now - self._began)
        left = (self._total - self._done) / max(1.0, rate)
        return (
            f"{self._what}: {self._done / GIGABYTE:.2f} of {self._total / GIGABYTE:.2f} GB, "
            f"{rate / MEGABYTE:.0f} MB/s, about {left:.0f} s to go"
        )

    def _draw(self) -> None:
        if self._bar is not None:
            return
        from rich import progress  # noqa: PLC0415 -- for a terminal, and what takes long there

        self._bar = progress.Progress(
            progress.TextColumn("ebbtide: {task.description}"),
            progress.BarColumn(),
            progress.DownloadColumn(),
            progress.TransferSpeedColumn(),
            progress.TimeRemainingColumn(),
            transient=True,
        )
        self._bar.add_task(self._what, total=self._total, completed=self._done)
        self._bar.start()
