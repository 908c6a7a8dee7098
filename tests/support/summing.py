"""Ranks as threads: a group whose sum is taken in memory, or breaks when it is told to."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor

from ebbtide.runtime.errors import CollectiveBroken

Result = TypeVar("Result")


@dataclass(slots=True, kw_only=True)
class Meeting:
    """Where the ranks of one test meet."""

    world: int
    barrier: threading.Barrier = field(init=False)
    brought: dict[int, list[Tensor]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.barrier = threading.Barrier(self.world, timeout=10)


@dataclass(slots=True, kw_only=True)
class ThreadGroup:
    """One rank's end of a meeting."""

    rank: int
    meeting: Meeting
    breaks: int = 0  # so many sums break
    summed: int = 0

    def sum_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over all ranks, in rank order."""
        if self.breaks > 0:
            self.breaks -= 1
            for tensor in tensors:
                tensor.fill_(float("nan"))  # as undefined as a real one
            raise CollectiveBroken("told to break")
        self.summed += 1
        meeting = self.meeting
        meeting.brought[self.rank] = [tensor.clone() for tensor in tensors]
        meeting.barrier.wait()
        for place, tensor in enumerate(tensors):
            parts = [meeting.brought[rank][place] for rank in range(meeting.world)]
            tensor.copy_(torch.stack(parts).sum(0))
        meeting.barrier.wait()


def alone(*, breaks: int = 0) -> ThreadGroup:
    """Return the group of a world of one."""
    return ThreadGroup(rank=0, meeting=Meeting(world=1), breaks=breaks)


def run_ranks(world: int, body: Callable[[int, ThreadGroup], Result]) -> list[Result]:
    """Run a body once per rank, at the same time; return what each gave."""
    meeting = Meeting(world=world)
    results: dict[int, Result] = {}

    def run(rank: int) -> None:
        results[rank] = body(rank, ThreadGroup(rank=rank, meeting=meeting))

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[rank] for rank in range(world)]
