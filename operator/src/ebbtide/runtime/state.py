"""
Everything that makes up a training state, taken and put back as one tree.

Model, optimizer, scheduler, and what the script tracks. What is taken refers to the live tensors;
whoever keeps it copies (`trees.copy_tree`) or stages it.
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ebbtide.runtime import trees
from ebbtide.runtime.errors import CheckpointError, UsageError


@runtime_checkable
class Stateful(Protocol):
    """What can give and take its state."""

    def state_dict(self) -> Any:
        """Return the state."""

    def load_state_dict(self, state: Any, /) -> Any:
        """Replace the state."""


class TrainState:
    """The parts of one training run."""

    def __init__(self, model: nn.Module, optimizer: Optimizer, scheduler: Any = None) -> None:
        if scheduler is not None and not isinstance(scheduler, Stateful):
            raise UsageError("the scheduler has no state_dict() and load_state_dict()")
        self.model = model
        self.optimizer = optimizer
        self.scheduler: Any = scheduler
        self._tracked: dict[str, Any] = {}
        self._before: list[Tensor] = []

    def track(self, **items: Any) -> None:
        """Add further state: tensors, or objects with `state_dict()` and `load_state_dict()`."""
        for name, item in items.items():
            if not isinstance(item, Tensor | Stateful):
                raise UsageError(
                    f"track({name}=...) takes a tensor or an object with state_dict() and "
                    f"load_state_dict(); a {type(item).__name__} is neither"
                )
            self._tracked[name] = item

    def take(self) -> dict[str, Any]:
        """Return the whole state. Containers are new, tensors are the live ones."""
        return _share(
            {
                "model": dict(self.model.state_dict()),
                "optimizer": self.optimizer.state_dict(),
                **self._side(),
            }
        )

    def put(self, tree: Mapping[str, Any]) -> None:
        """Replace the whole state."""
        self.model.load_state_dict(tree["model"])
        # The optimizer keeps what it is given, and that may be a view of one large buffer.
        self.optimizer.load_state_dict(trees.copy_tree(tree["optimizer"]))
        self.put_side(tree)

    def take_side(self) -> dict[str, Any]:
        """Return a copy of scheduler and tracked state: what a script's own code may change."""
        return {key: trees.copy_tree(value) for key, value in self._side().items()}

    @torch.no_grad()
    def put_side(self, tree: Mapping[str, Any]) -> None:
        """Replace scheduler and tracked state."""
        tracked = tree["tracked"]
        if set(tracked) != set(self._tracked):
            raise CheckpointError(
                f"the state tracks {sorted(tracked)}, this script tracks {sorted(self._tracked)}"
            )
        if self.scheduler is not None and tree["scheduler"] is not None:
            self.scheduler.load_state_dict(tree["scheduler"])
        for name, item in self._tracked.items():
            if isinstance(item, Tensor):
                item.copy_(tracked[name])
            else:
                item.load_state_dict(tracked[name])

    def addresses_of_early(self) -> set[int]:
        """Return where the tensors lie that may change before the optimizer's next step."""
        early = [*self.model.buffers(), *trees.tensors_of(self._side())]
        return {tensor.data_ptr() for tensor in early}

    @torch.no_grad()
    def mark(self) -> None:
        """Remember the model's running statistics, which the forward pass changes."""
        buffers = list(self.model.buffers())
        if [each.shape for each in self._before] != [each.shape for each in buffers]:
            self._before = [each.clone() for each in buffers]
        for kept, live in zip(self._before, buffers, strict=True):
            kept.copy_(live)

    @torch.no_grad()
    def undo(self) -> None:
        """Return to the mark: running statistics as they were, and no gradients."""
        for kept, live in zip(self._before, self.model.buffers(), strict=True):
            live.copy_(kept)
        for parameter in self.model.parameters():
            parameter.grad = None

    def _side(self) -> dict[str, Any]:
        return {
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "tracked": {
                name: item if isinstance(item, Tensor) else item.state_dict()
                for name, item in self._tracked.items()
            },
        }


def _share(tree: dict[str, Any]) -> dict[str, Any]:
    shared: dict[str, Any] = trees.map_tensors(tree, lambda tensor: tensor.detach())
    return shared
