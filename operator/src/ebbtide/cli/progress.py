"""How far a long command is: a line that changes on a terminal, else one line now and then."""

import sys
import time
from types import TracebackType
from typing import Any, Final, Self

LINE_SECONDS: Final = 5.0


class Progress:
    """
    Says on standard error what is being done, and for how long.

    On a terminal with rich, one line with a spinner; elsewhere each thing once, and again every
    `LINE_SECONDS` while it lasts.
    """

    def __init__(self) -> None:
        self._text = ""
        self._since = self._said = self._began = time.monotonic()
        self._status: Any = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(stderr=True).status("")
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def say(self, text: str) -> None:
        """Begin something."""
        self._text = text
        self._since = time.monotonic()
        self._show()

    def tick(self) -> None:
        """Show that it goes on; may be called as often as one likes."""
        if self._status is not None or time.monotonic() - self._said >= LINE_SECONDS:
            self._show()

    def _show(self) -> None:
        self._said = time.monotonic()
        lasts = self._said - self._since
        text = self._text + (f", {lasts:.0f} s" if lasts >= 1 else "")
        if self._status is not None:
            self._status.update(text)
        else:
            sys.stderr.write(f"[{self._said - self._began:4.0f} s] {text}\n")
            sys.stderr.flush()
