"""Servers and clients over real sockets, in one process: what each exchange brings about."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import torch
from torch import nn

from ebbtide.runtime.errors import CheckpointError, UsageError
from ebbtide.runtime.paramserver import snapshots
from ebbtide.runtime.paramserver.channel import Channel, ChannelClosed, connect
from ebbtide.runtime.paramserver.memory import MemoryRefused, attach
from ebbtide.runtime.paramserver.messages import (
    PEER,
    READER,
    Adopt,
    Bytes,
    Cut,
    Read,
    ToReader,
)
from ebbtide.wire.frames import FrameError
from ebbtide.wire.messages import Refused
from support.pacing import Link
from support.served import TOKEN, Servers, Trainer, in_background
from support.served_fuzzing import Fuzz, resident

Start = Callable[..., Servers]
BUFFERS = 400_008  # running statistics of the widest model here, on one of the servers
FUZZED = 10_000  # a tenth of what the bench sends


@pytest.fixture(params=[True, False], ids=["shared memory", "connections"])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Start]:
    """Start servers by name; workers share memory with them, or do not."""
    made: list[Servers] = []

    def begin(*names: str, max_staleness: int | None = None, steps: int = 1000) -> Servers:
        servers = Servers(
            folder=tmp_path, may_share=request.param, max_staleness=max_staleness, steps=steps
        )
        made.append(servers)
        servers.start(*names)
        return servers

    yield begin
    for servers in made:
        servers.close()


def make(servers: Servers, name: str = "w", *, width: int = 3000, rate: float = 0.5) -> Trainer:
    torch.manual_seed(len(name))
    model = nn.Sequential(nn.Linear(1, width), nn.BatchNorm1d(width))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    return Trainer(servers, model, optimizer, name=name)


def test_a_push_changes_the_parameters_everywhere_by_the_rate(start: Start) -> None:
    trainer = make(start("a", "b"))
    trainer.client.enter()
    trainer.take()
    before = trainer.values()

    fresh = trainer.push(1.0)

    assert (fresh.applied, fresh.standing.version, fresh.step) == (True, 1, 1)
    torch.testing.assert_close(trainer.values(), before - 0.5)


def test_a_newcomer_gets_the_state_and_not_its_own(start: Start) -> None:
    servers = start("a", "b", "c")
    first, second = make(servers, "w"), make(servers, "other")
    first.client.enter()
    first.take()
    first.push(1.0)

    ready = second.client.enter()
    second.take()

    assert ready.standing.version == 1
    torch.testing.assert_close(second.values(), first.values())


def test_running_statistics_are_those_of_the_newest_push(start: Start) -> None:
    servers = start("a", "b")
    first, second = make(servers, "w"), make(servers, "other")
    first.client.enter()
    first.take()
    first.model(torch.ones(4, 1))
    first.push(0.0)

    second.client.enter()
    second.take()

    theirs, ours = first.model.state_dict(), second.model.state_dict()
    assert int(ours["1.num_batches_tracked"]) == 1
    assert torch.equal(ours["1.running_mean"], theirs["1.running_mean"])


def test_staleness_is_told_and_an_old_push_counts_less(start: Start) -> None:
    servers = start("a")
    slow, quick = make(servers, "slow"), make(servers, "quick")
    slow.client.enter()
    slow.take()
    quick.client.enter()
    quick.take()
    for _ in range(9):
        quick.step = quick.push(0.0).step
    before = quick.values()

    fresh = slow.push(1.0, wants_more=False)

    assert fresh.staleness == 9
    # Two are at work, so 2 / (9 + 1) of the push counts.
    torch.testing.assert_close(slow.values(), before - 0.5 * 0.2)


def test_b076_with_a_bound_the_quick_one_waits_for_the_slow(start: Start) -> None:
    servers = start("a", "b", max_staleness=1)
    slow, quick = make(servers, "slow"), make(servers, "quick")
    slow.client.enter()
    slow.take()
    quick.client.enter()
    quick.take()
    seen: list[int] = []

    def hurry() -> None:
        for _ in range(2):
            fresh = quick.push(0.0)
            quick.step = fresh.step
            seen.append(fresh.staleness)

    thread = in_background(hurry)
    thread.join(0.5)
    assert thread.is_alive()
    late = slow.push(0.0)
    thread.join(10)

    assert not thread.is_alive()
    assert late.staleness == 1
    assert max(seen) <= 1


def test_only_workers_that_are_left_have_to_be_waited_for(start: Start) -> None:
    servers = start("a", max_staleness=1)
    gone, quick = make(servers, "gone"), make(servers, "quick")
    gone.client.enter()
    gone.take()
    quick.client.enter()
    quick.take()
    thread = in_background(lambda: [quick.push(0.0) for quick.step in (1, 2)])
    thread.join(0.3)
    assert thread.is_alive()

    servers.running["a"].lose_worker("gone")
    thread.join(10)

    assert not thread.is_alive()


@pytest.mark.parametrize("after", [("a", "b", "c"), ("b",), ("c", "a"), ("d",)])
def test_b078_any_change_of_servers_keeps_every_parameter(
    start: Start, after: tuple[str, ...]
) -> None:
    servers = start("a", "b", "c", "d")
    servers.arrange("a", "b")
    trainer = make(servers)
    trainer.client.enter()
    trainer.take()
    trainer.step = trainer.push(1.0).step
    before = trainer.values()

    servers.arrange(*after)
    fresh = trainer.push(1.0)

    assert fresh.standing.version == 2
    torch.testing.assert_close(trainer.values(), before - 0.5)


@pytest.mark.parametrize("lost", ["a", "b"])
def test_b078_a_lost_servers_part_comes_back_as_the_worker_saw_it(start: Start, lost: str) -> None:
    servers = start("a", "b")
    trainer = make(servers)
    trainer.client.enter()
    trainer.take()
    trainer.step = trainer.push(1.0).step
    before = trainer.values()

    servers.kill(lost)
    servers.arrange(*servers.running)
    fresh = trainer.push(1.0)

    assert (fresh.applied, fresh.standing.version) == (True, 2)
    torch.testing.assert_close(trainer.values(), before - 0.5)


def test_a_worker_that_is_gone_gives_its_step_back(start: Start) -> None:
    servers = start("a")
    first, second = make(servers, "w"), make(servers, "other")
    first.client.enter()
    assert first.take().step == 0

    first.client.close()
    second.client.enter()

    steps = [second.take().step]
    while steps[-1] != 0 and len(steps) < 20:
        second.step = steps[-1]
        steps.append(second.push(0.0).step)
    assert 0 in steps


def test_when_all_steps_are_applied_everybody_hears_it(start: Start) -> None:
    servers = start("a", "b", steps=3)
    first, second = make(servers, "w"), make(servers, "other")
    first.client.enter()
    second.client.enter()
    first.take()
    answers = []
    for _ in range(3):
        answers.append(first.push(1.0))
        first.step = answers[-1].step

    assert answers[-1].is_done
    assert second.take().is_done
    torch.testing.assert_close(first.values(), second.values())


def test_a_snapshot_is_one_state_while_pushes_go_on(start: Start) -> None:
    servers = start("a", "b", "c")
    trainer = make(servers, rate=1.0)
    trainer.client.enter()
    trainer.take()
    origin = trainer.values()
    stop = threading.Event()

    def go_on() -> None:
        while not stop.is_set():
            trainer.step = trainer.push(1.0).step

    thread = in_background(go_on)
    try:
        taken = [snapshots.take(servers.map, token=TOKEN) for _ in range(5)]
    finally:
        stop.set()
        thread.join(10)

    for snapshot in taken:
        tree = snapshot.tree({}, groups=[])
        model = trainer.binding.whole_model(dict(tree["model"]))
        flat = torch.cat([model[n].flatten() for n, _ in trainer.model.named_parameters()])
        torch.testing.assert_close(flat, origin - snapshot.standing.version)
        assert tree["step"] == snapshot.standing.step
    assert taken[-1].standing.version > 0


def test_a_snapshot_of_nothing_says_so(start: Start) -> None:
    servers = start("a")

    with pytest.raises(CheckpointError, match="there is no open state here"):
        snapshots.take(servers.map, token=TOKEN)
    with pytest.raises(CheckpointError, match="there are no parameter servers"):
        snapshots.take(None, token=TOKEN)


def test_a_model_of_another_shape_is_refused_naming_both(start: Start) -> None:
    servers = start("a")
    make(servers).client.enter()

    with pytest.raises(UsageError, match=r"0.weight has the shape \[7, 1\] here and \[3000, 1\]"):
        make(servers, "other", width=7).client.enter()


# ---------------------------------------------------------------- who may talk


def address_of(servers: Servers) -> tuple[str, int]:
    return servers.running["a"].address


def test_reading_what_is_not_there_is_answered(start: Start) -> None:
    servers = start("a")
    make(servers).client.enter()
    channel = servers.connect(role=READER)

    for asked in (
        Read(map=1, number=0, space="dense", key="value", start=0, stop=1 << 40),
        Read(map=1, number=0, space="nowhere", key="value", start=0, stop=1),
        Read(map=1, number=0, space="dense", key="nothing", start=0, stop=1),
        Read(map=9, number=0, space="dense", key="value", start=0, stop=1),
        Read(map=1, number=7, space="dense", key="value", start=0, stop=1),
    ):
        channel.send(asked)
        answer = channel.read(ToReader, seconds=5)
        assert isinstance(answer, Bytes)
        assert answer.error


def test_who_asks_for_a_copy_before_it_is_ordered_here_waits_for_the_order(start: Start) -> None:
    servers = start("a", "b")
    make(servers).client.enter()
    part = next(each for each in servers.services["b"].parts() if each.space == "dense")
    asked = Read(map=1, number=1, space="dense", key="value", start=part.start, stop=part.stop)
    channel = connect(servers.running["b"].address, token=TOKEN, role=READER, seconds=5)
    servers.to_close.append(channel)

    channel.send(asked)
    with pytest.raises(ChannelClosed, match="nothing"):
        channel.read(ToReader, seconds=0.3)
    servers.services["b"].cut(Cut(number=1))

    answer = channel.read(ToReader, seconds=5)
    assert isinstance(answer, Bytes)
    assert answer.error == ""
    assert answer.size > 0


def test_an_older_lead_is_not_followed(start: Start) -> None:
    servers = start("a")
    make(servers).client.enter()
    channel = servers.connect(role=PEER)

    channel.send(Adopt(map=0))

    with pytest.raises(ChannelClosed):
        channel.read(ToReader, seconds=5)


def test_a_silent_connection_is_given_up_in_time() -> None:
    near, far = pair()

    with pytest.raises(ChannelClosed, match=r"nothing came within 0.1 s"):
        near.read(ToReader, seconds=0.1)
    far.close()
    with pytest.raises(ChannelClosed, match="closed the connection"):
        near.read(ToReader, seconds=5)
    near.close()


def test_memory_that_is_not_the_workers_is_not_mapped(tmp_path: Path) -> None:
    trainer = make(Servers(folder=tmp_path))
    layout, area = trainer.binding.layout, trainer.binding.shared.area()

    shared = attach(layout, area)
    shared.gradient[5] = 3.0
    assert trainer.binding.shared.gradient[5] == 3.0
    for wrong in (
        msgspec.structs.replace(area, token="0" * 32),
        msgspec.structs.replace(area, descriptor=0),
        msgspec.structs.replace(area, descriptor=10**6),
        msgspec.structs.replace(area, pid=2**40),
        msgspec.structs.replace(area, size=area.size + 4096),
    ):
        with pytest.raises(MemoryRefused):
            attach(layout, wrong)


# ---------------------------------------------------------------- whatever comes


def test_no_bytes_bring_a_server_down_or_make_it_large(tmp_path: Path) -> None:
    servers = Servers(folder=tmp_path)
    servers.start("a")
    trainer = make(servers)
    trainer.client.enter()
    before = resident()

    sent = Fuzz(address_of(servers), seed=11, trainer=trainer).run(FUZZED)

    assert sent >= FUZZED
    assert resident() - before < 200 << 20
    assert trainer.take().step >= 0
    trainer.step = 0
    servers.close()


def test_a_message_that_is_too_large_is_not_sent() -> None:
    near, far = pair()

    with pytest.raises(FrameError, match="is too long"):
        near.send(Refused(reason="x" * (9 << 20)))
    near.close()
    far.close()


def pair() -> tuple[Channel, Channel]:
    """Two ends of one connection."""
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    server, _ = listener.accept()
    listener.close()
    return Channel(client), Channel(server)


@pytest.mark.parametrize("num", [1, 2])
def test_servers_share_the_bytes_of_a_push(tmp_path: Path, num: int) -> None:
    names = ("a", "b")[:num]
    servers = Servers(folder=tmp_path, may_share=False)
    servers.start(*names)
    direct = servers.map
    assert direct is not None
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(Link(seat.port)) for seat in direct.servers]
        seats = zip(direct.servers, links, strict=True)
        servers.map = msgspec.structs.replace(
            direct,
            servers=tuple(msgspec.structs.replace(seat, port=link.port) for seat, link in seats),
        )
        trainer = make(servers, width=50_000)
        trainer.client.enter()
        trainer.take()
        before = [(link.forth.num_bytes, link.back.num_bytes) for link in links]
        trainer.push(1.0)
        after = [(link.forth.num_bytes, link.back.num_bytes) for link in links]

        # Each server's link carries its share, and no more than some kilobytes besides.
        share = 4 * trainer.values().numel() / num
        for (forth, back), (forth_before, back_before) in zip(after, before, strict=True):
            assert forth - forth_before == pytest.approx(share, abs=10_000 + BUFFERS)
            assert back - back_before == pytest.approx(share, abs=10_000 + BUFFERS)
    servers.close()
