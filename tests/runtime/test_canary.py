"""The connection that ends the moment its process is killed."""

import asyncio
import contextlib
import gc
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ebbtide.runtime import canary
from ebbtide.runtime.sockets import list_sockets
from ebbtide.wire.frames import encode
from ebbtide.wire.messages import Canary, Report, Welcome
from support.fake_job import TOKEN, FakeJob, make_work, name_of
from support.processes import await_that
from support.serving import Running, Streams, has_ended, read, register, running

LIMIT = 20.0  # seconds; a loaded machine, not an expectation
SILENCE = 0.9  # seconds: by its silence alone nobody is missed sooner


async def enter_process(coordinator: Running) -> Streams:
    """Be the only process of a worker."""
    reader, writer = await coordinator.enter()
    writer.write(encode(register()))
    assert isinstance(await read(reader), Welcome)
    return reader, writer


async def enter_canary(coordinator: Running, *more: Canary) -> Streams:
    reader, writer = await coordinator.enter()
    await read_nothing(reader)
    for each in (Canary(worker="w-0-1", local_rank=0), *more):
        writer.write(encode(each))
    await read_nothing(reader)
    return reader, writer


async def read_nothing(reader: asyncio.StreamReader) -> None:
    """Give the other end time to read: nothing is said to a canary."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.1):
            await reader.read(1)


async def states(coordinator: Running) -> list[str]:
    report = await coordinator.client().call("status")
    assert report is not None
    return [worker.state for worker in report.workers]


async def test_the_end_of_a_canary_is_the_end_of_its_process() -> None:
    async with running() as coordinator:
        reader, writer = await enter_process(coordinator)
        _, tiny = await enter_canary(coordinator)

        tiny.close()

        assert await has_ended(reader)
        assert await states(coordinator) == ["lost"]
        writer.close()


async def test_a_newer_canary_takes_the_place_of_the_older_one_and_nobody_is_lost() -> None:
    async with running() as coordinator:
        _, writer = await enter_process(coordinator)
        old_reader, old = await enter_canary(coordinator)

        _, new = await enter_canary(coordinator)

        assert await has_ended(old_reader)
        assert await states(coordinator) == ["joining"]
        for each in (old, new, writer):
            each.close()


async def test_a_canary_that_goes_on_talking_is_closed_and_nobody_is_lost() -> None:
    async with running() as coordinator:
        _, writer = await enter_process(coordinator)

        reader, tiny = await enter_canary(coordinator, Canary(worker="w-0-1", local_rank=0))

        assert await has_ended(reader)
        assert await states(coordinator) == ["joining"]
        tiny.close()
        writer.close()


async def test_a_canary_of_nobody_changes_nothing() -> None:
    async with running() as coordinator:
        _, tiny = await enter_canary(coordinator)
        tiny.close()

        assert await states(coordinator) == []


async def test_only_one_thread_holds_the_connection_and_it_ends_with_it() -> None:
    before = set(list_sockets())
    async with running() as coordinator:
        _, writer = await enter_process(coordinator)
        holder = canary.release(
            coordinator=("127.0.0.1", coordinator.port),
            token=TOKEN,
            address="127.0.0.1",
            hello=Canary(worker="w-0-1", local_rank=0),
        )
        held = await asyncio.to_thread(await_sockets, holder, besides=before)

        assert len(held) == 1
        assert held == sockets_of(holder)
        assert await states(coordinator) == ["joining"]
        # It has the connection before it has greeted, and collects nothing until then.
        await asyncio.to_thread(await_that, gc.isenabled, "collection of garbage", patience=LIMIT)
        writer.close()
    await asyncio.to_thread(holder.join, LIMIT)
    assert not holder.is_alive()


def await_sockets(thread: threading.Thread, *, besides: set[str]) -> set[str]:
    """Wait until a thread has sockets that nobody else has."""
    held: set[str] = set()

    def has_some() -> bool:
        held.update(sockets_of(thread) - besides - set(list_sockets()))
        return bool(held)

    await_that(has_some, "socket of its own", patience=LIMIT)
    return held


def sockets_of(thread: threading.Thread) -> set[str]:
    """The sockets in the table of one thread."""
    found = set()
    for entry in Path(f"/proc/self/task/{thread.native_id}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since the folder was read
            found.add(str(entry.readlink()))
    return {link for link in found if link.startswith("sock")}


@pytest.mark.parametrize("token", [b"guess", TOKEN])
async def test_without_a_coordinator_that_takes_it_there_is_none(token: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = free.getsockname()[1]
    async with running() as coordinator:
        port = nobody if token == TOKEN else coordinator.port
        holder = canary.release(
            coordinator=("127.0.0.1", port),
            token=token,
            address="",
            hello=Canary(worker="w-0-1", local_rank=0),
        )
        await asyncio.to_thread(holder.join, LIMIT)

        assert not holder.is_alive()


@pytest.mark.timed
async def test_a_killed_member_is_missed_at_once_although_its_children_hold_its_connections(
    tmp_path: Path,
) -> None:
    def trains_with(*members: str) -> Callable[[Report], bool]:
        return lambda report: report.training and set(report.members) == set(members)

    async with FakeJob(tmp_path, make_work()) as job:
        victim = await job.start(0, keeps_child=True)
        other = await job.start(1)
        child = (await victim.until("child"))["pid"]
        await job.until(trains_with(name_of(0), name_of(1)))

        killed_at = time.time()
        victim.signal(signal.SIGKILL)
        await job.until(trains_with(name_of(1)))

        assert (await other.until("broken"))["at"] - killed_at < SILENCE
        os.kill(child, signal.SIGKILL)
