"""Parameter servers in this process, with real sockets, and clients that train on them by hand."""

import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ebbtide.runtime.checkpoint import Shelf
from ebbtide.runtime.paramserver.binding import Binding
from ebbtide.runtime.paramserver.channel import Channel, connect
from ebbtide.runtime.paramserver.client import Client
from ebbtide.runtime.paramserver.layout import Layout, describe, find_tables
from ebbtide.runtime.paramserver.messages import Fresh
from ebbtide.runtime.paramserver.service import Service
from ebbtide.runtime.paramserver.serving import Serving
from ebbtide.wire.messages import ServerMap, ServerSeat, WorkSpec

TOKEN = b"secret"
PATIENCE = 20.0


class Overdue(Exception):  # noqa: N818 -- says what happened
    """What a test waits for does not come."""


@dataclass(slots=True, kw_only=True)
class Servers:
    """Some servers of one job; the coordinator's part is played by the test."""

    folder: Path
    may_share: bool = True
    steps: int = 1000
    max_staleness: int | None = None
    number: int = 0
    running: dict[str, Serving] = field(default_factory=dict)
    services: dict[str, Service] = field(default_factory=dict)
    map: ServerMap | None = None
    to_close: list[Client | Channel] = field(default_factory=list)

    def point_at(self, address: str, port: int) -> None:
        """Make a server of another process the only one of the map."""
        self.number += 1
        seat = ServerSeat(server="a", address=address, port=port)
        self.map = ServerMap(number=self.number, servers=(seat,))

    def start(self, *names: str, port: int = 0) -> None:
        """Start servers and make them the map."""
        for name in names:
            self.begin(name, port=port)
        self.arrange(*names)

    def begin(self, name: str, *, port: int = 0) -> None:
        """Start a server that is in no map yet."""
        shelf = Shelf(str(self.folder), owner=name)
        service = Service(name, token=TOKEN, shelf=shelf)
        serving = Serving(service, host="127.0.0.1", port=port, may_share=self.may_share)
        serving.configure(self.work)
        serving.start()
        self.running[name], self.services[name] = serving, service

    @property
    def work(self) -> WorkSpec:
        """What the job asks for."""
        return WorkSpec(
            job="tests/served",
            steps=self.steps,
            global_batch_size=1,
            min_replicas=1,
            desired=1,
            servers=1,
            max_staleness=self.max_staleness,
        )

    def arrange(self, *names: str) -> None:
        """Make a new map of these servers, in this order."""
        self.number += 1
        seats = {
            name: ServerSeat(server=name, address=each.address[0], port=each.address[1])
            for name, each in self.running.items()
        }
        self.map = ServerMap(
            number=self.number,
            servers=tuple(seats[name] for name in names),
            others=tuple(seat for name, seat in seats.items() if name not in names),
        )
        for serving in self.running.values():
            serving.rearrange(self.map)

    def connect(self, *, role: str, token: bytes = TOKEN) -> Channel:
        """Connect to the first server, by hand."""
        address = next(iter(self.running.values())).address
        channel = connect(address, token=token, role=role, seconds=5)
        self.to_close.append(channel)
        return channel

    def dial(self, *, source: str = "127.0.0.1") -> Channel:
        """Connect to the first server, and say nothing."""
        address = next(iter(self.running.values())).address
        channel = Channel(socket.create_connection(address, timeout=5, source_address=(source, 0)))
        self.to_close.append(channel)
        return channel

    def kill(self, name: str) -> None:
        """Take a server away."""
        self.running.pop(name).close()

    def close(self) -> None:
        """End all, and what was connected to it."""
        for each in self.to_close:
            each.close()
        for name in list(self.running):
            self.kill(name)


class Trainer:
    """One worker process's part, one call at a time."""

    def __init__(
        self, servers: Servers, model: nn.Module, optimizer: torch.optim.Optimizer, *, name: str
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.binding = Binding(model, optimizer, layout_of(model, optimizer))
        self.until = time.monotonic() + PATIENCE
        self.client = Client(
            self.binding.shared,
            self.binding.layout,
            token=TOKEN,
            worker=f"{name}/0",
            servers=lambda: servers.map,
            patience=self.look,
            may_share=servers.may_share,
        )
        servers.to_close.append(self.client)

    def look(self) -> None:
        """End a wait that takes too long."""
        if time.monotonic() > self.until:
            raise Overdue

    def push(self, gradient: float, *, wants_more: bool = True) -> Fresh:
        """Push the same gradient everywhere, for the step that is out."""
        for parameter in self.model.parameters():
            parameter.grad = torch.full_like(parameter, gradient)
        return self.client.push(
            self.step, groups=self.binding.groups(), refill=self.binding.push,
            wants_more=wants_more,
        )  # fmt: skip

    step = 0

    def take(self) -> Fresh:
        """Take the next step."""
        fresh = self.client.want()
        self.step = fresh.step
        return fresh

    def values(self) -> torch.Tensor:
        """All parameters, flat."""
        return torch.cat([each.detach().flatten() for each in self.model.parameters()]).clone()


def layout_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> Layout:
    """Describe a model as a worker does."""
    return describe(model, optimizer, tables=find_tables(model), data={"seed": 0})


def in_background(work: Callable[[], Any]) -> threading.Thread:
    """Run something beside the test."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread
