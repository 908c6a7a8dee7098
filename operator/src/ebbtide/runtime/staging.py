"""
Saves off the training thread: copy while the next step computes, write while training goes on.

`begin` notes what to save and returns; a thread copies it into a staging area that is kept for the
next time, then writes it out. `fence` is called before the optimizer changes anything: it waits
until the copy is done, normally long since. A save that falls due while one is still being written
is skipped, never queued. A failed save is told and training goes on.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import torch
from torch import Tensor

from ebbtide.runtime import trees
from ebbtide.runtime.checkpoint import LostDuty, Shelf, describe_failure
from ebbtide.runtime.reporting import say

ASSUMED_BYTES_PER_SECOND: Final = 50e6  # before the first save told better
ASSUMED_SECONDS: Final = 0.5
SAFETY: Final = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    """One state to be saved."""

    tree: Any
    step: int
    lineage: int
    world_size: int
    retain: int


class Listener(Protocol):
    """Who is told how a save ended; called from the saving thread."""

    def committed(self, *, step: int, seconds: float, num_bytes: int) -> None:
        """Hear that a checkpoint is durable and visible."""

    def failed(self, *, step: int, error: str) -> None:
        """Hear that a save did not come through."""


class Saver:
    """Writes one job's checkpoints from one process."""

    def __init__(self, shelf: Shelf, *, listener: Listener, may_commit: Callable[[], bool]) -> None:
        self._shelf = shelf
        self._listener = listener
        self._may_commit = may_commit
        self._area: list[Tensor] = []
        self._copied = threading.Event()
        self._copied.set()
        self._writing: threading.Thread | None = None
        self._seconds_per_byte = 0.0
        self.saved_step = -1  # the newest that this process made durable
        self.started_at = time.monotonic()  # of the newest try
        self.tried_final_at = 0.0

    @property
    def is_writing(self) -> bool:
        """Tell whether a save is under way."""
        return self._writing is not None and self._writing.is_alive()

    def begin(self, save: Save, *, early: set[int]) -> bool:
        """
        Start a save of what `save.tree` refers to; False when one is still being written.

        Tensors whose address is in `early` may change before the next fence: they are copied now.
        """
        if self.is_writing:
            return False
        self.started_at = time.monotonic()
        staged = self._stage(save.tree, early)
        self._copied.clear()
        self._writing = threading.Thread(
            target=self._run, args=(save, staged), name="ebbtide-save", daemon=True
        )
        self._writing.start()
        return True

    def fence(self) -> None:
        """Wait until the state may change again."""
        self._copied.wait()

    def finish(self, timeout: float | None = None) -> bool:
        """Wait for a save that is under way; False when it takes longer."""
        if self._writing is not None:
            self._writing.join(timeout)
        return not self.is_writing

    def save_now(self, save: Save, *, may_commit: Callable[[], bool]) -> bool:
        """Save in this thread and tell whether it is durable. One under way comes first."""
        self.finish()
        if self.saved_step == save.step:
            return True
        self.started_at = time.monotonic()
        return self._write(save, may_commit)

    def estimate_seconds(self, tree: Any) -> float:
        """Return how long a save of this state may take, with a margin."""
        size = trees.num_bytes(tree)
        if self._seconds_per_byte > 0:
            return SAFETY * size * self._seconds_per_byte
        return ASSUMED_SECONDS + size / ASSUMED_BYTES_PER_SECOND

    def _stage(self, tree: Any, early: set[int]) -> list[tuple[Tensor, Tensor]]:
        """Return what is still to be copied: (from, to). Small and early ones are done."""
        sources = [tensor.detach() for tensor in trees.tensors_of(tree)]
        if [_shape(each) for each in sources] != [_shape(each) for each in self._area]:
            self._area = [torch.empty_like(each, device="cpu") for each in sources]
        later = []
        for source, target in zip(sources, self._area, strict=True):
            if source.data_ptr() in early or source.numel() <= 1:
                target.copy_(source)
            else:
                later.append((source, target))
        return later

    def _run(self, save: Save, later: list[tuple[Tensor, Tensor]]) -> None:
        try:
            for source, target in later:
                target.copy_(source)
        finally:
            self._copied.set()
        staged = iter(self._area)
        tree = trees.map_tensors(save.tree, lambda _: next(staged))
        self._write(
            Save(
                tree=tree,
                step=save.step,
                lineage=save.lineage,
                world_size=save.world_size,
                retain=save.retain,
            ),
            self._may_commit,
        )

    def _write(self, save: Save, may_commit: Callable[[], bool]) -> bool:
        began = time.monotonic()
        try:
            manifest = self._shelf.write(
                save.tree,
                step=save.step,
                lineage=save.lineage,
                world_size=save.world_size,
                may_commit=may_commit,
            )
        except LostDuty:
            say(f"checkpoint of step {save.step} dropped: its duty moved on before it was done")
            return False
        except OSError as error:
            self._listener.failed(step=save.step, error=describe_failure(error, self._shelf.path))
            return False
        seconds = time.monotonic() - began
        self._seconds_per_byte = seconds / max(1, manifest.num_bytes)
        self.saved_step = save.step
        say(f"checkpoint of step {save.step}: {manifest.num_bytes} bytes in {seconds:.3f} s")
        self._listener.committed(step=save.step, seconds=seconds, num_bytes=manifest.num_bytes)
        self._shelf.tidy(retain=save.retain)
        return True


def _shape(tensor: Tensor) -> tuple[torch.Size, torch.dtype]:
    return tensor.shape, tensor.dtype
