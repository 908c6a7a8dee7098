"""What a pass that failed means: when to try again, and how loud to be about it."""

import random
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from ebbtide.cluster.errors import (
    ConflictError,
    NotFoundError,
    RejectedError,
    ThrottledError,
    UnavailableError,
)

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """How long to wait after one failure, and after many in a row."""

    first: float
    longest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What to do about one failure."""

    delay: float
    kind: str  # label of the metric
    loud: bool  # nobody expected it: with a traceback


# First match counts.
_RULES: Final = (
    (ConflictError, "conflict", Delays(first=0.0, longest=0.0), False),
    (ThrottledError, "throttled", Delays(first=1.0, longest=60.0), False),
    (UnavailableError, "unavailable", Delays(first=0.5, longest=15.0), False),
    (RejectedError, "rejected", Delays(first=5.0, longest=300.0), False),
    (NotFoundError, "not-found", Delays(first=0.5, longest=30.0), False),
)
_UNKNOWN: Final = Delays(first=1.0, longest=120.0)
_MANY_CONFLICTS: Final = 5  # in a row: somebody fights with us, so slow down
_SLOWED: Final = Delays(first=0.1, longest=10.0)


class Failures(Generic[Key]):
    """Counts failures in a row by key, so that delays grow."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._counts: dict[Key, int] = {}

    def judge(self, key: Key, error: BaseException) -> Verdict:
        """Say what to do about one failure of this key's pass."""
        count = self._counts[key] = self._counts.get(key, 0) + 1
        kind, delays, loud = "unknown", _UNKNOWN, True
        for cls, name, found, noise in _RULES:
            if isinstance(error, cls):
                kind, delays, loud = name, found, noise
                break
        if kind == "conflict" and count > _MANY_CONFLICTS:
            delays, count = _SLOWED, count - _MANY_CONFLICTS
        delay = min(delays.first * 2.0 ** min(count - 1, 16), delays.longest)
        delay *= self._chance.uniform(0.8, 1.2)
        if isinstance(error, ThrottledError):
            delay = max(delay, error.retry_after)
        return Verdict(delay=delay, kind=kind, loud=loud)

    def succeeded(self, key: Key) -> None:
        """Take that a pass went through."""
        self._counts.pop(key, None)
