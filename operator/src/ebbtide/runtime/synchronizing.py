"""
The start of a generation: the source's state goes to everybody.

Size first, then a JSON header, then one flat buffer of bytes. A source that holds no state loads
the newest valid checkpoint itself, so one process reads it and all have the same.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ebbtide.runtime import trees
from ebbtide.runtime.checkpoint import Shelf
from ebbtide.runtime.collective import Group
from ebbtide.runtime.errors import CheckpointError, CollectiveBroken
from ebbtide.runtime.reporting import say
from ebbtide.runtime.state import TrainState


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a state has come. `layout` is what makes a step number mean certain samples."""

    step: int
    lineage: int
    layout: dict[str, Any]


def describe(state: TrainState, position: Position) -> dict[str, Any]:
    """Return what is saved and sent: the state and its position."""
    return {
        "step": position.step,
        "lineage": position.lineage,
        "layout": position.layout,
        **state.take(),
    }


def load_newest(shelf: Shelf, state: TrainState, fresh: Position) -> Position:
    """Put the newest valid checkpoint into the state; `fresh` when there is none at all."""
    lineage = shelf.newest_lineage() + 1
    loaded = shelf.load()
    if loaded is None:
        return Position(step=fresh.step, lineage=lineage, layout=fresh.layout)
    check_layout(loaded.tree["layout"], fresh.layout)
    state.put(loaded.tree)
    say(
        f"resumed from the checkpoint of step {loaded.manifest.step}, "
        f"written by a world of {loaded.manifest.world_size}"
    )
    return Position(step=loaded.manifest.step, lineage=lineage, layout=fresh.layout)


def check_layout(saved: dict[str, Any], ours: dict[str, Any]) -> None:
    """Refuse a state whose step number means other samples than ours."""
    differing = [
        f"{key} was {saved.get(key)} and is {ours.get(key)}"
        for key in sorted(set(saved) | set(ours))
        if saved.get(key) != ours.get(key)
    ]
    if differing:
        raise CheckpointError(
            "the state was trained on other data, its position cannot be kept: "
            + "; ".join(differing)
        )


def send(group: Group, state: TrainState, position: Position, *, source: int) -> None:
    """Give the state to all ranks. Called by the source, while the others `receive`."""
    packed = trees.pack(describe(state, position))
    header = torch.frombuffer(bytearray(packed.header), dtype=torch.uint8)
    group.broadcast(torch.tensor([header.numel(), packed.flat.numel()]), source=source)
    group.broadcast(header, source=source)
    group.broadcast(packed.flat, source=source)


def receive(group: Group, state: TrainState, *, source: int, layout: dict[str, Any]) -> Position:
    """Take the state from the source. Nothing changes here until all of it has come."""
    sizes = torch.zeros(2, dtype=torch.int64)
    group.broadcast(sizes, source=source)
    header_size, flat_size = sizes.tolist()
    if not 0 < header_size <= trees.MAX_HEADER or flat_size < 0:
        raise CollectiveBroken(f"a state of {header_size} + {flat_size} bytes cannot be")
    header = torch.zeros(header_size, dtype=torch.uint8)
    group.broadcast(header, source=source)
    written = header.numpy().tobytes()
    try:
        if trees.measure(written) != flat_size:
            raise CollectiveBroken("the state's header and its size do not agree")
        flat: Tensor = torch.empty(flat_size, dtype=torch.uint8)
        group.broadcast(flat, source=source)
        tree = trees.unpack(trees.Packed(header=written, flat=flat))
    except trees.TreeError as error:
        raise CollectiveBroken(str(error)) from error
    check_layout(tree["layout"], layout)
    state.put(tree)
    return Position(step=tree["step"], lineage=tree["lineage"], layout=layout)
