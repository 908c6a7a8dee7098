"""
What the parameters of one script are, so that servers and workers mean the same bytes.

All dense parameters lie end to end in the order of the optimizer, in the space `dense`; each
embedding table whose gradients are sparse is a space of rows; buffers that the forward pass changes
are *carried*: each push brings the worker's, and the newest ones go to everybody.
"""

from typing import Any, Final

import msgspec
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ebbtide.runtime.errors import UsageError
from ebbtide.runtime.paramserver.optimizers import (
    Hyper,
    kind_of,
    read_fields,
    read_hyper,
    state_names,
)

DENSE: Final = "dense"
CARRIED: Final = "carried"
BLOCK: Final = 1024  # elements of the dense space that stay together: 4 KiB
ALIGNMENT: Final = 64
MAX_AXES: Final = 16
MAX_SIZE: Final = 1 << 40  # numbers in one model
FROZEN: Final = -1  # the group of parameters that no optimizer updates


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter: where it lies, and what trains it."""

    name: str
    shape: tuple[int, ...]
    space: str  # `dense`, or a table of its own
    start: int  # its first element in the dense space
    group: int  # of the optimizer; FROZEN = none
    number: int  # in the optimizer's state; FROZEN = none

    @property
    def size(self) -> int:
        """How many elements it has."""
        return torch.Size(self.shape).numel()


class Buffer(msgspec.Struct, frozen=True, kw_only=True):
    """One carried buffer of the model."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int  # its first byte
    size: int  # bytes


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters, buffers and optimizer of one script, and the data that its steps count."""

    kind: str
    entries: tuple[Entry, ...]
    buffers: tuple[Buffer, ...]
    groups: tuple[Hyper, ...]  # as the script made them; each push brings the present ones
    data: dict[str, int]

    @property
    def spaces(self) -> dict[str, int]:
        """The number of blocks of each space."""
        found = {DENSE: -(-self.dense_size // BLOCK)}
        found.update({entry.space: entry.shape[0] for entry in self.tables})
        found[CARRIED] = min(1, self.carried_bytes)
        return found

    @property
    def dense(self) -> tuple[Entry, ...]:
        """The parameters in the dense space, in order."""
        return tuple(entry for entry in self.entries if entry.space == DENSE)

    @property
    def tables(self) -> tuple[Entry, ...]:
        """The embedding tables."""
        return tuple(entry for entry in self.entries if entry.space != DENSE)

    @property
    def dense_size(self) -> int:
        """How many elements the dense parameters have."""
        return max((entry.start + entry.size for entry in self.dense), default=0)

    @property
    def carried_bytes(self) -> int:
        """How many bytes the carried buffers take."""
        return max((buffer.start + buffer.size for buffer in self.buffers), default=0)

    @property
    def states(self) -> tuple[str, ...]:
        """Which states the optimizer keeps."""
        return state_names(self.kind, list(self.groups))

    def row_size(self, space: str) -> int:
        """Return how many elements one block of a space has."""
        if space == DENSE:
            return BLOCK
        if space == CARRIED:
            return self.carried_bytes
        return next(e.size // max(1, e.shape[0]) for e in self.tables if e.space == space)


def describe(
    model: nn.Module, optimizer: Optimizer, *, tables: set[str], data: dict[str, int]
) -> Layout:
    """Describe a script's model; `tables` names the parameters whose gradients are sparse."""
    kind = kind_of(optimizer)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    places: dict[str, tuple[int, int]] = {}
    number = 0
    for group, settings in enumerate(optimizer.param_groups):
        for parameter in settings["params"]:
            if id(parameter) not in names:
                raise UsageError("the optimizer trains a parameter that is not the model's")
            places[names[id(parameter)]] = (group, number)
            number += 1
    entries, start = [], 0
    for name, parameter in model.named_parameters():
        _check(name, parameter)
        group, place = places.get(name, (FROZEN, FROZEN))
        is_table = name in tables
        entries.append(
            Entry(
                name=name,
                shape=tuple(parameter.shape),
                space=f"table:{name}" if is_table else DENSE,
                start=0 if is_table else start,
                group=group,
                number=place,
            )
        )
        start += 0 if is_table else parameter.numel()
    return Layout(
        kind=kind,
        entries=tuple(entries),
        buffers=_describe_buffers(model),
        groups=tuple(read_hyper(kind, group) for group in optimizer.param_groups),
        data=data,
    )


def find_tables(model: nn.Module) -> set[str]:
    """Return the names of parameters whose gradients are rows: of sparse embeddings."""
    found = set()
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.sparse:
            found.add(f"{name}.weight" if name else "weight")
    return found


def validate(layout: Layout) -> str:
    """Say why a description that came over the network cannot be; empty = it can."""
    fields = set(read_fields(layout.kind))
    if not fields:
        return f"{layout.kind!r} is no optimizer"
    if any(set(group) != fields for group in layout.groups):
        return f"a group of {layout.kind} has other fields than {sorted(fields)}"
    start = 0
    for entry in layout.entries:
        if why := _doubt(entry, start=start, groups=len(layout.groups)):
            return f"{entry.name}: {why}"
        start += entry.size if entry.space == DENSE else 0
    for buffer in layout.buffers:
        size = torch.Size(buffer.shape).numel() * dtype_size(buffer.dtype)
        if buffer.size != size or buffer.start < 0 or buffer.start % ALIGNMENT:
            return f"the buffer {buffer.name} is of {buffer.size} bytes at {buffer.start}"
    total = sum(entry.size for entry in layout.entries) + layout.carried_bytes
    return f"{total} numbers are more than {MAX_SIZE}" if total > MAX_SIZE else ""


def _doubt(entry: Entry, *, start: int, groups: int) -> str:
    """Say what cannot be true of a parameter, of which the dense one begins at `start`."""
    is_dense = entry.space == DENSE
    checks = (
        (
            len(entry.shape) > MAX_AXES or any(not 0 <= e <= MAX_SIZE for e in entry.shape),
            f"the shape is {list(entry.shape)}",
        ),
        (not FROZEN <= entry.group < groups, f"group {entry.group} of {groups}"),
        (is_dense and entry.start != start, f"it begins at {entry.start} instead of {start}"),
        (
            not is_dense and (entry.space != f"table:{entry.name}" or not any(entry.shape[:1])),
            f"it is in a space {entry.space}",
        ),
    )
    return next((why for is_wrong, why in checks if is_wrong), "")


def compare(theirs: Layout, ours: Layout) -> str:
    """Say what differs between two scripts' layouts, naming both sides; empty = nothing."""
    if theirs.kind != ours.kind:
        return f"the optimizer is {ours.kind} here and {theirs.kind} there"
    known = {entry.name: entry.shape for entry in theirs.entries}
    for entry in ours.entries:
        if entry.name not in known:
            return f"{entry.name} of shape {list(entry.shape)} is not known there"
        if known[entry.name] != entry.shape:
            shapes = f"{list(entry.shape)} here and {list(known[entry.name])} there"
            return f"{entry.name} has the shape {shapes}"
    if theirs.entries != ours.entries or theirs.buffers != ours.buffers:
        return f"the model has {len(theirs.entries)} parameters there, {len(ours.entries)} here"
    if theirs.data != ours.data:
        return f"the data is {ours.data} here and {theirs.data} there"
    return ""


def _check(name: str, parameter: Tensor) -> None:
    if parameter.dtype != torch.float32:
        raise UsageError(
            f"{name} is {parameter.dtype}: parameter servers hold float32; cast inside the model"
        )


def _describe_buffers(model: nn.Module) -> tuple[Buffer, ...]:
    found: list[Buffer] = []
    start = 0
    for name, buffer in model.named_buffers():
        size = buffer.numel() * buffer.element_size()
        dtype = str(buffer.dtype).removeprefix("torch.")
        found.append(
            Buffer(name=name, dtype=dtype, shape=tuple(buffer.shape), start=start, size=size)
        )
        start += -(-size // ALIGNMENT) * ALIGNMENT
    return tuple(found)


def dtype_size(name: str) -> int:
    """Return how many bytes one number of a type takes; 0 for what is no type of numbers."""
    found = getattr(torch, name, None)
    return found.itemsize if isinstance(found, torch.dtype) else 0


def dtype_of(name: str) -> torch.dtype:
    """Return the type that a buffer's description names."""
    found: Any = getattr(torch, name)
    if not isinstance(found, torch.dtype):
        raise UsageError(f"{name} is no type of numbers")
    return found
