"""
State as plain containers with tensors in them.

A tree is a tensor, None, a bool, int, float or str, or a list, tuple, dictionary or Counter of
trees. `ebbtide.runtime.layouts` says how one becomes a header and bytes; `check` whether it can.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from torch import Tensor

Tree = Any


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
