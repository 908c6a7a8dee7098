"""Which parameter servers hold the parameters, event by event."""

from typing import Any

import pytest

from ebbtide.coordinator import servers
from ebbtide.coordinator.ledger import Ledger
from ebbtide.coordinator.outbox import Outbox
from ebbtide.coordinator.servers import FIRST_MAP_SECONDS
from ebbtide.wire.messages import (
    Beat,
    Call,
    Expelled,
    Gone,
    Heartbeat,
    Message,
    Refused,
    Register,
    RegisterServer,
    ServerMap,
    Stop,
    Welcome,
    WorkSpec,
)

WORK = WorkSpec(
    job="tests/served", steps=100, global_batch_size=8, min_replicas=1, desired=2, servers=2
)


class Bench:
    """A ledger and the servers that connect to it; the clock is turned by hand."""

    def __init__(self, **work: Any) -> None:
        self.now = 100.0
        fields = {name: getattr(WORK, name) for name in WORK.__struct_fields__}
        self.ledger = Ledger(
            attempt=1, work=WorkSpec(**{**fields, **work}), now=self.now, epoch=0.0
        )
        self.told: dict[int, list[Message]] = {}
        self.closed: list[int] = []

    def carry_out(self, out: Outbox) -> None:
        for send in out.sends:
            self.told.setdefault(send.link, []).append(send.message)
        self.closed.extend(out.closes)

    def join(self, link: int, *, index: int | None = None, attempt: int = 1, **more: Any) -> None:
        said = server(link if index is None else index, attempt=attempt, **more)
        self.carry_out(self.ledger.register_server(link, said, now=self.now))

    def join_worker(self, link: int, name: str) -> None:
        said = Register(
            worker=name,
            index=link,
            attempt=1,
            local_rank=0,
            processes=1,
            address="10.0.0.1",
            store_port=1,
        )
        self.carry_out(self.ledger.register(link, said, now=self.now))

    def lose(self, link: int) -> None:
        self.carry_out(self.ledger.lose(link, now=self.now))

    def hear(self, link: int, message: RegisterServer | Heartbeat) -> None:
        self.carry_out(self.ledger.hear_server(link, message, now=self.now))

    def run(self, seconds: float, *, alive: tuple[int, ...] = ()) -> None:
        """Let time pass; those alive go on beating."""
        until = self.now + seconds
        while self.now < until:
            self.now += 0.25
            for link in alive:
                self.hear(link, Heartbeat(generation=0, step=0))
            self.carry_out(self.ledger.tick(now=self.now))

    def call(self, name: str, **fields: Any) -> str:
        asked = Call(id=1, name=name, **fields)
        error, out = self.ledger.call(asked, now=self.now)
        self.carry_out(out)
        return error

    def maps(self, link: int) -> list[tuple[str, ...]]:
        """The maps that somebody was told, by names."""
        return [
            tuple(seat.server for seat in message.servers)
            for message in self.told.get(link, [])
            if isinstance(message, ServerMap)
        ]

    def map(self) -> tuple[str, ...]:
        """Who holds the parameters now."""
        newest = self.ledger.state.server_map
        return () if newest is None else tuple(seat.server for seat in newest.servers)


def server(index: int, *, attempt: int = 1, **more: Any) -> RegisterServer:
    return RegisterServer(
        server=f"s-{index}-{attempt}",
        index=index,
        attempt=attempt,
        address="10.0.1.1",
        port=4000 + index,
        **more,
    )


def test_the_first_map_waits_for_all_that_are_wanted() -> None:
    bench = Bench()

    bench.join(1)
    bench.run(1.0, alive=(1,))
    assert bench.map() == ()

    bench.join(0, index=0)
    assert bench.map() == ("s-0-1", "s-1-1")


def test_the_first_map_does_not_wait_for_ever() -> None:
    bench = Bench()

    bench.join(1)
    bench.run(FIRST_MAP_SECONDS + 1, alive=(1,))

    assert bench.map() == ("s-1-1",)


def test_everybody_is_told_and_so_is_who_comes_later() -> None:
    bench = Bench()
    bench.join_worker(7, "w-0-1")

    bench.join(1, index=0)
    bench.join(2, index=1)
    bench.join_worker(8, "w-1-1")

    assert bench.maps(1) == bench.maps(2) == bench.maps(7) == bench.maps(8) != []


def test_nothing_is_trained_before_there_is_a_map() -> None:
    bench = Bench()
    bench.join_worker(7, "w-0-1")

    assert bench.ledger.state.current is None
    assert bench.map() == ()


def test_the_others_take_over_at_once_from_a_lost_server() -> None:
    bench = Bench()
    bench.join(1, index=0)
    bench.join(2, index=1)

    bench.lose(1)

    assert bench.map() == ("s-1-1",)
    bench.join(3, index=0, attempt=2)
    assert bench.map() == ("s-1-1", "s-0-2")


def test_numbers_of_maps_only_grow_also_over_a_restart() -> None:
    bench = Bench()
    bench.join(1, index=0)
    bench.join(2, index=1)
    first = bench.ledger.state.last_map
    bench.lose(1)
    assert bench.ledger.state.last_map == first + 1

    again = Bench()
    again.join(1, index=0, map=1_000_007)
    again.join(2, index=1, map=1_000_009)

    assert again.ledger.state.last_map == 1_000_010


def test_a_silent_server_is_lost_within_about_a_second() -> None:
    bench = Bench()
    bench.join(1, index=0)
    bench.join(2, index=1)

    bench.run(1.5, alive=(2,))

    assert bench.map() == ("s-1-1",)
    assert 1 in bench.closed


def test_the_last_map_stands_when_nobody_is_left() -> None:
    bench = Bench()
    bench.join(1, index=0)
    bench.join(2, index=1)

    bench.lose(1)
    bench.lose(2)

    assert bench.map() == ("s-1-1",)
    bench.join(3, index=0, attempt=2)
    assert bench.map() == ("s-0-2",)


def test_a_change_of_the_number_wanted_is_a_new_map_that_names_who_still_has_a_part() -> None:
    bench = Bench(servers=3)
    for index in range(3):
        bench.join(index + 1, index=index)
    assert bench.map() == ("s-0-1", "s-1-1", "s-2-1")

    work = bench.ledger.state.work
    fields = {name: getattr(work, name) for name in work.__struct_fields__}
    assert bench.call("configure", work=WorkSpec(**{**fields, "servers": 2})) == ""

    newest = bench.ledger.state.server_map
    assert newest is not None
    assert bench.map() == ("s-0-1", "s-1-1")
    assert [seat.server for seat in newest.others] == ["s-2-1"]


def test_servers_cannot_be_turned_on_or_off() -> None:
    bench = Bench()
    work = bench.ledger.state.work
    fields = {name: getattr(work, name) for name in work.__struct_fields__}

    error = bench.call("configure", work=WorkSpec(**{**fields, "servers": 0}))

    assert error == "servers cannot change from 2 to 0"


def test_one_that_leaves_is_not_of_the_next_map_but_known_to_it() -> None:
    bench = Bench()
    bench.join(1, index=0)
    bench.join(2, index=1)

    bench.hear(2, server(1, leaving=True))

    newest = bench.ledger.state.server_map
    assert newest is not None
    assert bench.map() == ("s-0-1",)
    assert [seat.server for seat in newest.others] == ["s-1-1"]


def test_of_two_attempts_of_one_index_the_one_that_holds_a_part_stays() -> None:
    bench = Bench()
    bench.join(1, index=0)
    bench.join(2, index=1)

    bench.join(3, index=0, attempt=2)

    assert bench.map() == ("s-0-1", "s-1-1")
    bench.lose(1)
    assert bench.map() == ("s-1-1", "s-0-2")


def test_servers_hear_which_worker_is_gone() -> None:
    bench = Bench()
    bench.join(1, index=0)
    bench.join_worker(7, "w-0-1")

    bench.lose(7)

    assert Gone(worker="w-0-1") in bench.told[1]


def test_a_heartbeat_is_answered_and_gives_no_duty() -> None:
    bench = Bench()
    bench.join(1, index=0)

    bench.hear(1, Heartbeat(generation=0, step=3))

    assert bench.told[1][0] == Welcome(work=bench.ledger.state.work)
    assert bench.told[1][-1] == Beat(duty=False)


def test_the_operator_may_stop_and_expel_a_server() -> None:
    bench = Bench()
    bench.join(1, index=0)
    bench.join(2, index=1)

    assert bench.call("stop", worker="s-0-1", seconds=5.0) == ""
    assert bench.call("expel", worker="s-1-1") == ""

    assert any(isinstance(message, Stop) for message in bench.told[1])
    assert any(isinstance(message, Expelled) for message in bench.told[2])
    assert 2 in bench.closed
    bench.join(3, index=1)
    assert isinstance(bench.told[3][0], Expelled)


def test_the_report_names_the_servers_and_who_of_them_counts() -> None:
    bench = Bench()
    bench.join(1, index=0)
    bench.join(2, index=1)
    bench.join(3, index=2)

    report = bench.ledger.report()

    assert [(each.server, each.in_map) for each in report.servers] == [
        ("s-0-1", True),
        ("s-1-1", True),
        ("s-2-1", False),
    ]
    assert report.server_map == bench.ledger.state.last_map


@pytest.mark.parametrize(
    ("said", "why"),
    [
        pytest.param(
            RegisterServer(server="", index=0, attempt=1, address="a", port=1),
            "no usable name or address",
            id="no name",
        ),
        pytest.param(
            RegisterServer(server="s", index=0, attempt=1, address="a", port=70_000),
            "port 70000 is impossible",
            id="port",
        ),
        pytest.param(
            RegisterServer(server="s", index=-1, attempt=1, address="a", port=1),
            "a negative number",
            id="negative",
        ),
        pytest.param(
            RegisterServer(server="s", index=0, attempt=1, address="a", port=1, map=2_000_001),
            "map 2000001 is of a newer coordinator than this one",
            id="newer",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(said: RegisterServer, why: str) -> None:
    bench = Bench()

    bench.carry_out(bench.ledger.register_server(1, said, now=bench.now))

    assert bench.told[1] == [Refused(reason=why)]
    assert bench.closed == [1]


def test_a_job_of_all_reduce_takes_no_servers() -> None:
    bench = Bench(servers=0)

    bench.join(1, index=0)

    assert bench.told[1] == [
        Refused(reason="this job trains by all-reduce and has no parameter servers")
    ]


def test_a_right_map_is_left_as_it_is() -> None:
    bench = Bench()
    bench.join(1, index=0)
    bench.join(2, index=1)

    change = servers.choose(bench.ledger.state.servers, held=("s-0-1", "s-1-1"), wanted=2)

    assert change is None
