"""The group's connections are found among all others, and ended from outside."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from ebbtide.runtime import sockets
from ebbtide.runtime.sockets import Spared

HOST, ELSEWHERE = "127.0.4.1", "127.0.5.1"


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connect(opened: ExitStack, host: str) -> tuple[socket.socket, socket.socket]:
    server = opened.enter_context(socket.create_server((host, 0)))
    near = opened.enter_context(socket.create_connection(server.getsockname()))
    far, _ = server.accept()
    return near, opened.enter_context(far)


def hold(before: dict[str, int], *, far: int = 0, near: int = 0) -> list[tuple[str, int]]:
    held = sockets.hold_new(before, addresses={HOST}, spared=Spared(far=far, near=near))
    ends = [each.getsockname() for each in held]
    for each in held:
        each.close()
    return ends


def test_only_new_connections_of_the_groups_addresses_are_held(opened: ExitStack) -> None:
    connect(opened, HOST)
    before = sockets.list_sockets()
    near, far = connect(opened, HOST)
    connect(opened, ELSEWHERE)
    opened.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))

    assert sorted(hold(before)) == sorted([near.getsockname(), far.getsockname()])


def test_the_coordinators_and_the_stores_connections_are_spared(opened: ExitStack) -> None:
    before = sockets.list_sockets()
    near, far = connect(opened, HOST)
    port = far.getsockname()[1]

    assert hold(before, far=port) == [far.getsockname()]
    assert hold(before, near=port) == [near.getsockname()]


def test_shutting_a_duplicate_ends_a_read_that_waits(opened: ExitStack) -> None:
    before = sockets.list_sockets()
    near, _ = connect(opened, HOST)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(near.recv(10)))
    reader.start()

    held = sockets.hold_new(before, addresses={HOST}, spared=Spared(far=0, near=0))
    sockets.shut(held)
    reader.join(timeout=5)

    assert read == [b""]
    assert all(each.fileno() == -1 for each in held)


def test_shutting_what_is_gone_already_is_no_error(opened: ExitStack) -> None:
    before = sockets.list_sockets()
    near, far = connect(opened, HOST)
    held = sockets.hold_new(before, addresses={HOST}, spared=Spared(far=0, near=0))
    near.close()
    far.close()

    sockets.shut(held)
    sockets.shut(held)


def test_a_number_that_was_reused_is_not_mistaken_for_the_old_one(opened: ExitStack) -> None:
    near, _ = connect(opened, HOST)
    name = f"socket:[{os.fstat(near.fileno()).st_ino}]"
    assert sockets.list_sockets()[name] == near.fileno()

    assert sockets._duplicate("socket:[1]", near.fileno()) is None
    assert sockets._duplicate(name, 99_999) is None


def test_a_watched_connection_gives_up_on_a_silent_peer(opened: ExitStack) -> None:
    near, _ = connect(opened, HOST)

    sockets.watch_peer(near)

    assert near.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 4000
    assert near.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
