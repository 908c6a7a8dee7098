"""
A worker's flat buffers: parameters, gradients, carried buffers and sparse rows in one memory.

It is an anonymous file that nobody but its processes keeps alive: a worker that is killed leaves
nothing behind. A server on the same machine maps it too, so that a push moves no bytes at all, and
fresh parameters are written where the model reads them. It opens the file through /proc, which
works only where worker and server see each other's processes (one pod, or one host without
containers); a random word at the beginning shows that it is the right one. The file is sealed
against shrinking: what is mapped cannot vanish.
"""

import fcntl
import mmap
import os
import secrets
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from ebbtide.runtime.paramserver import messages
from ebbtide.runtime.paramserver.layout import BLOCK, CARRIED, DENSE, Layout

PAGE: Final = 4096
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_TOKEN_BYTES: Final = 32


class MemoryRefused(Exception):  # noqa: N818 -- says what happened
    """This memory cannot be shared; tensors travel over the connection instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Places for one table's sparse gradient: row numbers and their values."""

    numbers: Tensor  # int64
    values: Tensor  # (rows, row size)


class Buffers:
    """The tensors that a layout needs, as views of one piece of memory."""

    def __init__(self, layout: Layout, memory: mmap.mmap) -> None:
        self.memory = memory
        flat = torch.frombuffer(memory, dtype=torch.uint8)
        plan = _plan(layout)

        def at(name: str) -> Tensor:
            start, size = plan[name]
            return flat[start : start + size]

        blocks = layout.spaces
        self.values: dict[str, Tensor] = {
            DENSE: at("value:dense").view(torch.float32),
            CARRIED: at("value:carried"),
        }
        self.gradient = at("gradient").view(torch.float32)
        self.rows: dict[str, Rows] = {}
        for entry in layout.tables:
            shape = (blocks[entry.space], layout.row_size(entry.space))
            self.values[entry.space] = at(f"value:{entry.space}").view(torch.float32).view(shape)
            self.rows[entry.space] = Rows(
                numbers=at(f"numbers:{entry.space}").view(torch.int64),
                values=at(f"rows:{entry.space}").view(torch.float32).view(shape),
            )


def _plan(layout: Layout) -> dict[str, tuple[int, int]]:
    """Return where each part lies: first byte and size."""
    blocks = layout.spaces
    sizes = {
        "value:dense": blocks[DENSE] * BLOCK * 4,
        "gradient": blocks[DENSE] * BLOCK * 4,
        "value:carried": layout.carried_bytes,
    }
    for entry in layout.tables:
        table = blocks[entry.space] * layout.row_size(entry.space) * 4
        sizes[f"value:{entry.space}"] = sizes[f"rows:{entry.space}"] = table
        sizes[f"numbers:{entry.space}"] = blocks[entry.space] * 8
    found, start = {}, PAGE
    for name, size in sizes.items():
        found[name] = (start, size)
        start += -(-size // PAGE) * PAGE
    found["end"] = (start, 0)
    return found


def size_of(layout: Layout) -> int:
    """Return how many bytes a layout's memory takes; pages count only when they are used."""
    return _plan(layout)["end"][0]


class Shared(Buffers):
    """A worker's own."""

    def __init__(self, layout: Layout) -> None:
        size = size_of(layout)
        self.descriptor = os.memfd_create("ebbtide", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.descriptor, size)
        fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, _SEALS)
        memory = mmap.mmap(self.descriptor, size)
        self._token = secrets.token_hex(_TOKEN_BYTES // 2)
        memory[:_TOKEN_BYTES] = self._token.encode()
        super().__init__(layout, memory)

    def area(self) -> messages.Area:
        """Return what a server needs to find this memory."""
        return messages.Area(
            pid=os.getpid(),
            descriptor=self.descriptor,
            size=len(self.memory),
            token=self._token,
        )


def attach(layout: Layout, area: messages.Area) -> Buffers:
    """Map a worker's memory; `MemoryRefused` when it is not to be had, or not what it should be."""
    size = size_of(layout)
    if area.size != size:
        raise MemoryRefused(f"the memory has {area.size} bytes and not {size}")
    try:
        descriptor = os.open(f"/proc/{area.pid}/fd/{area.descriptor}", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise MemoryRefused(f"process {area.pid} is not to be seen here: {error}") from error
    try:
        if fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & _SEALS != _SEALS:
            raise MemoryRefused("the memory is not sealed")
        if os.fstat(descriptor).st_size != size:
            raise MemoryRefused(f"the memory has not {size} bytes")
        memory = mmap.mmap(descriptor, size)
    except OSError as error:
        raise MemoryRefused(f"not the memory of a worker: {error}") from error
    finally:
        os.close(descriptor)
    if memory[:_TOKEN_BYTES] != area.token.encode():
        raise MemoryRefused("another process has this number here")
    return Buffers(layout, memory)
