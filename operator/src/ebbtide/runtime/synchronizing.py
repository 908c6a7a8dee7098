"""
The start of a generation: the source's state goes to everybody.

The header first, then the bytes, a piece at a time: nobody needs memory for a second state. Who
holds no state takes the pieces right into its own tensors, and holds none until all have come. Who
holds the source's step already lets them pass. Who holds an older step keeps it until the new one
is whole, since it may be the only one left if the source is lost meanwhile: it alone needs memory
for both. When anybody is lost, everybody's broadcast breaks, and the next generation tries again.

A source that holds no state loads the newest valid checkpoint itself, so one process reads it and
all have the same.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import Any, Final, Protocol

import torch
from torch import Tensor

from ebbtide.runtime import layouts, streams
from ebbtide.runtime.checkpoint import Shelf, Targets
from ebbtide.runtime.collective import WAITING
from ebbtide.runtime.errors import CollectiveBroken, MismatchError
from ebbtide.runtime.layouts import Layout, LayoutError
from ebbtide.runtime.reporting import Progress, say
from ebbtide.runtime.state import TrainState


class Broadcasting(Protocol):
    """What a `Group` can do."""

    def broadcast(self, tensor: Tensor, *, source: int, within: timedelta = WAITING) -> None:
        """Replace a tensor on all ranks by the source's."""


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


def load_newest(shelf: Shelf, state: TrainState, fresh: Position, *, targets: Targets) -> Position:
    """
    Put the newest valid checkpoint into the state; `fresh` when there is none at all.

    It is read into `targets`, and may fail in the middle: `CheckpointError`.
    """
    lineage = shelf.newest_lineage() + 1
    loaded = shelf.load(targets)
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
        raise MismatchError(
            "the state was trained on other data, its position cannot be kept: "
            + "; ".join(differing)
        )


PIECE: Final = timedelta(seconds=3)
"""For one piece of a state: so long does a member that is lost hold up who sends to it."""


class Keeping(Enum):
    """What a receiver holds, and so what becomes of the pieces."""

    NOTHING = auto()  # they go into its own tensors
    OLDER = auto()  # they go into new ones, which replace its own in the end
    SAME = auto()  # they pass


def send(group: Broadcasting, state: TrainState, position: Position, *, source: int) -> None:
    """Give the state to all ranks. Called by the source, while the others `receive`."""
    layout, tensors = layouts.lay_out(describe(state, position))
    written = torch.frombuffer(bytearray(layout.header), dtype=torch.uint8)
    group.broadcast(torch.tensor([written.numel()]), source=source)
    group.broadcast(written, source=source)
    giving, chunk = streams.Source(tensors), streams.buffer(layout.num_bytes)
    what = f"sending the state of step {position.step}"
    with Progress(what, total=layout.num_bytes) as progress:
        while count := giving.fill(chunk):
            group.broadcast(chunk[:count], source=source, within=PIECE)
            progress.add(count)


def receive(
    group: Broadcasting,
    state: TrainState,
    held: Position | None,
    *,
    source: int,
    layout: dict[str, Any],
) -> Position:
    """
    Take the state from the source; `held` is what this process keeps until it has all of it.

    Without `held` nothing here is worth anything when this raises.
    """
    saved, position = _receive_header(group, source=source)
    check_layout(position.layout, layout)
    keeping = _compare(held, position)
    tensors: dict[str, Tensor] = {}
    if keeping is not Keeping.SAME:
        tensors = state.targets(saved, in_place=keeping is Keeping.NOTHING)
    sink = streams.Sink([tensors[slot.name] for slot in saved.slots]) if tensors else None
    chunk, left = streams.buffer(saved.num_bytes), saved.num_bytes
    with Progress(f"taking the state of step {position.step}", total=left) as progress:
        while left > 0:
            piece = chunk[: min(left, chunk.numel())]
            group.broadcast(piece, source=source, within=PIECE)
            if sink is not None:
                sink.pour(piece)
            left -= piece.numel()
            progress.add(piece.numel())
    if keeping is not Keeping.SAME:
        state.put(layouts.rebuild(saved, tensors))
    return Position(step=position.step, lineage=position.lineage, layout=layout)


def _compare(held: Position | None, given: Position) -> Keeping:
    if held is None:
        return Keeping.NOTHING
    is_same = (held.step, held.lineage) == (given.step, given.lineage)
    return Keeping.SAME if is_same else Keeping.OLDER


def _receive_header(group: Broadcasting, *, source: int) -> tuple[Layout, Position]:
    size = torch.zeros(1, dtype=torch.int64)
    group.broadcast(size, source=source)
    if not 0 < size.item() <= layouts.MAX_HEADER:
        raise CollectiveBroken(f"a header of {size.item()} bytes cannot be")
    written = torch.zeros(int(size.item()), dtype=torch.uint8)
    group.broadcast(written, source=source)
    try:
        layout = layouts.read_header(written.numpy().tobytes())
        return layout, _read_position(layout)
    except LayoutError as error:
        raise CollectiveBroken(str(error)) from error


def _read_position(layout: Layout) -> Position:
    bare = layouts.outline(layout)
    try:
        fields = {name: bare[name] for name in ("step", "lineage", "layout")}
    except (KeyError, TypeError) as error:
        raise LayoutError(f"the state does not say how far it is: {error!r}") from error
    if type(fields["step"]) is not int or type(fields["lineage"]) is not int:
        raise LayoutError("the state does not say how far it is")
    return Position(**fields)
