"""
One step of one worker: from the batch that is handed out to the servers' answer.

Stands where `ebbtide.runtime.attempt.Attempt` stands in all-reduce training: the script's calls
arrive here through the wrapped optimizer and scheduler. A step never breaks here: a push is
repeated until it is applied.
"""

from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.optim import Optimizer

from ebbtide.runtime.errors import UsageError
from ebbtide.runtime.paramserver.binding import Binding
from ebbtide.runtime.paramserver.client import Client

if TYPE_CHECKING:
    from ebbtide.runtime.paramserver.messages import Fresh


class Phase(Enum):
    """How far the step is."""

    OUTSIDE = auto()
    OPEN = auto()
    APPLIED = auto()


class Push:
    """The current step."""

    def __init__(
        self,
        binding: Binding,
        optimizer: Optimizer,
        *,
        client: Client,
        fence: Callable[[], None],
        wants_more: Callable[[], bool],
    ) -> None:
        self._binding = binding
        self._optimizer: Any = optimizer
        self._client = client
        self._fence = fence
        self._wants_more = wants_more
        self.phase = Phase.OUTSIDE
        self.step = 0
        self.scheduled = 0  # how often the scheduler was stepped
        self.fresh: Fresh | None = None  # the servers' answer to the newest push

    def open(self, step: int) -> None:
        """Begin a step."""
        self.step = step
        self.phase = Phase.OPEN

    def reduce(self) -> bool:
        """Do nothing: a worker's gradients are its step's."""
        if self.phase is Phase.OUTSIDE:
            raise UsageError("gradients are reduced inside the loop over job.steps() only")
        return True

    def apply(self, step: Callable[[], Any]) -> Any:
        """Stand in for `optimizer.step()`: push, and take the new parameters."""
        if self.phase is Phase.OUTSIDE:
            return step()  # the script's own business, say before the loop
        if self.phase is Phase.APPLIED:
            raise UsageError("optimizer.step() was called twice for one batch")
        self._fence()
        self.fresh = self._client.push(
            self.step,
            groups=self._binding.groups(),
            refill=self._binding.push,
            wants_more=self._wants_more(),
        )
        self._binding.pull()
        self._optimizer._opt_called = True  # noqa: SLF001 -- what torch's schedulers look for
        self.phase = Phase.APPLIED
        return None

    def schedule(self, step: Callable[[], Any]) -> Any:
        """
        Stand in for `scheduler.step()`, once per step: catch up with the steps of all workers.

        So a schedule follows the job's steps, not the few of them that were computed here.
        """
        if self.phase is Phase.OUTSIDE:
            return step()
        result = None
        while self.scheduled <= self.step:
            self.scheduled += 1
            result = step()
        return result

    def all_reduce(self, tensor: Tensor, *, scoped: bool) -> Tensor:
        """Return the tensor: one worker computes the whole step."""
        del scoped
        if self.phase is not Phase.OPEN:
            raise UsageError(
                "all_reduce() works inside the loop over job.steps(), before optimizer.step()"
            )
        return tensor.detach().clone()

    def settle(self) -> None:
        """End the step after the script's body."""
        phase, self.phase = self.phase, Phase.OUTSIDE
        if phase is not Phase.APPLIED:
            raise UsageError(
                "the loop's body did not call optimizer.step(): each batch of job.steps() is one "
                "step of the global batch"
            )
