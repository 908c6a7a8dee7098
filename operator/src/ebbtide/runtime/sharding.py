"""
Which samples a rank takes in a step: pure arithmetic, nothing to save and nothing to restore.

The samples form one endless sequence: the permutation of epoch 0, then that of epoch 1, and so on.
Step k takes the B samples at k*B ... k*B + B - 1 of it, whoever the members are, and the ranks
divide those into contiguous shares that differ by at most one. So each sample comes exactly once
per epoch whatever happens to the members, the global batch is always B, and at the end of an epoch
a batch runs over into the next one instead of being padded or dropped.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


def divide(*, batch: int, rank: int, world: int) -> range:
    """Return the positions within a global batch that are a rank's share."""
    least, extra = divmod(batch, world)
    start = rank * least + min(rank, extra)
    return range(start, start + least + (rank < extra))


def divide_by_speed(*, batch: int, speeds: Sequence[float]) -> tuple[range, ...]:
    """
    Return every rank's share of a global batch, in proportion to its speed, contiguous by rank.

    Ranks of one speed get shares that differ by at most one; so do all where there are more ranks
    than samples.
    """
    world = len(speeds)
    if len(set(speeds)) == 1 or batch < world:
        return tuple(divide(batch=batch, rank=rank, world=world) for rank in range(world))
    # Few jobs need it.
    from ebbtide.core.models.iteration.timeline import (  # noqa: PLC0415 -- brings the models along
        share_by_speed,
    )

    ends = list(accumulate(share_by_speed(batch, speeds)))
    return tuple(range(start, end) for start, end in zip([0, *ends], ends, strict=False))


def permute(*, seed: int, epoch: int, samples: int) -> Indices:
    """Return the order of the samples in one epoch."""
    sequence = np.random.SeedSequence([seed, epoch])
    return np.random.Generator(np.random.PCG64(sequence)).permutation(samples)


@dataclass(slots=True, kw_only=True)
class Order:
    """The endless sequence of one data set. Keeps the permutations of the two newest epochs."""

    seed: int
    samples: int
    _epochs: dict[int, Indices] = field(default_factory=dict)

    def take(self, *, start: int, count: int) -> Indices:
        """Return the samples at `start` ... `start + count - 1` of the sequence."""
        parts: list[Indices] = []
        while count > 0:
            epoch, offset = divmod(start, self.samples)
            part = self._epoch(epoch)[offset : offset + count]
            parts.append(part)
            start, count = start + len(part), count - len(part)
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def share(self, *, step: int, batch: int, rank: int, world: int) -> Indices:
        """Return the samples of a rank's share of one step."""
        positions = divide(batch=batch, rank=rank, world=world)
        return self.take(start=step * batch + positions.start, count=len(positions))

    def _epoch(self, epoch: int) -> Indices:
        if epoch not in self._epochs:
            self._epochs = {
                known: order for known, order in self._epochs.items() if known == epoch - 1
            }
            self._epochs[epoch] = permute(seed=self.seed, epoch=epoch, samples=self.samples)
        return self._epochs[epoch]


def layout(order: Order, *, batch: int) -> dict[str, Any]:
    """Return what must be the same for a step number to mean the same samples."""
    return {"seed": order.seed, "samples": order.samples, "global_batch_size": batch}
