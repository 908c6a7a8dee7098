"""The side thread against unresolved names, changing addresses and old coordinators."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ebbtide.coordinator.server import Server
from ebbtide.coordinator.settings import Settings
from ebbtide.runtime.link import Streams
from ebbtide.runtime.membership import Identity, Leave, Membership, MustLeave
from ebbtide.wire.messages import Form
from support.fake_job import TOKEN, make_work

LIMIT = 10.0


class Background:
    """Coordinators on an event loop in a thread; each has a port of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._stops: dict[int, tuple[asyncio.Event, asyncio.Task[None]]] = {}
        self._thread.start()

    def start(self, *, attempt: int, grace: float = 30.0) -> int:
        async def begin() -> int:
            work = make_work(desired=1, coordinator_grace=grace)
            server = Server(
                Settings(attempt=attempt, work=work, token=TOKEN, host="127.0.0.1", port=0)
            )
            await server.start()
            stop = asyncio.Event()
            self._stops[server.port] = stop, asyncio.create_task(server.run(stop))
            return server.port

        return asyncio.run_coroutine_threadsafe(begin(), self._loop).result(LIMIT)

    def stop(self, port: int) -> None:
        async def end() -> None:
            stop, task = self._stops.pop(port)
            stop.set()
            await task

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(LIMIT)

    def close(self) -> None:
        for port in list(self._stops):
            self.stop(port)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT)
        self._loop.close()


class Names:
    """A resolver that answers what it is told to, and counts how often it was asked."""

    def __init__(self) -> None:
        self.port: int | None = None
        self.asked = 0
        self.changed = threading.Condition()

    async def connect(self, host: str, port: int) -> Streams:
        with self.changed:
            self.asked += 1
            self.changed.notify_all()
            target = self.port
        assert (host, port) == ("job-coordinator.default", 7411)
        if target is None:
            raise OSError("Name or service not known")
        return await asyncio.open_connection("127.0.0.1", target)

    def await_asked(self, times: int) -> None:
        with self.changed:
            count = self.asked + times
            assert self.changed.wait_for(lambda: self.asked >= count, LIMIT)


@pytest.fixture
def background() -> Iterator[Background]:
    made = Background()
    yield made
    made.close()


@contextmanager
def member(
    names: Names, *, grace: float = 30.0, on_break: Callable[[int], None] = lambda _: None
) -> Iterator[Membership]:
    made = Membership(
        Identity(
            worker="w-0-1",
            index=0,
            attempt=1,
            local_rank=0,
            processes=1,
            address="127.0.0.1",
            store_port=1,
        ),
        token=TOKEN,
        coordinator="job-coordinator.default:7411",
        on_break=on_break,
        grace=grace,
        connect=names.connect,
    )
    try:
        yield made
    finally:
        made.close()


def form(membership: Membership) -> Form:
    """Hold still, take the next generation, and stand in it."""
    membership.idle(generation=0, step=0, holds_state=False)
    found = membership.wait_for_form(timeout=LIMIT)
    assert isinstance(found, Form)
    membership.formed(generation=found.generation, step=found.step)
    return found


def test_b031_a_name_that_does_not_resolve_yet_is_asked_for_again(background: Background) -> None:
    names = Names()
    with member(names) as membership:
        started = threading.Thread(target=membership.start)
        started.start()
        names.await_asked(4)
        assert started.is_alive()

        names.port = background.start(attempt=1)
        started.join(LIMIT)

        assert not started.is_alive()
        assert form(membership).generation == 1_000_001


def test_b031_a_name_that_answers_before_the_port_listens_is_tried_again(
    background: Background,
) -> None:
    names = Names()
    names.port = 9  # discard: nobody listens there
    with member(names) as membership:
        started = threading.Thread(target=membership.start)
        started.start()
        names.await_asked(3)

        names.port = background.start(attempt=1)
        started.join(LIMIT)

        assert form(membership).source == "initial"


def test_b031_a_changed_address_is_found_at_the_next_try(background: Background) -> None:
    names = Names()
    names.port = first = background.start(attempt=1)
    broken: list[int] = []
    with member(names, on_break=broken.append) as membership:
        membership.start()
        number = form(membership).generation

        names.port = None
        background.stop(first)
        names.await_asked(3)
        names.port = background.start(attempt=2)
        names.await_asked(1)

        membership.progress(step=1)
        assert not membership.reform_pending(number)
        assert broken == []
        assert membership.leave_requested() is None


def test_gives_up_after_the_grace_and_says_why(background: Background) -> None:
    with member(Names(), grace=0.5) as membership, pytest.raises(MustLeave) as caught:
        membership.start()

    assert "Name or service not known" in caught.value.leave.reason


def test_an_older_coordinator_is_not_followed_back(background: Background) -> None:
    names = Names()
    old, names.port = background.start(attempt=1, grace=1.5), background.start(attempt=2, grace=1.5)
    with member(names) as membership:
        membership.start()
        membership.idle(generation=0, step=0, holds_state=False)

        new, names.port = names.port, old
        background.stop(new)
        found = membership.wait_for_form(timeout=LIMIT)

        assert isinstance(found, Leave)
        assert "older" in found.reason


def test_a_leaver_without_a_coordinator_saves_when_it_might_be_the_last(
    background: Background,
) -> None:
    names = Names()
    names.port = port = background.start(attempt=1)
    with member(names) as membership:
        membership.start()
        number = form(membership).generation
        membership.progress(step=7)
        names.port = None
        background.stop(port)
        names.await_asked(1)

        membership.request_leave(reason="SIGTERM", seconds=2.0)
        assert membership.reform_pending(number)
        membership.idle(generation=number, step=7, holds_state=True)
        leave = membership.wait_for_form(timeout=LIMIT)

        assert isinstance(leave, Leave)
        assert leave.save
        assert leave.seconds_left > 1.0


def test_duty_ends_with_its_time_when_the_coordinator_is_gone(background: Background) -> None:
    names = Names()
    names.port = port = background.start(attempt=1)
    with member(names) as membership:
        membership.start()
        form(membership)
        waiting = threading.Event()
        until(membership.duty, waiting)

        names.port = None
        background.stop(port)

        until(lambda: not membership.duty(), waiting)


def until(is_so: Callable[[], bool], event: threading.Event) -> None:
    """Look again every 10 ms; the lease has no event of its own."""
    for _ in range(1000):
        if is_so():
            return
        event.wait(0.01)
    raise AssertionError("it never came to be")
