"""
One try at one step: from the batch that is handed out to the optimizer's step.

The script's calls arrive here through the wrapped optimizer and scheduler. A try ends applied or
broken; after a broken one the state is what it was before, and the same step is tried again.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

import torch
from torch import Tensor

from ebbtide.runtime import wrapping
from ebbtide.runtime.errors import CollectiveBroken, UsageError
from ebbtide.runtime.gradients import Reducer, Summing, Votes
from ebbtide.runtime.state import TrainState

SCALER_RULE: Final = (
    "a GradScaler decides by the gradients of the global batch: job.track(scaler=scaler), and call "
    "job.reduce_gradients() after backward(), before scaler.unscale_() and scaler.step()"
)


class Phase(Enum):
    """How far the try is."""

    OUTSIDE = auto()  # no step is being tried
    OPEN = auto()
    REDUCED = auto()
    APPLIED = auto()
    BROKEN = auto()


@dataclass(slots=True, kw_only=True)
class Spent:
    """Seconds of one try in which the script did not compute."""

    collectives: float = 0.0
    met: float = 0.0
    """Of those, until all ranks had come; known only where the ranks were to meet."""
    fenced: float = 0.0
    """Until a checkpoint that is being staged let the state change."""


class Attempt:
    """The current try. `fence` is called before anything changes; `vote` gives this rank's vote."""

    def __init__(
        self,
        state: TrainState,
        *,
        group: Summing,
        fence: Callable[[], None],
        vote: Callable[[], tuple[bool, bool]],
    ) -> None:
        self._state = state
        self._group = group
        self._fence = fence
        self._vote = vote
        self._reducer = Reducer(state.model.parameters(), state.model.buffers())
        self._side: dict[str, Any] = {}
        self._weight = 0.0
        self.phase = Phase.OUTSIDE
        self.votes = Votes(pending=0, leaving=0)
        self.error = ""
        self.spent = Spent()
        self._meets = False
        self._met = torch.zeros(1)

    @property
    def gradient_bytes(self) -> int:
        """How many bytes of gradients one step reduces."""
        return self._reducer.num_bytes

    @property
    def gradient_tensors(self) -> int:
        """How many tensors they are in."""
        return self._reducer.num_tensors

    def open(self, *, weight: float, meets: bool = False) -> None:
        """
        Begin a try, in which this rank has a share of `weight` of the global batch.

        With `meets` the ranks meet before they sum anything up: waiting is told from sending.
        """
        self._state.mark()
        self._weight = weight
        self.votes = Votes(pending=0, leaving=0)
        self.spent = Spent()
        self._meets = meets
        self.phase = Phase.OPEN

    def reduce(self) -> bool:
        """Make the gradients those of the global batch; False when the step is broken."""
        match self.phase:
            case Phase.REDUCED:
                return True
            case Phase.BROKEN:
                return False
            case Phase.APPLIED:
                raise UsageError("optimizer.step() was called twice for one batch")
            case Phase.OUTSIDE:
                raise UsageError("gradients are reduced inside the loop over job.steps() only")
            case Phase.OPEN:
                wrapping.check_trained(
                    self._state.model, self._state.optimizer, self._reducer.reduced
                )
        pending, leaving = self._vote()
        began = self._arrive()
        try:
            self._meet()
            self.votes = self._reducer.reduce(
                self._group, weight=self._weight, pending=pending, leaving=leaving
            )
        except CollectiveBroken as error:
            self.break_(error)
            return False
        self.spent.collectives += time.monotonic() - began
        self.phase = Phase.REDUCED
        return True

    def _arrive(self) -> float:
        """Return when a collective begins; what the device still computes is no part of it."""
        if self._meets and torch.cuda.is_initialized():
            torch.cuda.synchronize()
        return time.monotonic()

    def _meet(self) -> None:
        """Wait for all ranks, before the first collective of a try in which they are to meet."""
        if self._meets:
            self._meets = False
            began = time.monotonic()
            self._group.sum_up([self._met])
            self.spent.met = time.monotonic() - began

    def apply(self, step: Callable[[], Any]) -> Any:
        """Stand in for `optimizer.step()`: reduce, then step; nothing when the step is broken."""
        if self.phase is Phase.OUTSIDE:
            return step()  # the script's own business, say before the loop
        if self.phase is Phase.OPEN and self._is_scaled():
            raise UsageError(f"gradients were unscaled before they were summed: {SCALER_RULE}")
        if not self.reduce():
            return None
        if self._is_left_out():
            return None  # another rank's scaler may have seen less than all of them
        began = time.monotonic()
        self._fence()
        self.spent.fenced += time.monotonic() - began
        result = step()
        self.phase = Phase.APPLIED
        return result

    def _is_scaled(self) -> bool:
        """Tell whether a scaler stands behind this step: tracked, or felt by a fused optimizer."""
        is_felt = getattr(self._state.optimizer, "found_inf", None) is not None
        return is_felt or self._state.has_scaler

    def _is_left_out(self) -> bool:
        """Tell whether the summed gradients are none to step by, which all ranks see alike."""
        return (
            self.phase is Phase.REDUCED and self._state.has_scaler and not self._reducer.is_finite()
        )

    def schedule(self, step: Callable[[], Any]) -> Any:
        """Stand in for `scheduler.step()`."""
        return None if self.phase is Phase.BROKEN else step()

    def all_reduce(self, tensor: Tensor, *, scoped: bool) -> Tensor:
        """Return the sum over all ranks; see `Job.all_reduce`."""
        if self.phase not in {Phase.OPEN, Phase.REDUCED, Phase.BROKEN}:
            raise UsageError(
                "all_reduce() works inside the loop over job.steps(), before optimizer.step(): "
                "after it a member that is lost here could not be made good"
            )
        if self.phase is not Phase.BROKEN:
            total = tensor.detach().clone(memory_format=torch.contiguous_format)
            began = self._arrive()
            try:
                self._meet()
                self._group.sum_up([total])
            except CollectiveBroken as error:
                self.break_(error)
            else:
                self.spent.collectives += time.monotonic() - began
                return total
        if scoped:
            raise CollectiveBroken(self.error)
        return tensor.detach().clone()

    def break_(self, error: CollectiveBroken) -> None:
        """Note that this try failed, and what the script may still change without effect."""
        self.error = str(error)
        self._side = self._state.take_side()
        self.phase = Phase.BROKEN

    def settle(self) -> bool:
        """End the try after the script's body; False when it must be done again, from before it."""
        is_left_out = self._is_left_out()
        phase, self.phase = self.phase, Phase.OUTSIDE
        if phase is Phase.APPLIED or is_left_out:
            return True
        if phase is not Phase.BROKEN:
            raise UsageError(
                "the loop's body did not call optimizer.step(): each batch of job.steps() is one "
                f"step of the global batch; where a GradScaler left it out: {SCALER_RULE}"
            )
        self._state.undo()
        self._state.put_side(self._side)
        return False
