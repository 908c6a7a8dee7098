"""
Tensors as one row of bytes, a piece at a time.

What is sent, written or read may be many gigabytes. So it goes through one small buffer: `Source`
fills it from tensors in order, `Sink` pours it into others. Neither keeps a copy of the whole.
"""

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor

CHUNK: Final = 1 << 22  # bytes: large enough for the network, small beside any state


def buffer(total: int) -> Tensor:
    """Return a buffer for moving `total` bytes."""
    return torch.empty(min(CHUNK, total), dtype=torch.uint8)


def view(chunk: Tensor) -> memoryview:
    """Return a buffer of bytes as plain Python sees it; both are the same memory."""
    raw: Any = chunk.numpy()
    return memoryview(raw)


class Source:
    """Gives the bytes of tensors, in order."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._tensors = [tensor for tensor in tensors if tensor.numel()]
        self._at = 0
        self._offset = 0
        self._flat: Tensor | None = None

    @torch.no_grad()
    def fill(self, chunk: Tensor) -> int:
        """Fill a buffer of bytes from its start; return how many there were, 0 at the end."""
        filled = 0
        while filled < chunk.numel() and self._at < len(self._tensors):
            if self._flat is None:
                self._flat = _as_bytes(self._tensors[self._at].contiguous())
            count = min(chunk.numel() - filled, self._flat.numel() - self._offset)
            chunk[filled : filled + count].copy_(self._flat[self._offset : self._offset + count])
            filled, self._offset = filled + count, self._offset + count
            if self._offset == self._flat.numel():
                self._at, self._offset, self._flat = self._at + 1, 0, None
        return filled


class Sink:
    """Takes bytes into tensors, in order. What they held before is gone with the first piece."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._tensors = [tensor.detach() for tensor in tensors if tensor.numel()]
        self._at = 0
        self._offset = 0
        self._flat: Tensor | None = None

    @torch.no_grad()
    def pour(self, chunk: Tensor) -> None:
        """Take the next bytes; there are never more than the tensors hold."""
        taken = 0
        while taken < chunk.numel():
            target = self._tensors[self._at]
            if self._flat is None:
                whole = target if target.is_contiguous() else target.contiguous()
                self._flat = _as_bytes(whole)
            count = min(chunk.numel() - taken, self._flat.numel() - self._offset)
            self._flat[self._offset : self._offset + count].copy_(chunk[taken : taken + count])
            taken, self._offset = taken + count, self._offset + count
            if self._offset == self._flat.numel():
                if not target.is_contiguous():
                    target.copy_(self._flat.view(target.dtype).view(target.shape))
                self._at, self._offset, self._flat = self._at + 1, 0, None


def _as_bytes(tensor: Tensor) -> Tensor:
    return tensor.detach().reshape(-1).view(torch.uint8)
