"""One factor between the seconds of the story and those of the clock on the wall."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """`factor` real seconds pass for each simulated one: 0.1 is ten times as fast as life."""

    factor: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a world that stands still."""
        if not self.factor > 0:
            message = f"the time factor is {self.factor}; it must be above 0"
            raise ValueError(message)

    def real(self, seconds: float) -> float:
        """Return how long simulated seconds take."""
        return seconds * self.factor

    async def sleep(self, seconds: float) -> None:
        """Let simulated seconds pass."""
        await asyncio.sleep(self.real(seconds))
