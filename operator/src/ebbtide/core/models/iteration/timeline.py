"""
One step of data-parallel training as a timeline: a compute stream beside a communication stream.

The backward pass gives gradients from the last layer to the first. They gather in buckets, and a
bucket that closes is summed over all ranks while the pass goes on; one bucket at a time. The step
ends with the optimizer, after the backward pass and the last bucket (Li et al. 2020, VLDB 13,
3005-3018, is the scheme of PyTorch that this follows).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from ebbtide.core.models.table import Floats, Indices

Reduce: TypeAlias = Callable[[Floats], Floats]
"""Seconds that an all-reduce of so many bytes takes; zero where there is one rank."""

FIRST_BUCKET: Final = 1024.0**2
"""Bytes: small, so that communication starts early (the default of PyTorch)."""
BUCKET: Final = 25 * 1024.0**2
"""Bytes of every later bucket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one rank does in a step; layers in the order of the forward pass."""

    forward_s: float
    backward_s: tuple[float, ...]
    """Time of each layer in the backward pass."""
    gradient_bytes: tuple[float, ...]
    """Size of each layer's gradients; 0 where it has none."""
    optimizer_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.backward_s or len(self.backward_s) != len(self.gradient_bytes):
            raise ValueError(
                f"{len(self.backward_s)} backward times for {len(self.gradient_bytes)} gradients:"
                " at least one layer, and one of each for each layer"
            )
        for name, values in (
            ("forward_s", (self.forward_s,)),
            ("backward_s", self.backward_s),
            ("gradient_bytes", self.gradient_bytes),
            ("optimizer_s", (self.optimizer_s,)),
        ):
            for value in values:
                if not 0 <= value < float("inf"):
                    raise ValueError(f"{name}: {value!r} is not a finite number of at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """Bytes at which a bucket closes."""

    first: float = FIRST_BUCKET
    later: float = BUCKET


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """When what happens in a step, in seconds from its start; one entry for each bucket."""

    bucket_bytes: tuple[float, ...]
    ready_s: tuple[float, ...]
    """When its last gradient is there, on the slowest rank."""
    reduced_s: tuple[float, ...]
    """When its sum is there."""
    compute_s: float
    """The slowest passes and the slowest optimizer: the step without communication."""
    communication_s: float
    """How long the communication stream is busy."""
    step_s: float

    @property
    def exposed_s(self) -> float:
        """The part of the step in which ranks wait for communication."""
        return self.step_s - self.compute_s


def simulate(works: Sequence[Work], reduce: Reduce, *, caps: Caps | None = None) -> Timeline:
    """
    Lay out one step of ranks that hold the same model; one entry of `works` for each kind of rank.

    A bucket can be summed when the slowest rank has it. All ranks fill their buckets alike.
    """
    ends = _buckets(works, caps or Caps())
    sizes = np.add.reduceat(_arriving(works[0].gradient_bytes), [0, *(ends[:-1] + 1)])
    ready = np.max([_gradients_ready(work)[ends] for work in works], axis=0)
    seconds = reduce(sizes)
    reduced = np.empty(len(sizes))
    free = 0.0
    for number, (at, lasts) in enumerate(zip(ready, seconds, strict=True)):
        free = max(float(at), free) + float(lasts)
        reduced[number] = free
    # Nothing of the optimizer starts before the last sum is there, on any rank.
    computed = max(work.forward_s + sum(work.backward_s) for work in works)
    optimizer = max(work.optimizer_s for work in works)
    return Timeline(
        bucket_bytes=tuple(sizes.tolist()),
        ready_s=tuple(ready.tolist()),
        reduced_s=tuple(reduced.tolist()),
        compute_s=computed + optimizer,
        communication_s=float(seconds.sum()),
        step_s=max(computed, free) + optimizer,
    )


def _arriving(layers: tuple[float, ...]) -> Floats:
    """Put what is given for each layer into the order of the backward pass."""
    return np.array(layers[::-1], dtype=np.float64)


def _gradients_ready(work: Work) -> Floats:
    ready: Floats = work.forward_s + np.cumsum(_arriving(work.backward_s))
    return ready


def _buckets(works: Sequence[Work], caps: Caps) -> Indices:
    """Return the last gradient of each bucket, counted in the order of the backward pass."""
    if not works:
        raise ValueError("no kind of rank is given: at least one is needed")
    if any(work.gradient_bytes != works[0].gradient_bytes for work in works):
        raise ValueError("ranks of one step hold the same model: their gradients must be the same")
    ends: list[int] = []
    filled = 0.0
    for number, size in enumerate(_arriving(works[0].gradient_bytes)):
        filled += float(size)
        if filled >= (caps.later if ends else caps.first):
            ends.append(number)
            filled = 0.0
    last = len(works[0].gradient_bytes) - 1
    if not ends or ends[-1] != last:
        ends.append(last)
    return np.array(ends, dtype=np.intp)


def share_equally(global_batch: int, ranks: int) -> tuple[int, ...]:
    """Split a global batch evenly; the first ranks take what is over."""
    return share_by_speed(global_batch, (1.0,) * ranks)


def share_by_speed(global_batch: int, speeds: Sequence[float]) -> tuple[int, ...]:
    """
    Split a global batch in proportion to the speed of each rank; the parts add up to the batch.

    Each rank gets the whole part of its share, and those with the largest remainders one more
    (the method of largest remainder); of equal ones the first.
    """
    if not speeds or not all(0 < speed < float("inf") for speed in speeds):
        raise ValueError(f"speeds {tuple(speeds)!r}: at least one, each finite and above 0")
    if global_batch < len(speeds):
        raise ValueError(f"a global batch of {global_batch} leaves some of {len(speeds)} idle")
    exact = np.array(speeds, dtype=np.float64)
    exact *= global_batch / exact.sum()
    parts = np.floor(exact).astype(np.intp)
    order = np.argsort(parts - exact, kind="stable")
    parts[order[: global_batch - int(parts.sum())]] += 1
    return tuple(parts.tolist())
