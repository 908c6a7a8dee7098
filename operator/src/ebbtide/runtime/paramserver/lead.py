"""
The lead: the first server of a map. It brings the map about, then puts all pushes into one order.

Each order goes to the other servers over one connection each, and is carried out here; so all
servers pass through the same states, a push counts everywhere or nowhere, and a copy that is kept
at one place of the order is of one and the same state.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from ebbtide.runtime.errors import CheckpointError
from ebbtide.runtime.paramserver import restoring, saved
from ebbtide.runtime.paramserver.channel import Channel, ChannelClosed, connect
from ebbtide.runtime.paramserver.layout import Layout
from ebbtide.runtime.paramserver.messages import (
    PEER,
    Adopt,
    Apply,
    Commit,
    Cut,
    Drop,
    Fresh,
    Holding,
    Open,
    Opened,
    Piece,
    Ready,
    Snapped,
    Standing,
    Take,
    Taken,
    ToPeer,
)
from ebbtide.runtime.paramserver.optimizers import allow_for_peers, warm_up_steps
from ebbtide.runtime.paramserver.restoring import Claim, Restore
from ebbtide.runtime.paramserver.service import Service
from ebbtide.runtime.paramserver.tickets import Tickets
from ebbtide.runtime.paramserver.trainer import Trainer
from ebbtide.wire.frames import FrameError
from ebbtide.wire.messages import Message, ServerMap, WorkSpec

CONNECT_SECONDS: Final = 3.0
TAKE_SECONDS: Final = 600.0  # a checkpoint of many gigabytes may have to be read
GATHER_SECONDS: Final = 0.5  # how long others may take to come when one who can help is here
_LOOK: Final = 0.05

log = logging.getLogger("ebbtide.server")


class Superseded(Exception):  # noqa: N818 -- says what happened
    """A newer map is there: this one is not brought about any more."""


class Lead:
    """One map, led by this server."""

    def __init__(
        self,
        service: Service,
        servers: ServerMap,
        *,
        work: WorkSpec,
        is_current: Callable[[], bool],
    ) -> None:
        self._service = service
        self._map = servers
        self._names = tuple(seat.server for seat in servers.servers)
        self._is_current = is_current
        self._peers: dict[str, Channel] = {}
        self._book = Tickets(steps=work.steps, max_staleness=work.max_staleness)
        self._commits: dict[str, Commit] = {}  # waiting for the slow
        self._waiting: dict[str, None] = {}  # for a step
        self._lineage = 0
        self._origin = ""
        self._cuts = 0
        self.is_open = False
        self.is_broken = threading.Event()
        self.num_dropped = 0
        self.max_staleness = 0

    @property
    def number(self) -> int:
        """Which map."""
        return self._map.number

    def close(self) -> None:
        """Order nothing any more."""
        with self._service.changed:
            self.is_open = False
            self.is_broken.set()
            self._service.changed.notify_all()
        for channel in self._peers.values():
            channel.close()

    # ------------------------------------------------------------ bringing the map about

    def conduct(self) -> None:
        """Bring the state to the servers of this map; `ChannelClosed` when one does not answer."""
        service = self._service
        have = {service.name: service.adopt(self.number)}
        for seat in (*self._map.servers, *self._map.others):
            if seat.server == service.name:
                continue
            try:
                have[seat.server] = self._adopt(seat.server, f"{seat.address}:{seat.port}")
            except (ChannelClosed, FrameError) as error:
                if seat.server in self._names:
                    raise ChannelClosed(f"{seat.server}: {error}") from error
        holdings = {name: each.holdings for name, each in have.items()}
        layout = next((each.layout for each in have.values() if each.layout is not None), None)
        layout, restore = self._await_decision(layout, holdings)
        standing, times = restore.standing, restore.times
        if restore.origin == "checkpoint":
            standing, times = self._read_checkpoint(layout, holdings)
        elif restore.origin == "initial" and (base := restoring.find_base(holdings)):
            standing = Standing(lineage=base.standing.lineage + 1, version=0)
        names = ", ".join(self._names)
        log.info("map %d: %s, from %s", self.number, names, restore.origin)
        log.info("step %d, %d blocks without a server", standing.step, restore.num_lost)
        self._distribute(layout, restore, standing=standing, times=times)
        self._begin(standing, origin=restore.origin)

    def _adopt(self, name: str, address: str) -> Any:
        host, _, port = address.rpartition(":")
        channel = connect(
            (host, int(port)), token=self._service.token, role=PEER, seconds=CONNECT_SECONDS
        )
        self._peers[name] = channel
        return _ask(channel, Adopt(map=self.number), seconds=CONNECT_SECONDS)

    def _await_decision(
        self, layout: Layout | None, holdings: dict[str, tuple[Holding, ...]]
    ) -> tuple[Layout, Restore]:
        """Wait for the workers that are needed to decide, if any is."""
        service = self._service
        checkpoint = service.shelf.newest_step()
        came_at: float | None = None
        with service.changed:
            while True:
                self._check()
                here = [t for t in service.trainers.values() if t.hello.map == self.number]
                known = layout or next((trainer.hello.layout for trainer in here), None)
                if known is not None:
                    claims = [Claim(client=t.client, held=t.hello.held) for t in here]
                    found = restoring.decide(
                        known,
                        holdings=holdings,
                        claims=claims,
                        servers=self._names,
                        checkpoint=checkpoint,
                    )
                    if found is not None and not found.num_lost and found.origin == "memory":
                        return known, found
                    if here and came_at is None:
                        came_at = time.monotonic()
                    settled = came_at is not None and time.monotonic() - came_at > GATHER_SECONDS
                    if found is not None and settled:
                        return known, found
                service.changed.wait(_LOOK)

    def _check(self) -> None:
        if not self._is_current() or self.is_broken.is_set():
            raise Superseded

    def _read_checkpoint(
        self, layout: Layout, holdings: dict[str, tuple[Holding, ...]]
    ) -> tuple[Standing, tuple[int, ...]]:
        shelf = self._service.shelf
        loaded = shelf.load()
        if loaded is None:
            raise CheckpointError(f"there is no checkpoint under {shelf.path} any more")
        base = restoring.find_base(holdings)
        lineage = max(shelf.newest_lineage(), base.standing.lineage if base else 0) + 1
        standing = saved.standing_of(loaded.tree, lineage=lineage)
        return standing, saved.times_of(layout, loaded.tree)

    def _distribute(
        self, layout: Layout, restore: Restore, *, standing: Standing, times: tuple[int, ...]
    ) -> None:
        seats = (*self._map.servers, *self._map.others)
        order = Take(
            map=self.number,
            servers=self._names,
            addresses={seat.server: f"{seat.address}:{seat.port}" for seat in seats},
            layout=layout,
            standing=standing,
            times=times,
            pieces=(),
            base=restore.base,
            client=restore.client,
            from_checkpoint=restore.origin == "checkpoint",
        )
        orders = {name: _with_pieces(order, restore, target=name) for name in self._names}
        others = [name for name in self._names if name != self._service.name]
        for name in others:
            self._peers[name].send(orders[name])
        answers = [self._service.take(orders[self._service.name])]
        answers += [_read(self._peers[name], Taken, seconds=TAKE_SECONDS) for name in others]
        for answer in answers:
            if answer.error:
                raise ChannelClosed(answer.error)
        fresh = sorted({state for answer in answers for state in answer.fresh})
        if fresh and restore.origin == "workers":
            log.warning("states begin anew for what was lost: %s", ", ".join(fresh))
        self._check()
        for channel in self._peers.values():
            _ask(channel, Open(map=self.number), seconds=CONNECT_SECONDS)

    def _begin(self, standing: Standing, *, origin: str) -> None:
        service = self._service
        with service.changed:
            self._check()
            service.open_map(self.number)
            self._lineage, self._origin = standing.lineage, origin
            self._book.restart(floor=standing.floor, ahead=standing.ahead, version=standing.version)
            self.is_open = True
            for trainer in list(service.trainers.values()):
                self.greet(trainer)
            self._pump()

    # ------------------------------------------------------------ workers

    def greet(self, trainer: Trainer) -> None:
        """Tell a worker that the state is there, as soon as it is."""
        with self._service.lock:
            if not self.is_open or trainer.hello.map != self.number:
                return
            hello = trainer.hello
            if hello.working >= 0 and hello.held.lineage == self._lineage:
                self._book.keep_out(trainer.client, step=hello.working, version=hello.since)
            try:
                trainer.channel.send(Ready(standing=self._standing(), origin=self._origin))
            except ChannelClosed:
                self.lose(trainer.client)

    def want(self, client: str) -> None:
        """Note that a worker is ready for a step."""
        with self._service.lock:
            self._waiting[client] = None
            self._pump()

    def commit(self, client: str, commit: Commit) -> None:
        """Take in that a worker's gradient is there."""
        with self._service.lock:
            self._commits[client] = commit
            self._pump()

    def lose(self, client: str) -> None:
        """Take note that a worker is gone; its step comes again for another."""
        with self._service.lock:
            self._book.drop(client)
            self._commits.pop(client, None)
            self._waiting.pop(client, None)
            self._service.drop(client)
            if self.is_open:
                self._send(Drop(client=client))
                self._pump()

    def snap(self) -> Snapped | None:
        """Let all servers keep a copy of the state of now; None when there is none."""
        with self._service.lock:
            held = self._service.open
            if not self.is_open or held is None:
                return None
            self._cuts += 1
            order = Cut(number=self._cuts)
            self._send(order)
            self._service.cut(order)
            return Snapped(
                map=self.number,
                number=self._cuts,
                standing=self._standing(),
                times=tuple(held.shard.times),
                layout=held.shard.layout,
            )

    # ------------------------------------------------------------ the order

    def _pump(self) -> None:
        """Apply what may be applied and hand out what there is, until nothing more happens."""
        if not self.is_open:
            return
        moved = True
        while moved:
            moved = False
            ready = [c for c in self._commits if self._may_apply(c)]
            for client in sorted(ready, key=self._age, reverse=True)[:1]:
                self._apply(client, self._commits.pop(client))
                moved = True
        for client in list(self._waiting):
            step = self._book.hand_out(client)
            if step is None and not self._book.is_done:
                continue
            del self._waiting[client]
            self._refresh(client, step=-1 if step is None else step)

    def _may_apply(self, client: str) -> bool:
        is_owner = self._book.is_owner(client, self._commits[client].step)
        return not is_owner or not self._book.must_wait(client)

    def _age(self, client: str) -> int:
        is_out = client in self._book.out
        return self._book.staleness(client) if is_out else -1

    def _apply(self, client: str, commit: Commit) -> None:
        if not self._book.is_owner(client, commit.step):
            self.num_dropped += 1
            self._refresh(client, step=-1)
            if commit.wants_more:
                self._waiting[client] = None
            return
        staleness, weight = self._book.staleness(client), self._book.weight(client)
        num, warmth, kind = self._book.num_at_work(client), self._warmth(), self._kind
        self.max_staleness = max(self.max_staleness, staleness)
        self._book.apply(client)
        step = self._book.hand_out(client) if commit.wants_more else None
        if step is None and commit.wants_more and not self._book.is_done:
            self._waiting[client] = None
        order = Apply(
            client=client,
            has_gradient=True,
            entry=self._entry(step=step, applied=True, staleness=staleness),
            weight=weight,
            is_alone=num == 1,
            groups=tuple(allow_for_peers(kind, g, num=num, warmth=warmth) for g in commit.groups),
            skipped=commit.skipped,
            rows=commit.rows,
        )
        self._send(order)
        self._service.apply(order)

    def _refresh(self, client: str, *, step: int) -> None:
        order = Apply(client=client, has_gradient=False, entry=self._entry(step=step))
        self._send(order)
        self._service.apply(order)

    def _entry(self, *, step: int | None, applied: bool = False, staleness: int = 0) -> Fresh:
        return Fresh(
            standing=self._standing(),
            step=-1 if step is None else step,
            is_done=self._book.is_done,
            applied=applied,
            staleness=staleness,
        )

    def _warmth(self) -> float:
        data = {} if self._service.layout is None else self._service.layout.data
        samples, batch = data.get("samples", 0), data.get("global_batch_size", 1)
        lasts = warm_up_steps(steps=self._book.steps, samples=samples, batch=batch)
        return min(1.0, self._book.version / lasts) if lasts else 1.0

    @property
    def _kind(self) -> str:
        layout = self._service.layout
        return "" if layout is None else layout.kind

    def _standing(self) -> Standing:
        return Standing(
            lineage=self._lineage,
            version=self._book.version,
            floor=self._book.floor,
            ahead=tuple(sorted(self._book.ahead)),
        )

    def _send(self, message: Message) -> None:
        """Give an order to the other servers; one that is gone breaks this map."""
        for name in self._names:
            if name == self._service.name:
                continue
            try:
                self._peers[name].send(message)
            except (ChannelClosed, FrameError) as error:
                log.warning("%s is not to be reached: %s", name, error)
                self.is_open = False
                self.is_broken.set()
                with contextlib.suppress(RuntimeError):
                    self._service.changed.notify_all()


def _with_pieces(order: Take, restore: Restore, *, target: str) -> Take:
    pieces = tuple(
        Piece(
            space=move.part.space,
            start=move.part.start,
            stop=move.part.stop,
            server=move.source or "",
        )
        for move in restore.moves
        if move.target == target
    )
    return Take(
        map=order.map,
        servers=order.servers,
        addresses=order.addresses,
        layout=order.layout,
        standing=order.standing,
        times=order.times,
        pieces=pieces,
        base=order.base,
        client=order.client,
        from_checkpoint=order.from_checkpoint,
    )


def _ask(channel: Channel, message: Message, *, seconds: float) -> Any:
    channel.send(message)
    expected = Opened if isinstance(message, Open) else object
    return _read(channel, expected, seconds=seconds)


def _read(channel: Channel, expected: type, *, seconds: float) -> Any:
    answer = channel.read(ToPeer, seconds=seconds)
    if not isinstance(answer, expected):
        raise ChannelClosed(f"a {type(answer).__name__} came: {answer}")
    return answer
