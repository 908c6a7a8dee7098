"""
A worker process's side: connections to all servers of the newest map, and one push after the other.

Whatever breaks, the client finds the newest map, says what it holds and goes on: a gradient that
was not applied is pushed again, one that was is not. It waits no longer than `patience` lets it.
"""

import contextlib
import secrets
import select
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from ebbtide.runtime.errors import UsageError
from ebbtide.runtime.paramserver.channel import Channel, ChannelClosed, connect
from ebbtide.runtime.paramserver.layout import BLOCK, CARRIED, DENSE, Layout
from ebbtide.runtime.paramserver.memory import Shared
from ebbtide.runtime.paramserver.messages import (
    TRAINER,
    Bytes,
    Commit,
    Fresh,
    Give,
    Hello,
    Here,
    Mismatch,
    Ready,
    Stage,
    Staged,
    Standing,
    ToTrainer,
    Want,
)
from ebbtide.runtime.paramserver.spaces import Part, parts_of
from ebbtide.runtime.paramserver.trainer import read_rows
from ebbtide.runtime.paramserver.trainer import select as select_part
from ebbtide.wire.frames import FrameError
from ebbtide.wire.messages import Refused, ServerMap

CONNECT_SECONDS: Final = 3.0
HERE_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 0.1
_LOOK_MILLISECONDS: Final = 50


class Client:
    """All that one process says to the servers."""

    def __init__(
        self,
        shared: Shared,
        layout: Layout,
        *,
        token: bytes,
        worker: str,
        servers: Callable[[], ServerMap | None],
        patience: Callable[[], None],
        may_share: bool = True,
    ) -> None:
        """`patience` is called ten times a second while it waits, and raises to end that."""
        self._shared = shared
        self._layout = layout
        self._token = token
        self._worker = worker
        self._servers = servers
        self._patience = patience
        self._may_share = may_share
        self._map = 0
        self._channels: dict[str, Channel] = {}
        self._parts: dict[str, tuple[Part, ...]] = {}
        self._sharing: set[str] = set()
        self._lead = ""
        self._working = (-1, 0)  # step, and the version its gradient is of
        # By server: one may tell of the next step before another has told of this one.
        self._fresh: dict[str, deque[Fresh]] = {}
        self._staged: set[str] = set()
        self._ready: Ready | None = None
        self.held = Standing()
        self._waited = 0.0

    def close(self) -> None:
        """End all connections; a step that is out comes again for another worker."""
        for channel in self._channels.values():
            channel.close()
        self._channels = {}

    def take_wait(self) -> float:
        """Return how long pushes took since the last call, in seconds."""
        seconds, self._waited = self._waited, 0.0
        return seconds

    # ------------------------------------------------------------ what the loop asks

    def enter(self) -> Ready:
        """Connect to the servers and wait until there is a state."""
        while True:
            try:
                return self._enter()
            except (ChannelClosed, FrameError):
                self._pause()

    def want(self) -> Fresh:
        """Ask for a step and wait for it; `step` is -1 only when all are applied."""
        while True:
            try:
                if not self._channels:
                    self._enter()
                self._channels[self._lead].send(Want())
                return self._await_step(self._await_fresh())
            except (ChannelClosed, FrameError):
                self._pause()

    def push(
        self,
        step: int,
        *,
        groups: Sequence[dict[str, float]],
        refill: Callable[[], tuple[tuple[int, ...], dict[str, int]]],
        wants_more: bool,
    ) -> Fresh:
        """
        Push a step's gradient until it is applied, here or by another who had the same step.

        `refill` puts the gradient into the shared memory and returns which entries have none and
        how many rows each table's has; it is called again when a try broke.
        """
        self._working = (step, self.held.version)
        try:
            while True:
                try:
                    if not self._channels and _is_applied(self._enter().standing, step):
                        return self.want() if wants_more else Fresh(standing=self.held)
                    return self._push(step, groups=groups, refill=refill, wants_more=wants_more)
                except (ChannelClosed, FrameError):
                    self._pause()
        finally:
            self._working = (-1, 0)

    def _push(
        self,
        step: int,
        *,
        groups: Sequence[dict[str, float]],
        refill: Callable[[], tuple[tuple[int, ...], dict[str, int]]],
        wants_more: bool,
    ) -> Fresh:
        skipped, rows = refill()
        began = time.monotonic()
        self._stage(step, rows)
        commit = Commit(
            step=step, groups=tuple(groups), skipped=skipped, rows=rows, wants_more=wants_more
        )
        self._channels[self._lead].send(commit)
        fresh = self._await_fresh()
        self._waited += time.monotonic() - began
        return self._await_step(fresh) if wants_more else fresh

    # ------------------------------------------------------------ connecting

    def _enter(self) -> Ready:
        self.close()
        servers = self._servers()
        if servers is None or not servers.servers:
            raise ChannelClosed("there are no servers yet")
        self._ready = None
        self._fresh, self._staged, self._sharing = {}, set(), set()
        self._map = servers.number
        self._lead = servers.servers[0].server
        number = len(servers.servers)
        self._parts = {
            seat.server: parts_of(self._layout.spaces, servers=number, place=place)
            for place, seat in enumerate(servers.servers)
        }
        hello = Hello(
            map=servers.number,
            client=secrets.token_hex(8),
            worker=self._worker,
            layout=self._layout,
            held=self.held,
            area=self._shared.area() if self._may_share else None,
            working=self._working[0],
            since=self._working[1],
        )
        for seat in reversed(servers.servers):  # once the lead knows us, all do
            channel = connect(
                (seat.address, seat.port),
                token=self._token,
                role=TRAINER,
                seconds=CONNECT_SECONDS,
            )
            self._channels[seat.server] = channel
            self._greet(seat.server, channel, hello)
        self._listen(lambda: self._ready is not None)
        return self._get_ready()

    def _get_ready(self) -> Ready:
        if self._ready is None:
            raise ChannelClosed("the lead said nothing")
        return self._ready

    def _greet(self, name: str, channel: Channel, hello: Hello) -> None:
        channel.send(hello)
        here = channel.read(Here | Mismatch | Refused, seconds=HERE_SECONDS)
        if isinstance(here, Mismatch):
            raise UsageError(f"this script is not the one that {name} trains: {here.reason}")
        if isinstance(here, Refused):
            raise ChannelClosed(here.reason)
        if here.is_shared:
            self._sharing.add(name)

    def _pause(self) -> None:
        self.close()
        until = time.monotonic() + RETRY_SECONDS
        while time.monotonic() < until:
            self._patience()
            time.sleep(RETRY_SECONDS / 4)

    # ------------------------------------------------------------ listening

    def _listen(self, is_there: Callable[[], bool]) -> None:
        """Take in what the servers say until that is there."""
        poll = select.poll()
        names = {}
        for name, channel in self._channels.items():
            poll.register(channel.fileno(), select.POLLIN)
            names[channel.fileno()] = name
        while not is_there():
            ready = poll.poll(_LOOK_MILLISECONDS)
            for descriptor, _ in ready:
                name = names[descriptor]
                self._hear(name, self._channels[name].read(ToTrainer))
            if not ready:
                self._patience()
                newest = self._servers()
                if newest is not None and newest.number > self._map:
                    raise ChannelClosed(f"map {newest.number} is there")

    def _hear(self, name: str, message: Any) -> None:
        match message:
            case Fresh():
                if name not in self._sharing:
                    self._read_fresh(name, message)
                self._fresh.setdefault(name, deque()).append(message)
            case Ready():
                self._ready = message
            case Staged():
                self._staged.add(name)
            case Give():
                self._give(name, message)
            case _:
                raise ChannelClosed(f"a {type(message).__name__} came: {message}")

    def _await_fresh(self) -> Fresh:
        """Wait until every server has brought its part up to date."""
        self._listen(lambda: all(self._fresh.get(name) for name in self._channels))
        fresh = {name: self._fresh[name].popleft() for name in self._channels}[self._lead]
        self.held = fresh.standing
        return fresh

    def _await_step(self, fresh: Fresh) -> Fresh:
        while fresh.step < 0 and not fresh.is_done:
            fresh = self._await_fresh()
        return fresh

    # ------------------------------------------------------------ tensors over connections

    def _stage(self, step: int, rows: dict[str, int]) -> None:
        self._staged = set(self._sharing)
        for name, channel in self._channels.items():
            if name not in self._sharing:
                counts, tensors = self._gradient_of(name, rows)
                channel.send(Stage(step=step, rows=counts), tensors)
        self._listen(lambda: len(self._staged) == len(self._channels))

    def _gradient_of(self, name: str, rows: dict[str, int]) -> tuple[dict[str, int], list[Tensor]]:
        counts: dict[str, int] = {}
        parts = {part.space: part for part in self._parts[name]}
        tensors: list[Tensor] = []
        if (part := parts.get(DENSE)) is not None:
            tensors.append(self._shared.gradient[part.start * BLOCK : part.stop * BLOCK])
        for entry in self._layout.tables:
            part, count = parts.get(entry.space), rows.get(entry.space, 0)
            if part is None or not count:
                continue
            place = self._shared.rows[entry.space]
            numbers = place.numbers[:count]
            here = (numbers >= part.start) & (numbers < part.stop)
            counts[entry.space] = int(here.sum())
            if counts[entry.space]:
                tensors.extend((numbers[here], place.values[:count][here]))
        if CARRIED in parts:
            tensors.append(self._shared.values[CARRIED])
        return counts, tensors

    def _read_fresh(self, name: str, fresh: Fresh) -> None:
        channel = self._channels[name]
        parts = {part.space: part for part in self._parts[name]}
        if (part := parts.get(DENSE)) is not None:
            channel.read_into(self._shared.values[DENSE][part.start * BLOCK : part.stop * BLOCK])
        for entry in self._layout.tables:
            if entry.space in parts:
                count = fresh.rows.get(entry.space, 0)
                numbers, values = read_rows(channel, self._layout, entry.space, count)
                self._shared.values[entry.space][numbers] = values
        if CARRIED in parts:
            channel.read_into(self._shared.values[CARRIED])

    def _give(self, name: str, message: Give) -> None:
        tensors = [select_part(self._shared, piece) for piece in message.pieces]
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        with contextlib.suppress(RuntimeError), torch.no_grad():
            self._channels[name].send(Bytes(size=size), tensors)


def _is_applied(standing: Standing, step: int) -> bool:
    return step < standing.floor or step in standing.ahead
