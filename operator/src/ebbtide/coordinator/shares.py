"""
What part of the batch a rank takes where GPUs of several kinds train together. Pure.

Ranks tell how long they compute; the coordinator keeps, for each kind of GPU, the samples that one
rank works off in a second. Where kinds differ, a generation's members are given their speeds, and
each takes that part of the global batch, so that none waits for the slowest. Among equals, and
until every kind is known, all take the same.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from ebbtide.coordinator.state import Generation, State, Worker
from ebbtide.wire.messages import Heartbeat, Member

MAX_KINDS: Final = 64
WEIGHT: Final = 0.2
"""Of the newest step in the running mean of a kind."""
TOLERANCE: Final = 0.15
"""Speeds within this of each other count as equal: less is not worth a new generation."""
FIRST_STEPS: Final = 20
"""So many steps a generation takes before its shares are judged ..."""
GROWTH: Final = 10
"""... and so many times more after each change: measures are never equal, and no see-saw lasts."""


def note(state: State, *, gpu: str, heard: Heartbeat) -> None:
    """Take in how fast a rank of one kind worked."""
    alone = heard.compute_seconds + heard.data_seconds
    if heard.local_batch <= 0 or not 0 < alone < float("inf"):
        return
    if gpu not in state.paces and len(state.paces) >= MAX_KINDS:
        return
    pace = heard.local_batch / alone
    known = state.paces.get(gpu, pace)
    state.paces[gpu] = known + WEIGHT * (pace - known)


def give(state: State, members: Sequence[Member]) -> tuple[Member, ...]:
    """Return the members with their speeds; the slowest kind has 1."""
    speeds = _speeds(state, [state.workers[member.worker] for member in members])
    return tuple(
        msgspec.structs.replace(member, speed=speed)
        for member, speed in zip(members, speeds, strict=True)
    )


def are_uneven(state: State, generation: Generation) -> bool:
    """Tell whether a generation's shares are so far off that it is worth forming anew."""
    needed = FIRST_STEPS * GROWTH**state.rebalanced
    if state.progress.top - generation.step < needed:
        return False
    workers = [state.workers.get(name) for name in generation.names]
    known = [worker for worker in workers if worker is not None and worker.first is not None]
    if len(known) < len(workers):
        return False
    wanted = _part([*_speeds(state, known)])
    given = _part([member.speed for member in generation.members])
    return any(abs(want / have - 1) > TOLERANCE for want, have in zip(wanted, given, strict=True))


def _speeds(state: State, workers: Sequence[Worker]) -> tuple[float, ...]:
    kinds = [worker.first.said.gpu if worker.first else "" for worker in workers]
    paces = [state.paces.get(kind, 0.0) for kind in kinds]
    least = min(paces, default=0.0)
    if len(set(kinds)) < 2 or least <= 0 or max(paces) / least <= 1 + TOLERANCE:  # noqa: PLR2004 -- a mixture is of two kinds
        return (1.0,) * len(workers)
    return tuple(round(pace / least, 2) for pace in paces)


def _part(speeds: Sequence[float]) -> list[float]:
    return [speed / sum(speeds) for speed in speeds]
