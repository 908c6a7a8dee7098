"""
Memory that a state is copied into, made once and kept: shared with the process that writes it out.

It is a file without a name. What lies in it is a checkpoint's file in two parts, the tensors first
and the header, whose length changes, behind them. The memory counts as the container's own.
"""

import contextlib
import ctypes
import mmap
import os
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ebbtide.runtime.layouts import Layout, Slot, carve

_POPULATE: Final = 23  # MADV_POPULATE_WRITE, Linux 5.14
_STRETCH: Final = 1 << 24  # bytes at a time: a whole number of pages, soon done


class Area:
    """The memory for states of one layout."""

    def __init__(self, slots: Sequence[Slot], *, num_bytes: int) -> None:
        """Make the memory; `OSError` when there is none. It costs its pages only as they fill."""
        self._slots = tuple(slots)
        self._num_bytes = num_bytes
        self._header_size = 0
        self.memory = os.memfd_create("ebbtide-state")
        try:
            os.ftruncate(self.memory, max(1, num_bytes))
            mapped = mmap.mmap(self.memory, max(1, num_bytes))
        except OSError:
            os.close(self.memory)
            raise
        self._flat = torch.frombuffer(mapped, dtype=torch.uint8)
        self._parts = carve(Layout(slots=self._slots, description=None), self._flat[:num_bytes])

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            os.close(self.memory)

    def fits(self, layout: Layout) -> bool:
        """Tell whether a state of this layout has its places here."""
        return layout.slots == self._slots

    def populate(self) -> None:
        """Take all pages now: the first copy would take them one by one, and be slow."""
        start, libc = self._flat.data_ptr(), ctypes.CDLL(None)
        for at in range(0, self._num_bytes, _STRETCH):
            # Not by `mmap.madvise`: it keeps the interpreter's lock, and with it the heartbeats.
            size = min(_STRETCH, self._num_bytes - at)
            if libc.madvise(ctypes.c_void_p(start + at), ctypes.c_size_t(size), _POPULATE):
                return  # an older kernel: the first copy is slow then

    def parts(self) -> list[Tensor]:
        """The places of the tensors, in the layout's order."""
        return self._parts

    def put_header(self, layout: Layout) -> None:
        """Write the header of the state that lies here now."""
        written = layout.preface
        self._header_size = len(written)
        os.pwrite(self.memory, written, self._num_bytes)
        os.ftruncate(self.memory, self._num_bytes + len(written))

    def ranges(self) -> list[tuple[int, int]]:
        """Where the bytes of the file lie, in the file's order."""
        return [(self._num_bytes, self._num_bytes + self._header_size), (0, self._num_bytes)]


@torch.no_grad()
def copy(pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
    """Copy (from, to) each, in this one thread: torch would wake a pool of them beside training."""
    for source, target in pairs:
        if source.device.type == "cpu" and source.is_contiguous() and source.numel():
            np.copyto(_as_bytes(target), _as_bytes(source))
        else:
            target.copy_(source)


def _as_bytes(tensor: Tensor) -> "np.typing.NDArray[np.uint8]":
    viewed: np.typing.NDArray[np.uint8] = tensor.detach().view(-1).view(torch.uint8).numpy()
    return viewed
