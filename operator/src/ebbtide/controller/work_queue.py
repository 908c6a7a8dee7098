"""
The keys that wait for a pass: each at most once, never two passes of one key at a time.

A key may be added for later; the earliest wish counts. A key that is added while its pass runs gets
another one. Passes of one key keep a small distance, so that a burst of news is one pass.
"""

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class WorkQueue(Generic[Key]):
    """Used within one event loop; time is the loop's."""

    def __init__(self, *, distance: float = 0.05) -> None:
        self._distance = distance
        self._loop = asyncio.get_running_loop()
        self._ready: deque[Key] = deque()
        self._waiting: set[Key] = set()  # those in _ready
        self._running: set[Key] = set()
        self._again: dict[Key, float] = {}  # wishes that came while the pass ran
        self._later: dict[Key, asyncio.TimerHandle] = {}
        self._begun: dict[Key, float] = {}
        self._arrived = asyncio.Event()

    def __len__(self) -> int:
        """How many keys want a pass now."""
        return len(self._ready) + len(self._again)

    def add(self, key: Key, *, delay: float = 0.0) -> None:
        """Wish a pass of this key, now or after `delay` seconds."""
        when = self._loop.time() + max(0.0, delay)
        if key in self._running:
            self._again[key] = min(when, self._again.get(key, when))
            return
        if key in self._waiting:
            return
        when = max(when, self._begun.get(key, float("-inf")) + self._distance)
        timer = self._later.get(key)
        if timer is not None:
            if timer.when() <= when:
                return
            timer.cancel()
        if when <= self._loop.time():
            self._later.pop(key, None)
            self._push(key)
        else:
            self._later[key] = self._loop.call_at(when, self._due, key)

    def forget(self, key: Key) -> None:
        """Drop what is remembered of the last pass of a key that is gone; wishes stay."""
        self._begun.pop(key, None)

    async def take(self) -> Key:
        """Wait for a key and begin its pass; `done` must follow."""
        while not self._ready:
            self._arrived.clear()
            await self._arrived.wait()
        key = self._ready.popleft()
        self._waiting.discard(key)
        self._running.add(key)
        self._begun[key] = self._loop.time()
        return key

    def done(self, key: Key) -> None:
        """End the pass of a key."""
        self._running.discard(key)
        when = self._again.pop(key, None)
        if when is not None:
            self.add(key, delay=when - self._loop.time())

    def _due(self, key: Key) -> None:
        del self._later[key]
        self._push(key)

    def _push(self, key: Key) -> None:
        self._waiting.add(key)
        self._ready.append(key)
        self._arrived.set()
