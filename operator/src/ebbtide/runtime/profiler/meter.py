"""
The meter of one process: what each step's time went into, and now and then more than that.

Always on: a few readings of the clock in each step. One step in `EVERY`, the same on all ranks, is
watched: hooks see when its gradients are ready, and the ranks meet before they sum them up, so that
waiting for the slowest is told from sending.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import torch
from torch.nn import Parameter

from ebbtide.runtime.profiler.memory import Peak
from ebbtide.runtime.profiler.readiness import Arrival, Readiness, close_buckets
from ebbtide.runtime.profiler.split import Split

EVERY: Final = 64
FIRST: Final = 5  # the steps before it are slower than the others


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What the newest watched step told."""

    arrivals: tuple[Arrival, ...] = ()
    peak_bytes: int = 0
    idle_share: float = 0.0
    """Of the time in collectives: spent waiting for the slowest rank."""

    @property
    def bucket_ready(self) -> tuple[float, ...]:
        """When each bucket of gradients was ready, in seconds from the start of the step."""
        return close_buckets(self.arrivals)


class Meter:
    """Owned by the training loop; every method is called by the training thread."""

    def __init__(
        self,
        parameters: Iterable[Parameter],
        *,
        device: torch.device,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._readiness = Readiness(parameters, device=device)
        self._peak = Peak(device)
        self._began = self._handed = 0.0
        self.is_watching = False
        self.watched = Watched()

    def begin(self, *, is_watched: bool) -> None:
        """Begin a step, before its samples are fetched."""
        self.is_watching = is_watched
        if is_watched:
            self._readiness.begin()
        self._began = self._clock()

    def hand_over(self) -> None:
        """Note that the samples are there: now the script computes."""
        self._handed = self._clock()

    def end(self, *, collectives: float, met: float = 0.0, fenced: float = 0.0) -> Split:
        """
        End a step that was applied; all in seconds.

        `collectives` is the time in them, of which `met` was spent until all ranks had come (in a
        watched step alone); `fenced`, how long a checkpoint being staged held the step up.
        """
        now = self._clock()
        if self.is_watching:
            self.is_watching = False
            self.watched = Watched(
                arrivals=self._readiness.end(),
                peak_bytes=self._peak.read(),
                idle_share=met / collectives if collectives > 0 else 0.0,
            )
        idle = collectives * self.watched.idle_share
        return Split(
            step=now - self._began,
            data=self._handed - self._began,
            communication=collectives - idle,
            idle=idle + fenced,
        )


def is_due(step: int) -> bool:
    """Tell whether a step is watched: all ranks say the same."""
    return step % EVERY == FIRST
