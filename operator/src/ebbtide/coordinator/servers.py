"""
Which parameter servers hold the parameters.

Whoever is in the map stays there; places that are free go to those that are connected, lowest index
first. Every change is a new map. A lost server's place is not kept free: the others take its part
at once, and a replacement gets its share when it comes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ebbtide.coordinator.outbox import Outbox
from ebbtide.coordinator.state import ParameterServer, State
from ebbtide.wire.messages import (
    MAX_NAME,
    Beat,
    Expelled,
    FromServer,
    Gone,
    Heartbeat,
    Refused,
    RegisterServer,
    ServerMap,
    ServerSeat,
    Welcome,
)
from ebbtide.wire.names import GENERATIONS_PER_ATTEMPT

FIRST_MAP_SECONDS: Final = 10.0  # how long the first map waits for all that are wanted
MAX_SERVERS: Final = 1024
MAX_PORT: Final = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Who is to hold the parameters, and why that is news."""

    names: tuple[str, ...]
    reason: str


def register(state: State, link: int, said: RegisterServer, *, now: float, out: Outbox) -> bool:
    """Take in a parameter server, or refuse it; tell whether it is taken in."""
    if said.server in state.expelled:
        out.send(link, Expelled(reason="expelled from this job"))
        out.close(link)
        return False
    if why := _refuse(state, said):
        out.note(f"a server {said.server[:MAX_NAME]!r} is refused: {why}")
        out.send(link, Refused(reason=why))
        out.close(link)
        return False
    former = state.servers.get(said.server)
    if former is not None:
        out.close(former.link)
    since = now if former is None else former.since
    state.servers[said.server] = ParameterServer(link=link, said=said, heard_at=now, since=since)
    state.last_map = max(state.last_map, said.map)
    out.send(link, Welcome(work=state.work))
    if state.server_map is not None:
        out.send(link, state.server_map)
    out.note(f"{said.server} (server, index {said.index}) connects")
    return True


def hear(state: State, link: int, message: FromServer, *, now: float, out: Outbox) -> bool:
    """Take in what a server says; tell whether that may change the map."""
    server = find(state, link)
    if server is None:
        return False
    server.heard_at = now
    if isinstance(message, Heartbeat):
        out.send(link, Beat(duty=False))
        return False
    if isinstance(message, RegisterServer):
        server.said = message
    return True


def find(state: State, link: int) -> ParameterServer | None:
    """Return whose connection this is."""
    return next((server for server in state.servers.values() if server.link == link), None)


def lose(state: State, link: int, *, why: str, out: Outbox) -> bool:
    """Take note that a server's connection is gone; tell whether it was one's."""
    server = find(state, link)
    if server is None:
        return False
    del state.servers[server.said.server]
    out.note(f"{server.said.server} is lost: {why}")
    return True


def tell_gone(state: State, worker: str, *, out: Outbox) -> None:
    """Tell the servers that a worker is gone."""
    for server in state.servers.values():
        out.send(server.link, Gone(worker=worker))


def settle(state: State, *, now: float, out: Outbox) -> None:
    """Make a new map where one is due, and tell everybody."""
    if not state.work.servers or state.finished or now < state.hold_until:
        return
    held = tuple(seat.server for seat in state.server_map.servers) if state.server_map else ()
    change = choose(state.servers, held=held, wanted=state.work.servers)
    if change is None or (not held and _may_still_come(state, change, now=now)):
        return
    state.last_map = max(state.last_map, state.attempt * GENERATIONS_PER_ATTEMPT) + 1
    state.server_map = ServerMap(
        number=state.last_map,
        servers=_seats(state.servers, change.names),
        others=_seats(state.servers, [n for n in state.servers if n not in change.names]),
    )
    out.note(f"server map {state.last_map}: {', '.join(change.names)} ({change.reason})")
    for server in state.servers.values():
        out.send(server.link, state.server_map)
    for process in state.processes():
        out.send(process.link, state.server_map)


def choose(
    servers: Mapping[str, ParameterServer], *, held: Sequence[str], wanted: int
) -> Change | None:
    """Return the next map's servers in order, or None when the present map is right."""
    usable = {name: server for name, server in servers.items() if not server.said.leaving}
    staying = [name for name in held if name in usable][:wanted]
    taken = {usable[name].said.index for name in staying}
    free = sorted(
        (server.said.index, -server.said.attempt, name)
        for name, server in usable.items()
        if name not in staying
    )
    names = list(staying)
    for index, _, name in free:
        if len(names) < wanted and index not in taken:
            names.append(name)
            taken.add(index)
    if not names or tuple(names) == tuple(held):
        return None
    lost = [name for name in held if name not in usable]
    reason = f"{lost[0]} is gone" if lost else f"{len(names)} of {wanted} wanted"
    return Change(names=tuple(names), reason=reason)


def _may_still_come(state: State, change: Change, *, now: float) -> bool:
    """Tell whether the very first map should wait: each later one moves parameters."""
    first = min(server.since for server in state.servers.values())
    return len(change.names) < state.work.servers and now < first + FIRST_MAP_SECONDS


def _seats(servers: Mapping[str, ParameterServer], names: Sequence[str]) -> tuple[ServerSeat, ...]:
    said = [servers[name].said for name in names]
    return tuple(ServerSeat(server=s.server, address=s.address, port=s.port) for s in said)


def _refuse(state: State, said: RegisterServer) -> str:
    checks = (
        (not state.work.servers, "this job trains by all-reduce and has no parameter servers"),
        (
            not said.server or max(len(said.server), len(said.address)) > MAX_NAME,
            "no usable name or address",
        ),
        (not 0 < said.port <= MAX_PORT, f"port {said.port} is impossible"),
        (min(said.index, said.attempt, said.map) < 0, "a negative number"),
        (
            said.map >= (state.attempt + 1) * GENERATIONS_PER_ATTEMPT,
            f"map {said.map} is of a newer coordinator than this one",
        ),
        (
            said.server not in state.servers and len(state.servers) >= MAX_SERVERS,
            "too many servers",
        ),
    )
    return next((why for is_wrong, why in checks if is_wrong), "")
