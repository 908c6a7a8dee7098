"""
How a tree of state becomes a header and a row of bytes, and is read again without pickle.

The form is that of safetensors: a JSON object that names for each tensor its type, shape and place,
then the tensors themselves, without gaps. So a checkpoint is read by plain PyTorch, and the same
bytes go from peer to peer. What is no tensor (containers, numbers, text) is described in the
header's metadata under `ebbtide`, and refers to the tensors by name.

Tensors lie in the order of the size of their elements, the largest first, so that each is aligned
to its own elements. Complex ones are kept as pairs of real numbers: not every reader knows them.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol

import torch
from torch import Tensor

from ebbtide.runtime.trees import Tree

MAX_HEADER: Final = 100_000_000  # what readers of safetensors take
METADATA: Final = "__metadata__"
_OURS: Final = "ebbtide"
_ALIGNMENT: Final = 64  # of the first tensor in a file
PREFIX: Final = 8  # bytes that say how long the header is
_DTYPES: Final = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
    "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip
_CODES: Final = {dtype: code for code, dtype in _DTYPES.items()}
_COMPLEX: Final = {torch.complex64: "F32", torch.complex128: "F64"}


class _Find(Protocol):
    def __call__(self, name: str, *, is_complex: bool) -> Tensor | None: ...


class LayoutError(ValueError):
    """This state cannot be described, or the description cannot be true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Where one tensor lies: `size` bytes from `start` on."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    size: int

    @property
    def words(self) -> str:
        """Type and shape, as a person reads them."""
        return f"{str(self.dtype).removeprefix('torch.')} {list(self.shape)}"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What a header says: the tensors in order of place, and the tree that holds them."""

    slots: tuple[Slot, ...]
    description: Any

    @property
    def num_bytes(self) -> int:
        """How many bytes the tensors take."""
        return self.slots[-1].start + self.slots[-1].size if self.slots else 0

    @cached_property
    def header(self) -> bytes:
        """The header: JSON, filled up with blanks."""
        entries: dict[str, Any] = {
            METADATA: {"format": "pt", _OURS: json.dumps(self.description, separators=(",", ":"))}
        }
        for slot in self.slots:
            entries[slot.name] = {
                "dtype": _CODES[slot.dtype],
                "shape": slot.shape,
                "data_offsets": (slot.start, slot.start + slot.size),
            }
        written = json.dumps(entries, separators=(",", ":")).encode()
        filled = -(-(PREFIX + len(written)) // _ALIGNMENT) * _ALIGNMENT - PREFIX
        return written.ljust(filled)

    @property
    def preface(self) -> bytes:
        """How a file of this layout begins: the header's length, then the header."""
        return len(self.header).to_bytes(PREFIX, "little") + self.header


def lay_out(tree: Tree) -> tuple[Layout, list[Tensor]]:
    """Return the layout of a tree, and its tensors in the same order; they are the live ones."""
    named: dict[str, Tensor] = {}
    description = _describe(tree, "", named)
    order = sorted(named, key=lambda name: -named[name].element_size())
    slots, start = [], 0
    for name in order:
        tensor = named[name]
        size = tensor.numel() * tensor.element_size()
        slots.append(
            Slot(name=name, dtype=tensor.dtype, shape=tuple(tensor.shape), start=start, size=size)
        )
        start += size
    layout = Layout(slots=tuple(slots), description=description)
    return layout, [named[name] for name in order]


def check(tree: Tree) -> None:
    """Raise `LayoutError`, naming the place, when this state cannot be saved and sent."""
    lay_out(tree)


def read_prefix(prefix: bytes) -> int:
    """Return the length of the header that follows."""
    size = int.from_bytes(prefix, "little")
    if len(prefix) != PREFIX or not 0 < size <= MAX_HEADER:
        raise LayoutError(f"a header of {size} bytes cannot be: at most {MAX_HEADER}")
    return size


def read_header(header: bytes) -> Layout:
    """Return what a header says; `LayoutError` for one that cannot be true."""
    try:
        entries = json.loads(header)
        description = json.loads(entries.pop(METADATA)[_OURS])
        slots = sorted(
            (_read_slot(name, entry) for name, entry in entries.items()),
            key=lambda slot: (slot.start, slot.size),
        )
    except LayoutError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LayoutError(f"not the header of a state: {error!r}"[:500]) from error
    end = 0
    for slot in slots:
        if slot.start != end:
            raise LayoutError(f"{slot.name[:100]} lies at {slot.start} instead of {end}")
        end += slot.size
    return Layout(slots=tuple(slots), description=description)


def rebuild(layout: Layout, tensors: Mapping[str, Tensor]) -> Tree:
    """Return the tree, with these tensors in it."""

    def find(name: str, *, is_complex: bool) -> Tensor:
        return torch.view_as_complex(tensors[name]) if is_complex else tensors[name]

    return _build(layout, find)


def outline(layout: Layout) -> Tree:
    """Return the tree with None for each tensor: what can be known before they are read."""
    return _build(layout, _find_none)


def _find_none(name: str, *, is_complex: bool) -> None:
    """What stands for each tensor in an outline."""


def _build(layout: Layout, find: _Find) -> Tree:
    try:
        return _rebuild(layout.description, find)
    except LayoutError:
        raise
    except (ValueError, KeyError, TypeError, IndexError, RuntimeError, RecursionError) as error:
        raise LayoutError(f"the header does not describe a state: {error!r}"[:500]) from error


def allocate(layout: Layout) -> dict[str, Tensor]:
    """Return an empty tensor for each slot, by name."""
    return {slot.name: torch.empty(slot.shape, dtype=slot.dtype) for slot in layout.slots}


def carve(layout: Layout, flat: Tensor) -> list[Tensor]:
    """Return each slot's own part of a buffer of bytes, in order, with its type and shape."""
    return [
        flat[slot.start : slot.start + slot.size].view(slot.dtype).view(slot.shape)
        for slot in layout.slots
    ]


def _read_slot(name: str, entry: Mapping[str, Any]) -> Slot:
    dtype, shape = _DTYPES[entry["dtype"]], tuple(entry["shape"])
    start, end = entry["data_offsets"]
    if not all(type(number) is int and number >= 0 for number in (*shape, start, end)):
        raise LayoutError(f"{name[:100]} has a shape or place that cannot be")
    size = math.prod(shape) * dtype.itemsize
    if start + size != end or end >= 1 << 62:
        raise LayoutError(f"{name[:100]} takes {size} bytes and has the place of {end - start}")
    return Slot(name=name, dtype=dtype, shape=shape, start=start, size=size)


def _describe(tree: Tree, path: str, named: dict[str, Tensor]) -> list[Any]:
    match tree:
        case None | bool() | int() | float() | str():
            return ["v", tree]
        case Tensor():
            return _describe_tensor(tree, path, named)
        case dict():
            return ["c" if isinstance(tree, Counter) else "d", _describe_pairs(tree, path, named)]
        case list() | tuple():
            items = [_describe(value, _below(path, n), named) for n, value in enumerate(tree)]
            return ["t" if isinstance(tree, tuple) else "l", items]
        case _:
            raise LayoutError(
                f"{path or 'the state'} is a {type(tree).__name__}; state is made of numbers, "
                "text, lists, dictionaries and tensors"
            )


def _describe_pairs(tree: Mapping[Any, Any], path: str, named: dict[str, Tensor]) -> list[Any]:
    pairs = []
    for key, value in tree.items():
        if not isinstance(key, str | int | float | bool):
            raise LayoutError(f"{path or 'the state'} has a key of type {type(key).__name__}")
        pairs.append([key, _describe(value, _below(path, key), named)])
    return pairs


def _describe_tensor(tensor: Tensor, path: str, named: dict[str, Tensor]) -> list[Any]:
    if tensor.layout != torch.strided or tensor.dtype not in (*_CODES, *_COMPLEX):
        raise LayoutError(
            f"{path or 'the state'} is a tensor of type {tensor.dtype} and layout {tensor.layout}"
        )
    name, number = path or "tensor", 1
    while name in named or name == METADATA:
        number += 1
        name = f"{path or 'tensor'}#{number}"
    if tensor.dtype in _COMPLEX:
        named[name] = torch.view_as_real(tensor.detach().resolve_conj())
        return ["z", name]
    named[name] = tensor.detach()
    return ["x", name]


def _below(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def _rebuild(description: Sequence[Any], find: _Find) -> Tree:
    kind, *rest = description
    match kind:
        case "v":
            return rest[0]
        case "d":
            return {key: _rebuild(value, find) for key, value in rest[0]}
        case "c":
            return Counter({key: _rebuild(value, find) for key, value in rest[0]})
        case "l":
            return [_rebuild(value, find) for value in rest[0]]
        case "t":
            return tuple(_rebuild(value, find) for value in rest[0])
        case "x" | "z":
            return find(rest[0], is_complex=kind == "z")
        case _:
            raise LayoutError(f"{str(kind)[:20]!r} is no part of a state")
