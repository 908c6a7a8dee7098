"""
Everything that makes up a training state, taken and put back as one tree.

Model, optimizer, scheduler, and what the script tracks. What is taken refers to the live tensors;
whoever keeps it copies (`trees.copy_tree`) or stages it. To put one back, its header comes first:
`targets` says into which tensors to read it, or refuses what is another model's or optimizer's;
`put` then takes the tree that is made of those tensors.

A tree is `{"kinds", "model", "optimizer", "scheduler", "tracked"}`, with whatever its owner adds.
Nothing in it depends on how many ranks there are.
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ebbtide.runtime import layouts, trees
from ebbtide.runtime.errors import MismatchError, UsageError
from ebbtide.runtime.layouts import Layout

_MODEL = "model."
_NAMED = 5  # differences that an error names


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

    @property
    def has_scaler(self) -> bool:
        """Whether a `GradScaler` is tracked: then a step whose gradients overflow is left out."""
        return any(
            isinstance(item, torch.amp.GradScaler) and item.is_enabled()
            for item in self._tracked.values()
        )

    def take(self) -> dict[str, Any]:
        """Return the whole state. Containers are new, tensors are the live ones."""
        return _share(
            {
                "kinds": self._kinds(),
                "model": dict(self.model.state_dict()),
                "optimizer": self.optimizer.state_dict(),
                **self._side(),
            }
        )

    def targets(self, layout: Layout, *, in_place: bool) -> dict[str, Tensor]:
        """
        Return tensors that a state of this layout can be read into, by name.

        They are the live ones where these fit and `in_place`: what they held is lost as soon as
        reading begins. `MismatchError` names both sides when the state is of another model.
        """
        ours, live = layouts.lay_out(self.take())
        _compare_models(layout, ours)
        _compare_kinds(layout, self._kinds())
        if not in_place:
            return layouts.allocate(layout)
        own = {slot.name: tensor for slot, tensor in zip(ours.slots, live, strict=True)}
        same = {(slot.name, slot.dtype, slot.shape) for slot in ours.slots}
        return {
            slot.name: own[slot.name]
            if (slot.name, slot.dtype, slot.shape) in same
            else torch.empty(slot.shape, dtype=slot.dtype)
            for slot in layout.slots
        }

    def put(self, tree: Mapping[str, Any]) -> None:
        """Replace the whole state. The tensors belong to this from now on: nobody else has them."""
        try:
            self.model.load_state_dict(tree["model"])
            self.optimizer.load_state_dict(tree["optimizer"])
        except (KeyError, RuntimeError, ValueError) as error:
            kinds = self._kinds()
            raise MismatchError(
                f"the state does not fit this script's {type(self.model).__name__} and "
                f"{kinds['optimizer']}: {error}"
            ) from error
        self.put_side(tree)

    def take_side(self) -> dict[str, Any]:
        """Return a copy of scheduler and tracked state: what a script's own code may change."""
        return {key: trees.copy_tree(value) for key, value in self._side().items()}

    @torch.no_grad()
    def put_side(self, tree: Mapping[str, Any]) -> None:
        """Replace scheduler and tracked state."""
        tracked = tree["tracked"]
        if set(tracked) != set(self._tracked):
            raise MismatchError(
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

    def _kinds(self) -> dict[str, Any]:
        """What the parts are, by the names of their classes."""
        return {
            "optimizer": type(self.optimizer).__name__,
            "scheduler": None if self.scheduler is None else type(self.scheduler).__name__,
        }

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


def _compare_models(saved: Layout, ours: Layout) -> None:
    """Raise `MismatchError`, with both sides, when the models' tensors differ."""
    theirs, mine = (
        {slot.name: slot for slot in layout.slots if slot.name.startswith(_MODEL)}
        for layout in (saved, ours)
    )
    differing = []
    for name in sorted({*theirs, *mine}):
        was, now = theirs.get(name), mine.get(name)
        if was is None or now is None or was.shape != now.shape:
            sides = ("absent" if each is None else each.words for each in (was, now))
            differing.append(f"{name.removeprefix(_MODEL)} was {' and is '.join(sides)}")
    if differing:
        rest = len(differing) - _NAMED
        more = f"; and {rest} more" if rest > 0 else ""
        raise MismatchError(
            f"the saved model is not this script's: {'; '.join(differing[:_NAMED])}{more}"
        )


def _compare_kinds(saved: Layout, ours: Mapping[str, Any]) -> None:
    """Raise `MismatchError`, with both sides, when another optimizer or scheduler was used."""
    bare = layouts.outline(saved)
    theirs = bare.get("kinds") if isinstance(bare, dict) else None
    if not isinstance(theirs, dict):
        raise MismatchError("the saved state is none of a training script's")
    differing = [
        f"the {part} was {theirs.get(part)} and is {kind}"
        for part, kind in ours.items()
        if theirs.get(part) != kind
    ]
    if differing:
        raise MismatchError(f"the saved state is of other parts: {'; '.join(differing)}")
