"""What a training script holds in its hand."""

from __future__ import annotations

from types import MethodType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from torch.optim.optimizer import register_optimizer_step_pre_hook

from ebbtide.runtime import wrapping
from ebbtide.runtime.batches import Batch, MapStyle, Shard
from ebbtide.runtime.errors import UsageError
from ebbtide.runtime.layouts import LayoutError, check
from ebbtide.runtime.paramserver.loop import ServerLoop
from ebbtide.runtime.state import TrainState
from ebbtide.runtime.training import Loop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor, device, nn
    from torch.optim import Optimizer

    from ebbtide.runtime.links import Links

_MARK: Final = "_wrapped_by_lr_sched"  # what a scheduler leaves at an optimizer's step

Model = TypeVar("Model", bound="nn.Module")
Optim = TypeVar("Optim", bound="Optimizer")


class Trying(Protocol):
    """The step that is being tried; what a script calls arrives here."""

    def reduce(self) -> bool:
        """Make the gradients those of the global batch; False when the step is broken."""

    def apply(self, step: Callable[[], Any]) -> Any:
        """Stand in for `optimizer.step()`."""

    def schedule(self, step: Callable[[], Any]) -> Any:
        """Stand in for `scheduler.step()`."""

    def all_reduce(self, tensor: Tensor, *, scoped: bool) -> Tensor:
        """Return the sum over all ranks."""


class Looping(Protocol):
    """A loop over steps, and where it stands."""

    batch: Batch | None

    @property
    def attempt(self) -> Trying:
        """The step that is being tried."""

    @property
    def rank(self) -> int:
        """The rank of this process."""

    @property
    def world(self) -> int:
        """The number of ranks."""

    @property
    def step(self) -> int:
        """How many steps are applied."""

    @property
    def is_done(self) -> bool:
        """Whether all steps are."""

    @property
    def was_chief(self) -> bool:
        """Whether this process saved the final state."""

    def run(self) -> Iterator[Batch]:
        """Give the batches."""


class Job:
    """One process's part in a job; made by `ebbtide.runtime.join`."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self._state: TrainState | None = None
        self._loop: Looping | None = None
        self._is_stepping = False  # within the wrapped optimizer, which may hold others

    # ------------------------------------------------------------ what a script declares

    def wrap(
        self, model: Model, optimizer: Optim, scheduler: Any = None
    ) -> tuple[Model, Optim, Any]:
        """
        Take model, optimizer and scheduler into the job's care; the same objects come back.

        From now on `optimizer.step()` first makes the gradients those of the global batch, and does
        nothing (nor does `scheduler.step()`) when a member was lost in the middle of the step.
        `UsageError` for what the ranks could not keep equal: see `ebbtide.runtime.wrapping`.
        """
        if self._state is not None:
            raise UsageError("wrap() was called twice: one model and one optimizer per job")
        wrapping.check_parts(model, optimizer)
        self._state = TrainState(model, optimizer, scheduler)
        self._divert_optimizer(optimizer)
        register_optimizer_step_pre_hook(self._look_at_step)
        if scheduler is not None:
            self._divert_scheduler(scheduler)
        return model, optimizer, scheduler

    def track(self, **items: Any) -> None:
        """Add state that must survive: tensors or objects with state_dict and load_state_dict."""
        self._wrapped().track(**items)

    def shard(self, dataset: MapStyle, *, seed: int = 0) -> Shard:
        """Return the data set with its order: every sample once per epoch, whoever the members."""
        return Shard(dataset, seed=seed)

    # ------------------------------------------------------------ the loop

    def steps(self, data: Shard) -> Iterator[Batch]:
        """
        Give this rank's share of each step until all the job's steps are done.

        Survives loss and return of members. When a member is lost in the middle of a step, nothing
        of that step counts and the same batch comes again.
        """
        if not isinstance(data, Shard):
            raise UsageError("steps() takes what shard() returned")
        if self._loop is not None:
            raise UsageError("steps() was called twice: a job has one loop")
        state = self._wrapped()
        try:
            check(state.take())
        except LayoutError as error:
            raise UsageError(f"this cannot be saved or sent: {error}") from error
        self._loop = self._make_loop(state, data)
        yield from self._loop.run()

    def _make_loop(self, state: TrainState, shard: Shard) -> Looping:
        if self._links.membership.work.servers:
            return ServerLoop(self._links, state=state, shard=shard)
        return Loop(self._links, state=state, shard=shard)

    def log(self, *, loss: Any) -> None:
        """Note this step's loss, for progress lines and status."""
        self._links.telemetry.log(loss)

    def reduce_gradients(self) -> bool:
        """
        Make the gradients those of the global batch now, before `optimizer.step()` would.

        For what looks at them in between, as clipping does. False when a member was lost: the step
        will be done again.
        """
        return self._looping().attempt.reduce()

    def all_reduce(self, tensor: Tensor) -> Tensor:
        """
        Return the sum of a tensor over all ranks, before `optimizer.step()`.

        When a member is lost meanwhile, the whole step will be done again: within
        `with step as batch:` this raises `CollectiveBroken`, which that swallows; without, this
        rank's own value is returned and whatever is made of it is dropped with the step.
        """
        loop = self._looping()
        scoped = loop.batch is not None and loop.batch.scoped
        return loop.attempt.all_reduce(tensor, scoped=scoped)

    # ------------------------------------------------------------ where this process stands

    @property
    def rank(self) -> int:
        """This process's number among all now; it changes with every generation."""
        return 0 if self._loop is None else self._loop.rank

    @property
    def world_size(self) -> int:
        """How many processes train together now."""
        return 1 if self._loop is None else self._loop.world

    @property
    def step(self) -> int:
        """How many steps are applied."""
        return 0 if self._loop is None else self._loop.step

    @property
    def is_chief(self) -> bool:
        """Whether this process holds checkpoint duty; after the loop: whether it saved the end."""
        if self._loop is not None and self._loop.is_done:
            return self._loop.was_chief
        return self._links.place.local_rank == 0 and self._links.membership.duty()

    @property
    def device(self) -> device:
        """This process's own: a GPU where the worker has some, else the CPU."""
        return self._links.device

    @property
    def checkpoint_path(self) -> str:
        """Where the job's checkpoints are."""
        return self._links.place.checkpoint_path

    def _wrapped(self) -> TrainState:
        if self._state is None:
            raise UsageError("call wrap(model, optimizer) first")
        return self._state

    def _looping(self) -> Looping:
        if self._loop is None:
            raise UsageError("this works inside the loop over job.steps() only")
        return self._loop

    def _divert_optimizer(self, optimizer: Optimizer) -> None:
        """Let `optimizer.step` run through the loop's current try."""
        inner = optimizer.step

        def step(_: Optimizer, *args: Any, **keywords: Any) -> Any:
            def run() -> Any:
                self._is_stepping = True
                try:
                    return inner(*args, **keywords)
                finally:
                    self._is_stepping = False

            if self._loop is None:
                return run()
            wrapping.check_call(args, keywords)
            return self._loop.attempt.apply(run)

        # A scheduler that was made before looks for this mark, and warns when it is gone.
        if hasattr(inner, _MARK):
            setattr(step, _MARK, True)
        wrapped: Any = optimizer
        wrapped.step = MethodType(step, optimizer)

    def _look_at_step(self, optimizer: Optimizer, _args: Any, _keywords: Any) -> None:
        """Before the step of any optimizer of this process: see that none trains past the job."""
        is_open = self._loop is not None and self._loop.batch is not None
        if is_open and not self._is_stepping and self._state is not None:
            wrapping.check_other(self._state.model, optimizer)

    def _divert_scheduler(self, scheduler: Any) -> None:
        """Let `scheduler.step` run through the loop's current try."""
        kind = type(scheduler)

        def step(instance: Any, *args: Any, **keywords: Any) -> Any:
            def run() -> Any:
                return kind.step(instance, *args, **keywords)

            return run() if self._loop is None else self._loop.attempt.schedule(run)

        # On a class of its own: a scheduler's state is all that the instance holds.
        scheduler.__class__ = type(kind.__name__, (kind,), {"step": step})
