"""
A script's model on the flat memory that servers read and write.

On the CPU the parameters become views of it: what a server writes is what the model computes with.
On a GPU they are copied there after each push. Gradients are copied into it before a push.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ebbtide.runtime.paramserver.layout import CARRIED, DENSE, FROZEN, Layout, dtype_of
from ebbtide.runtime.paramserver.memory import Shared
from ebbtide.runtime.paramserver.optimizers import read_hyper


class Binding:
    """One model, optimizer and memory."""

    @torch.no_grad()
    def __init__(self, model: nn.Module, optimizer: Optimizer, layout: Layout) -> None:
        self.layout = layout
        self.shared = Shared(layout)
        self._model = model
        self._optimizer = optimizer
        self._places: list[tuple[Tensor, Tensor]] = []  # live tensors and their places, if apart
        self._gradients: dict[int, Tensor] = {}  # by entry: the places of dense gradients
        parameters = dict(model.named_parameters())
        self._parameters = [parameters[entry.name] for entry in layout.entries]
        for number, entry in enumerate(layout.entries):
            live = self._parameters[number]
            flat = self.shared.values[entry.space]
            if entry.space == DENSE:
                piece = slice(entry.start, entry.start + entry.size)
                flat = flat[piece]
                self._gradients[number] = self.shared.gradient[piece].view(entry.shape)
            self._bind(live, flat.view(entry.shape))
        buffers = dict(model.named_buffers())
        for buffer in layout.buffers:
            bytes_ = self.shared.values[CARRIED][buffer.start : buffer.start + buffer.size]
            self._bind(buffers[buffer.name], bytes_.view(dtype_of(buffer.dtype)).view(buffer.shape))

    def _bind(self, live: Tensor, place: Tensor) -> None:
        place.copy_(live)
        if live.device.type == "cpu":
            live.data = place
        else:
            self._places.append((live, place))

    @torch.no_grad()
    def pull(self) -> None:
        """Take over what the servers wrote."""
        for live, place in self._places:
            live.copy_(place)

    def groups(self) -> tuple[dict[str, float], ...]:
        """Return what each group of the optimizer is trained with now."""
        kind = self.layout.kind
        return tuple(read_hyper(kind, group) for group in self._optimizer.param_groups)

    @torch.no_grad()
    def push(self) -> tuple[tuple[int, ...], dict[str, int]]:
        """Put gradients and buffers in place; return entries without one, and rows by table."""
        skipped: list[int] = []
        rows: dict[str, int] = {}
        for number, entry in enumerate(self.layout.entries):
            gradient = self._parameters[number].grad
            if entry.group == FROZEN:
                continue
            if gradient is None:
                skipped.append(number)
            elif entry.space == DENSE:
                self._gradients[number].copy_(gradient)
            else:
                rows[entry.space] = self._put_rows(entry.space, gradient)
        for live, place in self._places:
            if not isinstance(live, nn.Parameter):
                place.copy_(live)
        return tuple(skipped), rows

    def _put_rows(self, space: str, gradient: Tensor) -> int:
        place = self.shared.rows[space]
        if gradient.is_sparse:
            whole = gradient.coalesce()
            numbers, values = whole.indices()[0], whole.values()
        else:
            numbers = torch.arange(gradient.shape[0])
            values = gradient
        count = len(numbers)
        place.numbers[:count].copy_(numbers)
        place.values[:count].copy_(values.reshape(count, -1))
        return count

    def whole_model(self, found: dict[str, Tensor]) -> dict[str, Any]:
        """Return a saved model as this model's `state_dict` has it: tied names too, no others."""
        names: dict[int, list[str]] = {}
        for name, parameter in self._model.named_parameters(remove_duplicate=False):
            names.setdefault(id(parameter), []).append(name)
        for alike in names.values():
            known = next((found[name] for name in alike if name in found), None)
            if known is not None:
                found.update(dict.fromkeys(alike, known))
        return {name: found[name] for name in self._model.state_dict() if name in found}
