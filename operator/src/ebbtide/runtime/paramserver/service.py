"""
One parameter server: its state, and who may do what to it.

It keeps at most two states: the open one, which pushes change, and the next map's, prepared beside
it. Everything that changes a state arrives in one order, from the lead; one lock guards it all.
"""

import contextlib
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import torch

from ebbtide.runtime.checkpoint import Shelf
from ebbtide.runtime.errors import CheckpointError
from ebbtide.runtime.paramserver.channel import Channel, ChannelClosed, connect
from ebbtide.runtime.paramserver.messages import (
    READER,
    Apply,
    Bytes,
    Cut,
    Have,
    Holding,
    Piece,
    Read,
    Standing,
    Take,
    Taken,
)
from ebbtide.runtime.paramserver.saved import fill_from_checkpoint
from ebbtide.runtime.paramserver.shard import VALUE, Shard, build, keys_of
from ebbtide.runtime.paramserver.spaces import Part, parts_of
from ebbtide.runtime.paramserver.trainer import Trainer
from ebbtide.wire.frames import FrameError
from ebbtide.wire.messages import Refused

if TYPE_CHECKING:
    from ebbtide.runtime.paramserver.layout import Layout

READ_SECONDS: Final = 30.0
CUT_SECONDS: Final = 3.0  # how far the lead's order for a copy may be behind its reader

log = logging.getLogger("ebbtide.server")


@dataclass(slots=True, kw_only=True)
class Held:
    """A state that this server has its part of."""

    map: int
    servers: tuple[str, ...]
    is_open: bool
    standing: Standing
    shard: Shard


class Service:
    """Everything but the sockets and the order: `lead` and `serving` call in here."""

    def __init__(self, name: str, *, token: bytes, shelf: Shelf) -> None:
        self.name = name
        self.token = token
        self.shelf = shelf
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.map = 0  # the newest that a lead opened or prepares
        self.layout: Layout | None = None
        self.trainers: dict[str, Trainer] = {}
        self._states: list[Held] = []
        self._cut: tuple[int, Held] | None = None

    # ------------------------------------------------------------ what it holds

    @property
    def open(self) -> Held | None:
        """The open state."""
        return next((held for held in self._states if held.is_open), None)

    @property
    def standing(self) -> Standing:
        """How far the open state is."""
        return self.open.standing if self.open is not None else Standing()

    def adopt(self, number: int) -> Have:
        """
        Follow a lead of this map; workers of older maps are cut off.

        So are all, when the same map is brought about again: what they were in the middle of broke.
        """
        with self.changed:
            if number < self.map:
                raise FrameError(f"map {number} is older than {self.map}")
            again, self.map = number == self.map, number
            for trainer in list(self.trainers.values()):
                if again or trainer.hello.map < number:
                    self.drop(trainer.client)
            self.changed.notify_all()
            holdings = tuple(
                Holding(
                    map=held.map,
                    servers=held.servers,
                    is_open=held.is_open,
                    standing=held.standing,
                    times=tuple(held.shard.times),
                )
                for held in self._states
            )
            return Have(holdings=holdings, layout=self.layout)

    def take(self, order: Take) -> Taken:
        """Prepare this server's part of a map; the open state stays as it is."""
        place = order.servers.index(self.name) if self.name in order.servers else -1
        if order.map != self.map or place < 0:
            return Taken(error=f"{self.name} is not of map {order.map}")
        parts = parts_of(order.layout.spaces, servers=len(order.servers), place=place)
        shard = build(order.layout, parts, times=order.times)
        fresh: tuple[str, ...] = ()
        try:
            if order.from_checkpoint:
                fill_from_checkpoint(shard, self.shelf, parts=parts, with_values=True)
            else:
                fresh = self._gather(shard, order)
        except (ChannelClosed, FrameError, CheckpointError, KeyError) as error:
            return Taken(error=f"{self.name}: {error}")
        shard.start_log(order.standing.version)
        held = Held(
            map=order.map,
            servers=order.servers,
            is_open=False,
            standing=order.standing,
            shard=shard,
        )
        with self.lock:
            self.layout = order.layout
            self._states = [*(each for each in self._states if each.is_open), held]
        return Taken(fresh=fresh)

    def open_map(self, number: int) -> None:
        """Make what was prepared the state; a server that is not of the map has none then."""
        with self.changed:
            if number != self.map:
                raise FrameError(f"map {number} is not the one of now, {self.map}")
            ready = [h for h in self._states if h.map == number and not h.is_open]
            self._states = ready[-1:]
            for held in self._states:
                held.is_open = True
            for trainer in self.trainers.values():
                trainer.version = -1
            self.changed.notify_all()

    # ------------------------------------------------------------ the stream of the lead

    def apply(self, order: Apply) -> None:
        """Apply a worker's gradient where there is one, and bring its parameters up to date."""
        with self.lock:
            held, trainer = self.open, self.trainers.get(order.client)
            if held is None:
                return
            out = None
            if order.has_gradient:
                version = order.entry.standing.version
                if trainer is not None:
                    out = trainer.out(held.shard)
                    held.shard.apply(
                        trainer.gradient(held.shard, rows=order.rows),
                        groups=order.groups,
                        skipped=order.skipped,
                        weight=order.weight,
                        version=version,
                        momenta=held.shard.momenta.choose(order.client, is_alone=order.is_alone),
                        out=out,
                    )
                else:
                    log.warning("the gradient of %s is gone: its part is lost", order.client)
            held.standing = order.entry.standing
            if trainer is not None:
                try:
                    trainer.refresh(held.shard, order.entry, has_dense=out is not None)
                except (ChannelClosed, FrameError) as error:
                    log.info("%s is not to be reached: %s", trainer.hello.worker, error)

    def drop(self, client: str) -> None:
        """Forget a client."""
        with self.changed:
            trainer = self.trainers.pop(client, None)
            if trainer is not None:
                trainer.close()
            if self.open is not None:
                self.open.shard.momenta.drop(client)
            self.changed.notify_all()

    def cut(self, order: Cut) -> None:
        """Keep a copy of the state as it is; the one before is dropped."""
        with self.changed:
            if (held := self.open) is not None:
                self._cut = (order.number, replace(held, shard=held.shard.copy()))
                self.changed.notify_all()

    # ------------------------------------------------------------ workers

    def admit(self, trainer: Trainer) -> str:
        """Take in a worker's connection; say why not, empty = done."""
        with self.changed:
            if trainer.hello.map < self.map:
                return f"map {trainer.hello.map} is older than {self.map}"
            self.trainers[trainer.client] = trainer
            self.changed.notify_all()
            return ""

    def parts(self) -> Sequence[Part]:
        """Return which parts of the open state are here."""
        with self.lock:
            held = self.open
            return () if held is None else [block.part for block in held.shard.blocks.values()]

    # ------------------------------------------------------------ readers

    def read(self, asked: Read) -> tuple[Bytes, list[torch.Tensor]]:
        """
        Return blocks of a state; of a kept copy, or of the one held for a map.

        The lead tells the reader of a copy when it has ordered it: here the order may come later.
        """
        with self.changed:
            if asked.number:
                self.changed.wait_for(lambda: self._find(asked) is not None, CUT_SECONDS)
            found = self._find(asked)
            if found is None:
                return Bytes(error=f"{self.name} has no such state"), []
            part = Part(space=asked.space, start=asked.start, stop=asked.stop)
            found.shard.momenta.gather()
            try:
                tensor = found.shard.read(part, asked.key).contiguous()
            except KeyError:
                return Bytes(error=f"{self.name} does not have {part} {asked.key}"), []
        return Bytes(size=tensor.numel() * tensor.element_size()), [tensor]

    def _find(self, asked: Read) -> Held | None:
        if not asked.number:
            return next((held for held in self._states if held.map == asked.map), None)
        if self._cut is None or self._cut[0] != asked.number or self._cut[1].map != asked.map:
            return None
        return self._cut[1]

    # ------------------------------------------------------------ gathering a part

    def _gather(self, shard: Shard, order: Take) -> tuple[str, ...]:
        """Fill a shard from the living servers, and from a worker where none has it."""
        lost = [piece for piece in order.pieces if not piece.server]
        by_server: dict[str, list[Piece]] = {}
        for piece in order.pieces:
            if piece.server:
                by_server.setdefault(piece.server, []).append(piece)
        for server, pieces in by_server.items():
            if server == self.name:
                self._keep(shard, pieces, base=order.base)
            else:
                self._fetch(shard, pieces, order=order, address=order.addresses[server])
        if not lost:
            return ()
        with self.changed:
            trainer = self.trainers.get(order.client)
        if trainer is None:
            raise ChannelClosed(f"{order.client} is not here")
        targets = [shard.read(_part(piece), VALUE) for piece in lost]
        trainer.fetch(lost, targets)
        parts = [_part(piece) for piece in lost]
        return fill_from_checkpoint(shard, self.shelf, parts=parts, with_values=False)

    def _keep(self, shard: Shard, pieces: Sequence[Piece], *, base: int) -> None:
        with self.lock:
            held = next(each for each in self._states if each.map == base)
            held.shard.momenta.gather()
            for piece in pieces:
                for key in keys_of(shard.layout, piece.space):
                    source = held.shard.read(_part(piece), key)
                    shard.read(_part(piece), key).copy_(source)

    def _fetch(self, shard: Shard, pieces: Sequence[Piece], *, order: Take, address: str) -> None:
        host, _, port = address.rpartition(":")
        channel = connect((host, int(port)), token=self.token, role=READER, seconds=READ_SECONDS)
        with contextlib.closing(channel):
            for piece in pieces:
                for key in keys_of(shard.layout, piece.space):
                    asked = Read(
                        map=order.base,
                        number=0,
                        space=piece.space,
                        key=key,
                        start=piece.start,
                        stop=piece.stop,
                    )
                    fetch(channel, asked, shard.read(_part(piece), key))


def fetch(channel: Channel, asked: Read, target: torch.Tensor) -> None:
    """Read blocks of another server's state into a tensor."""
    channel.send(asked)
    answer = channel.read(Bytes | Refused, seconds=READ_SECONDS)
    if isinstance(answer, Refused) or answer.error:
        raise ChannelClosed(answer.reason if isinstance(answer, Refused) else answer.error)
    if answer.size != target.numel() * target.element_size():
        raise FrameError(f"{answer.size} bytes came for {asked.space} {asked.key}")
    channel.read_into(target)


def _part(piece: Piece) -> Part:
    return Part(space=piece.space, start=piece.start, stop=piece.stop)
