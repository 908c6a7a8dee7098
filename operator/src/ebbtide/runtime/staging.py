"""
Saves off the training thread: copy while the next step computes, write while training goes on.

`begin` notes what to save and returns; a thread copies it into memory that is kept for the next
time (`Area`), then has it written by a process beside this one (`Scribe`), with pauses that keep it
from being felt. `fence` is called before the optimizer changes anything: it waits until the copy is
done, normally long since. A save that falls due while one is still being written is skipped, never
queued. A failed save is told and training goes on.
"""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import torch
from torch import Tensor

from ebbtide.runtime import area, trees
from ebbtide.runtime.archive import Facts, LostDuty
from ebbtide.runtime.area import Area
from ebbtide.runtime.checkpoint import Shelf
from ebbtide.runtime.layouts import Layout, lay_out
from ebbtide.runtime.reporting import Progress, say
from ebbtide.runtime.scribe import Order, Scribe, WritingError

ASSUMED_BYTES_PER_SECOND: Final = 50e6  # before the first save told better
ASSUMED_SECONDS: Final = 0.5
SAFETY: Final = 1.5
SPREAD_SHARE: Final = 0.5
"""Of the time between two saves, that a write may take at most by its pauses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    """One state to be saved; the write may be spread over `spread_seconds`."""

    tree: Any
    step: int
    lineage: int
    world_size: int
    retain: int
    spread_seconds: float = 0.0


class Listener(Protocol):
    """Who is told how a save ended; called from the saving thread. Pauses are no part of times."""

    def committed(self, *, step: int, seconds: float, num_bytes: int) -> None:
        """Hear that a checkpoint is durable and visible."""

    def failed(self, *, step: int, error: str) -> None:
        """Hear that a save did not come through."""


@dataclass(slots=True, kw_only=True)
class _Staged:
    """One save under way: what of it is copied later, and until when it must be written."""

    save: Save
    layout: Layout
    area: Area
    later: list[tuple[Tensor, Tensor]]
    may_commit: Callable[[], bool]
    deadline: float | None = None
    began: float = field(default_factory=time.monotonic)


class Saver:
    """Writes one job's checkpoints from one process."""

    def __init__(
        self,
        shelf: Shelf,
        *,
        listener: Listener,
        may_commit: Callable[[], bool],
        scribe: Scribe | None = None,
    ) -> None:
        self._shelf = shelf
        self._listener = listener
        self._may_commit = may_commit
        self._scribe = scribe or Scribe()
        self._area: Area | None = None
        self._copied = threading.Event()
        self._copied.set()
        self._idle = threading.Event()
        self._idle.set()
        self._tasks: queue.SimpleQueue[_Staged | Layout | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._seconds_per_byte = 0.0
        self.saved_step = -1  # the newest that this process made durable
        self.started_at = time.monotonic()  # of the newest try
        self.tried_final_at = 0.0

    @property
    def is_writing(self) -> bool:
        """Tell whether a save is under way, or being made ready for."""
        return not self._idle.is_set()

    @property
    def is_prepared(self) -> bool:
        """Tell whether `prepare` was called, or a save has begun."""
        return self._thread is not None

    def prepare(self, tree: Any) -> None:
        """Make ready for saves of such a state, in a thread: the first one costs no more then."""
        self._give(lay_out(tree)[0])

    def begin(self, save: Save, *, early: set[int]) -> bool:
        """
        Start a save of what `save.tree` refers to; False when one is still being written.

        Tensors whose address is in `early` may change before the next fence: they are copied now.
        """
        if self.is_writing:
            return False
        self.started_at = time.monotonic()
        staged = self._stage(save, early=early, may_commit=self._may_commit)
        if staged is None:
            return False
        self._copied.clear()
        self._give(staged)
        return True

    def fence(self) -> None:
        """Wait until the state may change again."""
        self._copied.wait()

    def finish(self, timeout: float | None = None) -> bool:
        """Wait for a save that is under way, and let it hurry; False when it takes longer."""
        if self.is_writing:
            self._scribe.hurry()
        return self._idle.wait(timeout)

    def save_now(
        self, save: Save, *, may_commit: Callable[[], bool], seconds: float | None = None
    ) -> bool:
        """
        Save in this thread and tell whether it is durable. One under way comes first.

        After `seconds` it is given up, as it is when something fails: that is told and said.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        if not self.finish(seconds):
            say(f"no checkpoint of step {save.step}: the one before it is not done yet")
            return False
        if self.saved_step == save.step:
            return True
        self.started_at = time.monotonic()
        staged = self._stage(save, early=set(), may_commit=may_commit)
        if staged is None:
            return False
        staged.deadline = deadline
        return self._write(staged)

    def estimate_seconds(self, tree: Any) -> float:
        """Return how long a save of this state may take, with a margin; one under way included."""
        size = trees.num_bytes(tree)
        if self._seconds_per_byte > 0:
            return SAFETY * size * self._seconds_per_byte * (2 if self.is_writing else 1)
        return ASSUMED_SECONDS + size / ASSUMED_BYTES_PER_SECOND

    def close(self) -> None:
        """End the process that writes, and the thread."""
        self._tasks.put(None)
        self._scribe.close()

    def _give(self, task: _Staged | Layout) -> None:
        """Hand a task to the thread. One that were started now would be waited for."""
        self._idle.clear()
        self._tasks.put(task)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="ebbtide-save", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                if isinstance(task, Layout):
                    self._prepare(task)
                else:
                    self._write(task)
            finally:
                self._idle.set()

    def _prepare(self, layout: Layout) -> None:
        try:
            self._area = Area(layout.slots, num_bytes=layout.num_bytes)
            self._area.populate()
            self._scribe.start()
        except OSError as error:
            say(f"checkpoints could not be made ready ({error}): tried again at the first save")

    def _stage(
        self, save: Save, *, early: set[int], may_commit: Callable[[], bool]
    ) -> _Staged | None:
        """Note what is still to be copied; small and early ones are copied now."""
        layout, tensors = lay_out(save.tree)
        try:
            if self._area is None or not self._area.fits(layout):
                self._area = None  # before the next one: never two at once
                self._area = Area(layout.slots, num_bytes=layout.num_bytes)
        except OSError as error:
            self._fail(save, f"no memory for a checkpoint of {layout.num_bytes} bytes: {error}")
            return None
        now: list[tuple[Tensor, Tensor]] = []
        later: list[tuple[Tensor, Tensor]] = []
        for pair in zip(tensors, self._area.parts(), strict=True):
            is_early = pair[0].data_ptr() in early or pair[0].numel() <= 1
            (now if is_early else later).append(pair)
        area.copy(now)
        return _Staged(
            save=save, layout=layout, area=self._area, later=later, may_commit=may_commit
        )

    def _write(self, staged: _Staged) -> bool:
        """Copy, have it written, and tell how that ended."""
        save = staged.save
        try:
            try:
                area.copy(staged.later)
                staged.later.clear()
            finally:
                self._copied.set()
            staged.area.put_header(staged.layout)
            return self._have_written(staged)
        except LostDuty:
            say(f"checkpoint of step {save.step} dropped: its duty moved on before it was done")
        except (WritingError, OSError, RuntimeError) as error:
            self._fail(save, str(error))
        return False

    def _have_written(self, staged: _Staged) -> bool:
        save, size = staged.save, staged.layout.num_bytes
        order = Order(
            memory=staged.area.memory,
            ranges=staged.area.ranges(),
            facts=Facts(
                step=save.step,
                lineage=save.lineage,
                world_size=save.world_size,
                torch_version=str(torch.__version__),
            ),
            url=self._shelf.path,
            owner=self._shelf.owner,
            retain=save.retain,
            spread_seconds=save.spread_seconds,
        )
        with Progress(f"checkpoint of step {save.step}", total=size) as progress:
            written = self._scribe.write(
                order,
                may_commit=staged.may_commit,
                on_progress=progress.reach,
                deadline=staged.deadline,
            )
        num_bytes = written.manifest.num_bytes
        paused = f", with {written.paused:.1f} s of pauses" if written.paused else ""
        seconds = time.monotonic() - staged.began - written.paused
        self._seconds_per_byte = seconds / num_bytes
        self.saved_step = save.step
        say(f"checkpoint of step {save.step}: {num_bytes} bytes in {seconds:.3f} s{paused}")
        self._listener.committed(step=save.step, seconds=seconds, num_bytes=num_bytes)
        return True

    def _fail(self, save: Save, error: str) -> None:
        say(f"no checkpoint of step {save.step}: {error}")
        self._listener.failed(step=save.step, error=error)
