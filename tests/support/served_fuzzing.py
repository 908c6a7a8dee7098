"""Frames that are nearly right, sent to parameter servers by whom and however."""

import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec
import numpy as np

from ebbtide.runtime.paramserver.channel import connect
from ebbtide.runtime.paramserver.messages import (
    PEER,
    READER,
    ROLES,
    TRAINER,
    Adopt,
    Bytes,
    Commit,
    Cut,
    Hello,
    Read,
    Snap,
    Stage,
    Standing,
    Want,
)
from support.served import TOKEN, Trainer

if TYPE_CHECKING:
    from ebbtide.wire.messages import Message


def resident() -> int:
    """Bytes of memory that this process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Fuzz:
    """Sends them over one connection after the other."""

    def __init__(self, address: tuple[str, int], *, seed: int, trainer: Trainer) -> None:
        self.chance = np.random.Generator(np.random.PCG64(seed))
        self.address = address
        layout = trainer.binding.layout
        hello = Hello(map=1, client="fuzz", worker="fuzz/0", layout=layout, held=Standing())
        groups = trainer.binding.groups()
        self.samples: dict[str, tuple[Message, ...]] = {
            TRAINER: (hello, Stage(step=0), Commit(step=0, groups=groups), Want(), Bytes(size=8)),
            READER: (Snap(), Read(map=1, number=0, space="dense", key="value", start=0, stop=1)),
            PEER: (Adopt(map=0), Cut(number=3)),
        }

    def run(self, wanted: int) -> int:
        """Send so many frames; a new connection whenever one was closed."""
        sent = 0
        while sent < wanted:
            role = ROLES[int(self.chance.integers(len(ROLES)))]
            try:
                with Plain(self.address, role=role) as plain:
                    for _ in range(int(self.chance.integers(1, 60))):
                        sent += 1
                        plain.send(self.frame(role))
            except OSError:
                continue
        return sent

    def frame(self, role: str) -> bytes:
        """Return one frame: a good one, or one with something wrong."""
        samples = self.samples[role]
        body = bytearray(msgspec.json.encode(samples[int(self.chance.integers(len(samples)))]))
        kind = int(self.chance.integers(6))
        if kind == 1:
            for _ in range(int(self.chance.integers(1, 8))):
                body[int(self.chance.integers(len(body)))] = int(self.chance.integers(256))
        elif kind == 2:
            del body[int(self.chance.integers(len(body))) :]
        elif kind == 3:
            body = bytearray(self.chance.bytes(int(self.chance.integers(200))))
        elif kind == 4:
            digits = [at for at, byte in enumerate(body) if 48 <= byte <= 57]
            if digits:
                at = digits[int(self.chance.integers(len(digits)))]
                body[at : at + 1] = b"99999999999999"
        length = len(body)
        if kind == 5:
            length = int(self.chance.integers(1 << 32))
        return struct.pack(">I", length) + bytes(body)


class Plain:
    """A connection that is greeted as it should be and then says anything."""

    def __init__(self, address: tuple[str, int], *, role: str) -> None:
        self.channel = connect(address, token=TOKEN, role=role, seconds=5)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()

    def send(self, data: bytes) -> None:
        self.channel._sock.sendall(data)
