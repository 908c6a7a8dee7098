"""One worker process as a server sees it: its connection, its gradient, its parameters."""

import queue
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

from ebbtide.runtime.paramserver.channel import Channel, ChannelClosed
from ebbtide.runtime.paramserver.layout import BLOCK, CARRIED, DENSE, Layout
from ebbtide.runtime.paramserver.memory import Buffers, MemoryRefused, attach
from ebbtide.runtime.paramserver.messages import Bytes, Fresh, Give, Hello, Here, Piece, Stage
from ebbtide.runtime.paramserver.shard import VALUE, Gradient, Shard
from ebbtide.runtime.paramserver.spaces import Part
from ebbtide.wire.frames import FrameError

if TYPE_CHECKING:
    from ebbtide.wire.messages import Message

GIVE_SECONDS: Final = 30.0


class Trainer:
    """Knows two ways to one worker: through memory that both map, or over the connection."""

    def __init__(self, channel: Channel, hello: Hello, *, may_share: bool) -> None:
        self.hello = hello
        self.channel = channel
        self.buffers = _share(hello) if may_share else None
        self.version = -1  # of the parameters that it has from here
        self._staged_step = -1
        self._staged = Gradient(dense=None, rows={}, carried=None)
        self._dense = torch.empty(0)
        self._wanted: list[Tensor] = []
        self._given = threading.Event()
        self._given_error = ""
        self._outgoing: queue.SimpleQueue[tuple[Message, list[Tensor]] | None] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None

    @property
    def client(self) -> str:
        """Its number among all connections ever made."""
        return self.hello.client

    def greet(self) -> None:
        """Say that it is known."""
        self.channel.send(Here(is_shared=self.buffers is not None))

    def close(self) -> None:
        """End the connection."""
        self._outgoing.put(None)
        self.channel.close()

    # ------------------------------------------------------------ its gradient

    def read_stage(self, stage: Stage, parts: Sequence[Part]) -> None:
        """Read a gradient off the connection."""
        here = {part.space: part for part in parts}
        layout = self.hello.layout
        dense = carried = None
        if (part := here.get(DENSE)) is not None:
            if self._dense.numel() != len(part) * BLOCK:
                self._dense = torch.empty(len(part) * BLOCK)
            dense = self._dense
            self.channel.read_into(dense)
        rows = {}
        for entry in layout.tables:
            count = stage.rows.get(entry.space, 0)
            if count and entry.space in here:
                rows[entry.space] = read_rows(self.channel, layout, entry.space, count)
        if CARRIED in here:
            carried = torch.empty(layout.carried_bytes, dtype=torch.uint8)
            self.channel.read_into(carried)
        self._staged = Gradient(dense=dense, rows=rows, carried=carried)
        self._staged_step = stage.step

    def gradient(self, shard: Shard, *, rows: dict[str, int]) -> Gradient:
        """Return its gradient as far as it concerns a shard."""
        if self.buffers is None:
            staged, self._staged = self._staged, Gradient(dense=None, rows={}, carried=None)
            return staged
        dense = carried = None
        if (block := shard.blocks.get(DENSE)) is not None:
            dense = self.buffers.gradient[block.part.start * BLOCK : block.part.stop * BLOCK]
        if CARRIED in shard.blocks:
            carried = self.buffers.values[CARRIED]
        found = {}
        for space, count in rows.items():
            if space in shard.blocks and space in self.buffers.rows:
                place = self.buffers.rows[space]
                found[space] = (place.numbers[:count], place.values[:count])
        return Gradient(dense=dense, rows=found, carried=carried)

    # ------------------------------------------------------------ its parameters

    def out(self, shard: Shard) -> Tensor | None:
        """Return where its dense parameters lie in shared memory, for this shard's part."""
        block = shard.blocks.get(DENSE)
        if self.buffers is None or block is None:
            return None
        return self.buffers.values[DENSE][block.part.start * BLOCK : block.part.stop * BLOCK]

    def refresh(self, shard: Shard, fresh: Fresh, *, has_dense: bool) -> None:
        """Bring its parameters to the shard's state, and say so."""
        rows = {s: shard.rows_since(self.version, s) for s in shard.blocks if s.startswith("table")}
        if self.buffers is not None:
            out = self.out(shard)
            if out is not None and not has_dense:
                out.copy_(shard.blocks[DENSE].tensors[VALUE].view(-1))
            for space, (numbers, values) in rows.items():
                self.buffers.values[space][numbers] = values
            if CARRIED in shard.blocks:
                carried = shard.blocks[CARRIED].tensors[VALUE].view(-1)
                self.buffers.values[CARRIED].copy_(carried)
            self.channel.send(fresh)
        else:
            self._send_copy(shard, fresh, rows)
        self.version = fresh.standing.version

    def _send_copy(
        self, shard: Shard, fresh: Fresh, rows: dict[str, tuple[Tensor, Tensor]]
    ) -> None:
        """Send from a thread of its own: a slow reader must not hold up the others."""
        tensors: list[Tensor] = []
        if DENSE in shard.blocks:
            tensors.append(shard.blocks[DENSE].tensors[VALUE].clone())
        for numbers, values in rows.values():
            tensors.extend((numbers, values.contiguous()))
        if CARRIED in shard.blocks:
            tensors.append(shard.blocks[CARRIED].tensors[VALUE].clone())
        counts = {space: len(numbers) for space, (numbers, _) in rows.items()}
        said = Fresh(
            standing=fresh.standing,
            step=fresh.step,
            is_done=fresh.is_done,
            applied=fresh.applied,
            staleness=fresh.staleness,
            rows=counts,
        )
        self._outgoing.put((said, tensors))
        if self._writer is None:
            self._writer = threading.Thread(target=self._write, name="to-trainer", daemon=True)
            self._writer.start()

    def _write(self) -> None:
        while (item := self._outgoing.get()) is not None:
            try:
                self.channel.send(item[0], item[1])
            except (ChannelClosed, FrameError):
                self.channel.close()
                return

    # ------------------------------------------------------------ what it alone holds

    def fetch(self, pieces: Sequence[Piece], targets: Sequence[Tensor]) -> None:
        """Copy blocks of what it holds; `ChannelClosed` when it does not give them in time."""
        if self.buffers is not None:
            for piece, target in zip(pieces, targets, strict=True):
                target.copy_(select(self.buffers, piece).view(target.shape))
            return
        self._wanted = list(targets)
        self._given.clear()
        self._given_error = "it did not answer"
        self.channel.send(Give(pieces=tuple(pieces)))
        if not self._given.wait(GIVE_SECONDS) or self._given_error:
            raise ChannelClosed(f"{self.hello.worker} did not give its parameters")

    def read_given(self, message: Bytes) -> None:
        """Read what was asked for; called by the thread that reads this connection."""
        wanted, self._wanted = self._wanted, []
        size = sum(tensor.numel() * tensor.element_size() for tensor in wanted)
        if not wanted or message.size != size:
            raise FrameError(f"{message.size} bytes came and {size} were asked for")
        for tensor in wanted:
            self.channel.read_into(tensor)
        self._given_error = ""
        self._given.set()


def select(buffers: Buffers, piece: Piece) -> Tensor:
    """Return a view of some blocks of a worker's parameters."""
    values = buffers.values[piece.space]
    if piece.space == CARRIED:
        return values
    if piece.space == DENSE:
        return values[piece.start * BLOCK : piece.stop * BLOCK]
    return values[piece.start : piece.stop]


def read_rows(channel: Channel, layout: Layout, space: str, count: int) -> tuple[Tensor, Tensor]:
    """Read rows of a table off a connection: numbers and values."""
    if count > layout.spaces[space]:
        raise FrameError(f"{count} rows of a table of {layout.spaces[space]}")
    numbers = torch.empty(count, dtype=torch.int64)
    values = torch.empty(count, layout.row_size(space))
    channel.read_into(numbers)
    channel.read_into(values)
    return numbers, values


def _share(hello: Hello) -> Buffers | None:
    if hello.area is None:
        return None
    try:
        return attach(hello.layout, hello.area)
    except MemoryRefused:
        return None
