"""Who gets in at a parameter server, and what those outside cannot do to those inside."""

import contextlib
import logging
import resource
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import nn
from typing_extensions import override

from ebbtide.runtime.paramserver import channel as channels
from ebbtide.runtime.paramserver import serving
from ebbtide.runtime.paramserver.channel import Channel, ChannelClosed
from ebbtide.runtime.paramserver.messages import READER, TRAINER, ToReader
from ebbtide.wire.frames import prove
from ebbtide.wire.messages import PROTOCOL, Answer, Challenge, Refused
from support.served import TOKEN, Servers, Trainer, in_background

ENDED = r"closed the connection|reset by peer"


@pytest.fixture
def make_servers(tmp_path: Path) -> Iterator[Callable[[], Servers]]:
    """One server, started when it is asked for."""
    servers = Servers(folder=tmp_path)

    def begin() -> Servers:
        servers.start("a")
        return servers

    yield begin
    servers.close()


@pytest.fixture
def servers(make_servers: Callable[[], Servers]) -> Servers:
    """One server."""
    return make_servers()


def make_trainer(servers: Servers) -> Trainer:
    model = nn.Linear(1, 10)
    return Trainer(servers, model, torch.optim.SGD(model.parameters(), lr=0.1), name="w")


@pytest.mark.parametrize(
    ("role", "token"),
    [
        pytest.param(READER, b"guessed", id="a wrong token"),
        pytest.param("operator", TOKEN, id="no role of this protocol"),
    ],
)
def test_who_does_not_prove_itself_is_refused_naming_both(
    servers: Servers, role: str, token: bytes
) -> None:
    channel = servers.connect(role=role, token=token)

    host, port = channel._sock.getsockname()
    assert channel.read(ToReader, seconds=5) == Refused(
        reason=f"the token is wrong: {host}:{port} did not prove to this parameter server, as "
        f"{role!r}, that it knows the one of this job"
    )


def test_another_protocol_is_refused_naming_both(servers: Servers) -> None:
    channel = servers.dial()
    challenge = channel.read(Challenge, seconds=5)
    digest = prove(token=TOKEN, nonce=challenge.nonce, side=READER)

    channel.send(Answer(protocol=PROTOCOL + 1, side=READER, digest=digest))

    refused = channel.read(ToReader, seconds=5)
    assert f"speaks protocol {PROTOCOL + 1}, this parameter server {PROTOCOL}:" in refused.reason


@pytest.mark.parametrize("role", [None, TRAINER], ids=["a stranger", "one of ours"])
def test_a_byte_now_and_then_gains_nobody_time(
    servers: Servers, monkeypatch: pytest.MonkeyPatch, role: str | None
) -> None:
    monkeypatch.setattr(channels, "GREETING_SECONDS", 0.5)
    monkeypatch.setattr(serving, "HELLO_SECONDS", 0.5)
    slow = servers.connect(role=role) if role else servers.dial()
    if role is None:
        slow.read(Challenge, seconds=5)
    slow._sock.sendall(struct.pack(">I", 4000))

    def drip() -> None:
        with contextlib.suppress(OSError):
            while not over.wait(0.02):
                slow._sock.sendall(b" ")

    over = threading.Event()
    thread = in_background(drip)
    try:
        with pytest.raises(ChannelClosed, match=ENDED):
            slow.read(ToReader, seconds=10)
    finally:
        over.set()
        thread.join(10)


def test_strangers_take_no_place_from_who_belongs_to_the_job(
    make_servers: Callable[[], Servers], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "MAX_STRANGERS", 4)
    servers = make_servers()
    strangers = [servers.dial(source="127.0.0.2") for _ in range(4)]
    for stranger in strangers:
        assert isinstance(stranger.read(Challenge, seconds=5), Challenge)

    fifth = servers.dial(source="127.0.0.2")
    ready = make_trainer(servers).client.enter()

    assert fifth.read(Challenge | Refused, seconds=5) == Refused(reason="too many connections")
    assert ready.standing.version == 0
    with pytest.raises(ChannelClosed, match=ENDED):
        strangers[0].read(ToReader, seconds=5)


class Said(logging.Handler):
    """Lets a test wait for a line of the log."""

    def __init__(self, line: str) -> None:
        super().__init__()
        self.event = threading.Event()
        self._line = line

    @override
    def emit(self, record: logging.LogRecord) -> None:
        """Note that it was written."""
        if self._line in record.getMessage():
            self.event.set()


def test_a_server_without_a_descriptor_left_takes_connections_when_there_are_some_again(
    servers: Servers,
) -> None:
    short = Said("no connection can be taken until this passes")
    log = logging.getLogger("ebbtide.server")
    log.addHandler(short)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        with socket.socket() as caller:
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
            caller.connect(servers.running["a"].address)
            assert short.event.wait(10)
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            channel = Channel(caller)

            assert isinstance(channel.read(Challenge, seconds=10), Challenge)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        log.removeHandler(short)


def test_a_frame_that_is_too_long_ends_that_connection_alone(servers: Servers) -> None:
    trainer = make_trainer(servers)
    trainer.client.enter()
    with socket.create_connection(servers.running["a"].address, timeout=5) as stranger:
        stranger.sendall(struct.pack(">I", 1 << 31) + b"x" * 100)
        while stranger.recv(4096):
            pass

    assert trainer.take().step == 0
