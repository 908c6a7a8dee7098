"""What happened in the cloud and when, to be shown, asserted on and waited for."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that happened."""

    at: dt.datetime
    what: str
    """A word or two with hyphens: `requested`, `ready`, `notice`, `power-off`, `node-deleted`..."""
    node: str = ""
    pool: str = ""
    detail: str = ""


class Journal:
    """Entries in order. Listeners are called at once, in the event loop's thread."""

    def __init__(self, now: Callable[[], dt.datetime]) -> None:
        """Start empty."""
        self.entries: list[Entry] = []
        self.listeners: list[Callable[[Entry], None]] = []
        self._now = now

    def add(self, what: str, *, node: str = "", pool: str = "", detail: str = "") -> Entry:
        """Write an entry with the time of now."""
        entry = Entry(at=self._now(), what=what, node=node, pool=pool, detail=detail)
        self.entries.append(entry)
        for listener in self.listeners:
            listener(entry)
        return entry

    def find(self, what: str, *, node: str = "", pool: str = "") -> list[Entry]:
        """Return the entries of this kind, of one node or pool if named."""
        return [
            entry
            for entry in self.entries
            if entry.what == what and node in ("", entry.node) and pool in ("", entry.pool)
        ]

    async def until(
        self, what: str, *, node: str = "", pool: str = "", count: int = 1, timeout: float = 60.0
    ) -> Entry:
        """Wait for the count-th entry of this kind, earlier ones included."""
        woken = asyncio.Event()

        def wake(_: Entry) -> None:
            woken.set()

        self.listeners.append(wake)
        try:
            async with asyncio.timeout(timeout):
                while len(found := self.find(what, node=node, pool=pool)) < count:
                    woken.clear()
                    await woken.wait()
        except TimeoutError:
            last = self.entries[-1] if self.entries else "nothing"
            wanted = f"{what!r} number {count} (node {node or 'any'}, pool {pool or 'any'})"
            message = f"no entry {wanted} within {timeout} s; the last one is {last}"
            raise TimeoutError(message) from None
        finally:
            self.listeners.remove(wake)
        return found[count - 1]
