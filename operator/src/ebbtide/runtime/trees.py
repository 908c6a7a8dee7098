"""
State as plain containers with tensors in them, turned into bytes and back without pickle.

`pack` gives a JSON header that describes containers, scalars and where each tensor lies, and one
flat buffer of bytes that holds the tensors. Only what JSON and torch can say exactly is accepted.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

Tree = Any  # None, bool, int, float, str, bytes-free containers of these, and tensors

ALIGNMENT: Final = 64
MAX_HEADER: Final = 1 << 28
_DTYPES: Final = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32,
        torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128,
    )
}  # fmt: skip


class TreeError(ValueError):
    """This state cannot be described, or the description cannot be true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A tree as a header and the bytes that it points into."""

    header: bytes
    flat: Tensor


def map_tensors(tree: Tree, change: Callable[[Tensor], Tensor]) -> Tree:
    """Return the tree with each tensor replaced; containers are new, later changes don't show."""
    match tree:
        case Tensor():
            return change(tree)
        case Counter():
            return Counter(tree)
        case dict():
            return {key: map_tensors(value, change) for key, value in tree.items()}
        case list():
            return [map_tensors(value, change) for value in tree]
        case tuple():
            return tuple(map_tensors(value, change) for value in tree)
        case _:
            return tree


def tensors_of(tree: Tree) -> list[Tensor]:
    """Return the tensors of a tree, in order."""
    found: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    map_tensors(tree, note)
    return found


def copy_tree(tree: Tree) -> Tree:
    """Return a copy that shares nothing with the original."""
    return map_tensors(tree, lambda tensor: tensor.detach().clone())


def num_bytes(tree: Tree) -> int:
    """Return how many bytes the tensors of a tree hold."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors_of(tree))


def check(tree: Tree) -> None:
    """Raise `TreeError`, naming the place, when this state cannot be saved and sent."""
    _describe(tree, "state", [], 0)


def pack(tree: Tree) -> Packed:
    """Return header and bytes of a tree."""
    parts: list[tuple[int, Tensor]] = []
    description, end = _describe(tree, "state", parts, 0)
    flat = torch.empty(end, dtype=torch.uint8)
    for offset, tensor in parts:
        size = tensor.numel() * tensor.element_size()
        flat[offset + size : -(-(offset + size) // ALIGNMENT) * ALIGNMENT] = 0
        if size:
            target = flat[offset : offset + size].view(tensor.dtype).view(tensor.shape)
            target.copy_(tensor.detach())
    header = json.dumps({"bytes": end, "tree": description}).encode()
    return Packed(header=header, flat=flat)


def measure(header: bytes) -> int:
    """Return how many bytes of tensors a header announces."""
    try:
        size = json.loads(header)["bytes"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise TreeError(f"not the header of a state: {error}") from error
    if not isinstance(size, int) or not 0 <= size < 1 << 63:
        raise TreeError(f"a state of {size!r} bytes cannot be")
    return size


def unpack(packed: Packed) -> Tree:
    """Return the tree; its tensors are views of the flat buffer."""
    try:
        description = json.loads(packed.header)["tree"]
        return _rebuild(description, packed.flat)
    except TreeError:
        raise
    except (ValueError, KeyError, TypeError, IndexError, RuntimeError) as error:
        raise TreeError(f"the header does not describe these bytes: {error}") from error


def _describe(
    tree: Tree, path: str, parts: list[tuple[int, Tensor]], end: int
) -> tuple[list[Any], int]:
    match tree:
        case None | bool() | int() | float() | str():
            return ["v", tree], end
        case Tensor():
            return _describe_tensor(tree, path, parts, end)
        case dict():
            kind = "c" if isinstance(tree, Counter) else "d"
            pairs = []
            for key, value in tree.items():
                if not isinstance(key, str | int | float | bool):
                    raise TreeError(f"{path} has a key of type {type(key).__name__}")
                described, end = _describe(value, f"{path}[{key!r}]", parts, end)
                pairs.append([key, described])
            return [kind, pairs], end
        case list() | tuple():
            items = []
            for number, value in enumerate(tree):
                described, end = _describe(value, f"{path}[{number}]", parts, end)
                items.append(described)
            return ["t" if isinstance(tree, tuple) else "l", items], end
        case _:
            raise TreeError(
                f"{path} is a {type(tree).__name__}; state is made of numbers, text, lists, "
                "dictionaries and tensors"
            )


def _describe_tensor(
    tensor: Tensor, path: str, parts: list[tuple[int, Tensor]], end: int
) -> tuple[list[Any], int]:
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in _DTYPES or tensor.layout != torch.strided:
        raise TreeError(f"{path} is a tensor of type {tensor.dtype} and layout {tensor.layout}")
    parts.append((end, tensor))
    size = tensor.numel() * tensor.element_size()
    after = -(-(end + size) // ALIGNMENT) * ALIGNMENT
    return ["x", name, list(tensor.shape), end], after


def _rebuild(description: list[Any], flat: Tensor) -> Tree:
    kind, *rest = description
    match kind:
        case "v":
            return rest[0]
        case "d":
            return {key: _rebuild(value, flat) for key, value in rest[0]}
        case "c":
            return Counter({key: _rebuild(value, flat) for key, value in rest[0]})
        case "l":
            return [_rebuild(value, flat) for value in rest[0]]
        case "t":
            return tuple(_rebuild(value, flat) for value in rest[0])
        case "x":
            return _view(flat, *rest)
        case _:
            raise TreeError(f"{kind!r} is no part of a state")


def _view(flat: Tensor, name: str, shape: list[int], offset: int) -> Tensor:
    dtype = _DTYPES[name]
    count = 1
    for extent in shape:
        count *= extent
    size = count * dtype.itemsize
    if offset < 0 or size < 0 or offset % ALIGNMENT or offset + size > flat.numel():
        raise TreeError(f"a tensor at {offset} of {size} bytes is outside of {flat.numel()}")
    return flat[offset : offset + size].view(dtype).view(shape)
