"""A state as header and bytes in memory, and back: what files and peers do a piece at a time."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ebbtide.runtime import layouts, streams


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A tree's header, and the bytes that it points into."""

    header: bytes
    flat: Tensor


def pack(tree: Any, *, piece: int = 7) -> Packed:
    """Return header and bytes, fetched in pieces of so many bytes."""
    layout, tensors = layouts.lay_out(tree)
    flat = torch.zeros(layout.num_bytes, dtype=torch.uint8)
    source, at = streams.Source(tensors), 0
    while count := source.fill(flat[at : at + piece]):
        at += count
    if at != layout.num_bytes:
        raise RuntimeError(f"{at} of {layout.num_bytes} bytes came")
    return Packed(header=layout.header, flat=flat)


def unpack(packed: Packed, *, piece: int = 5) -> Any:
    """Return the tree, poured in pieces of so many bytes."""
    layout = layouts.read_header(packed.header)
    if layout.num_bytes != packed.flat.numel():
        raise layouts.LayoutError("header and bytes do not agree")
    tensors = layouts.allocate(layout)
    sink = streams.Sink([tensors[slot.name] for slot in layout.slots])
    for at in range(0, packed.flat.numel(), piece):
        sink.pour(packed.flat[at : at + piece])
    return layouts.rebuild(layout, tensors)
