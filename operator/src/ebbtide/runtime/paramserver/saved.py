"""
The servers' state as a checkpoint, and a checkpoint as the servers' state.

What is written is what all-reduce training writes: the model's and the optimizer's `state_dict`.
So either strategy, with any number of workers or servers, goes on from what the other saved.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ebbtide.runtime.checkpoint import Loaded, Shelf
from ebbtide.runtime.errors import CheckpointError
from ebbtide.runtime.paramserver.layout import (
    BLOCK,
    CARRIED,
    DENSE,
    FROZEN,
    Entry,
    Layout,
    dtype_of,
)
from ebbtide.runtime.paramserver.messages import Standing
from ebbtide.runtime.paramserver.shard import VALUE, Shard, keys_of
from ebbtide.runtime.paramserver.spaces import Part

AHEAD = "ahead"  # in a checkpoint: applied steps beyond the first gap
ReadPart = Callable[[str, str], Tensor]  # (space, key) -> the whole space, blocks first


def standing_of(tree: Mapping[str, Any], *, lineage: int) -> Standing:
    """Return how far a saved state is; one of all-reduce has no gaps."""
    step, ahead = int(tree["step"]), tuple(int(each) for each in tree.get(AHEAD, ()))
    return Standing(lineage=lineage, version=step, floor=step - len(ahead), ahead=ahead)


def times_of(layout: Layout, tree: Mapping[str, Any]) -> tuple[int, ...]:
    """Return how often each parameter was updated in a saved state."""
    states = tree["optimizer"]["state"]
    found = []
    for entry in layout.entries:
        own = states.get(entry.number, {})
        # SGD counts nothing; what it has a momentum for was updated.
        counted = own.get("step", tree["step"])
        found.append(0 if entry.group == FROZEN else int(counted))
    return tuple(found)


def fill_from_checkpoint(
    shard: Shard, shelf: Shelf, *, parts: Sequence[Part], with_values: bool
) -> tuple[str, ...]:
    """
    Fill parts of a shard from the newest checkpoint; without `with_values` the states only.

    Returns which states began anew because no checkpoint has them.
    """
    loaded = shelf.load()
    if loaded is None:
        if with_values:
            raise CheckpointError(f"there is no checkpoint under {shelf.path} any more")
        return tuple(shard.layout.states)
    anew: set[str] = set()
    for part in parts:
        for key in keys_of(shard.layout, part.space):
            if key == VALUE and not with_values:
                continue
            if not _fill(shard, part, key=key, loaded=loaded):
                anew.add(key)
    return tuple(sorted(anew))


def _fill(shard: Shard, part: Part, *, key: str, loaded: Loaded) -> bool:
    layout, target = shard.layout, shard.read(part, key)
    if part.space == CARRIED:
        target.view(-1).copy_(_carried(layout, loaded.tree["model"]))
        return True
    found = True
    for entry in layout.entries:
        if entry.space != part.space:
            continue
        source = _saved_tensor(entry, loaded.tree, key)
        if source is None:
            found = found and entry.group == FROZEN
        elif part.space != DENSE:
            target.copy_(source.reshape(entry.shape[0], -1)[part.start : part.stop])
        else:
            first = part.start * BLOCK
            start = max(entry.start, first)
            stop = min(entry.start + entry.size, part.stop * BLOCK)
            if start < stop:
                piece = source.reshape(-1)[start - entry.start : stop - entry.start]
                target.view(-1)[start - first : stop - first].copy_(piece)
    return found


def _saved_tensor(entry: Entry, tree: Mapping[str, Any], key: str) -> Tensor | None:
    if key == VALUE:
        found: Tensor = tree["model"][entry.name]
    else:
        state = tree["optimizer"]["state"].get(entry.number, {}).get(key)
        if state is None:
            return None
        found = state
    if tuple(found.shape) != entry.shape:
        raise CheckpointError(
            f"{entry.name} has the shape {list(entry.shape)} in this script and "
            f"{list(found.shape)} in the checkpoint"
        )
    return found


def _carried(layout: Layout, model: Mapping[str, Tensor]) -> Tensor:
    flat = torch.zeros(layout.carried_bytes, dtype=torch.uint8)
    for buffer in layout.buffers:
        saved = model.get(buffer.name)  # one that is not persistent is not saved
        if saved is not None:
            place = flat[buffer.start : buffer.start + buffer.size]
            place.view(dtype_of(buffer.dtype)).view(buffer.shape).copy_(saved)
    return flat


# ---------------------------------------------------------------- the other way


def model_state(layout: Layout, read: ReadPart) -> dict[str, Tensor]:
    """Return all parameters and buffers by name, from whole spaces."""
    found = {entry.name: _cut_out(entry, read(entry.space, VALUE)) for entry in layout.entries}
    if layout.carried_bytes:
        flat = read(CARRIED, VALUE).view(-1)
        for buffer in layout.buffers:
            place = flat[buffer.start : buffer.start + buffer.size]
            # torch.save does not take one memory under two types.
            found[buffer.name] = place.clone().view(dtype_of(buffer.dtype)).view(buffer.shape)
    return found


def optimizer_state(
    layout: Layout, read: ReadPart, *, times: Sequence[int]
) -> dict[int, dict[str, Tensor]]:
    """Return the `state` of the optimizer's state_dict, from whole spaces."""
    found: dict[int, dict[str, Tensor]] = {}
    for entry, count in zip(layout.entries, times, strict=True):
        if entry.group == FROZEN or count == 0 or not layout.states:
            continue
        own = {key: _cut_out(entry, read(entry.space, key)) for key in layout.states}
        if layout.kind != "sgd":
            own["step"] = torch.tensor(float(count))
        found[entry.number] = own
    return found


def _cut_out(entry: Entry, space: Tensor) -> Tensor:
    if entry.space != DENSE:
        return space.view(entry.shape)
    return space.view(-1)[entry.start : entry.start + entry.size].view(entry.shape)
