"""The server's connections: who may say what, one thread for each; and the thread that conducts."""

import contextlib
import logging
import socket
import threading
import time
from functools import partial
from typing import Final

from ebbtide.runtime.errors import CheckpointError
from ebbtide.runtime.paramserver.channel import Channel, ChannelClosed, welcome
from ebbtide.runtime.paramserver.layout import compare, validate
from ebbtide.runtime.paramserver.lead import Lead, Superseded
from ebbtide.runtime.paramserver.messages import (
    PEER,
    TRAINER,
    Adopt,
    Apply,
    Bytes,
    Commit,
    Cut,
    Drop,
    FromLead,
    FromReader,
    Hello,
    Mismatch,
    Open,
    Opened,
    Read,
    Snap,
    Stage,
    Staged,
    Take,
    ToServer,
    Want,
)
from ebbtide.runtime.paramserver.service import Service
from ebbtide.runtime.paramserver.trainer import Trainer
from ebbtide.wire.frames import FrameError
from ebbtide.wire.greeting import MAX_STRANGERS, Strangers
from ebbtide.wire.messages import Refused, ServerMap, WorkSpec

MAX_CONNECTIONS: Final = 4096  # a thread each
HELLO_SECONDS: Final = 20.0  # a description of ten thousand parameters takes its time
RETRY_SECONDS: Final = 0.2  # between two tries at one map, or at taking a connection
_LOOK: Final = 0.1

log = logging.getLogger("ebbtide.server")


class Serving:
    """Accepts, listens, and leads when it is told to."""

    def __init__(
        self, service: Service, *, host: str, port: int = 0, may_share: bool = True
    ) -> None:
        self._service = service
        self._may_share = may_share
        self._listener = socket.create_server((host, port), backlog=256)
        self.address = (host, int(self._listener.getsockname()[1]))
        self._channels: set[Channel] = set()
        self._strangers: Strangers[Channel] = Strangers(limit=MAX_STRANGERS)
        self._door = threading.Lock()  # over both
        self._lead: Lead | None = None
        self._wanted: ServerMap | None = None
        self._work: WorkSpec | None = None
        self._is_closed = False
        self._peer: Channel | None = None  # the lead's connection

    @property
    def lead(self) -> Lead | None:
        """What this server leads, if it does."""
        return self._lead

    def start(self) -> None:
        """Begin."""
        for target in (self._accept, self._conduct):
            threading.Thread(target=target, name="ebbtide-server", daemon=True).start()

    def close(self) -> None:
        """End all connections."""
        with self._service.changed:
            self._is_closed = True
            self._service.changed.notify_all()
        with self._door:
            channels = list(self._channels)
        if self._lead is not None:
            self._lead.close()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for channel in channels:
            channel.close()

    # ------------------------------------------------------------ what the coordinator says

    def configure(self, work: WorkSpec) -> None:
        """Hear what the job asks for."""
        with self._service.changed:
            self._work = work

    def rearrange(self, servers: ServerMap) -> None:
        """Hear of a new map."""
        with self._service.changed:
            if self._wanted is None or servers.number > self._wanted.number:
                self._wanted = servers
                self._service.changed.notify_all()

    def lose_worker(self, worker: str) -> None:
        """Hear that a worker is gone: whatever it still says counts nothing."""
        with self._service.lock:
            trainers = list(self._service.trainers.values())
            gone = [t for t in trainers if t.hello.worker.rpartition("/")[0] == worker]
        for trainer in gone:
            trainer.channel.close()  # whoever reads it does the rest

    # ------------------------------------------------------------ leading

    def _conduct(self) -> None:
        while (wanted := self._await_map()) is not None:
            lead = self._lead = Lead(
                self._service,
                wanted[0],
                work=wanted[1],
                is_current=partial(self._is_newest, wanted[0].number),
            )
            try:
                lead.conduct()
            except Superseded:
                lead.close()
            except (ChannelClosed, FrameError, CheckpointError) as error:
                log.warning("map %d is not there yet: %s", lead.number, error)
                lead.close()
                time.sleep(RETRY_SECONDS)

    def _await_map(self) -> tuple[ServerMap, WorkSpec] | None:
        """Wait until there is a map to bring about; None when all is over."""
        service = self._service
        with service.changed:
            while not self._is_closed:
                wanted, lead, work = self._wanted, self._lead, self._work
                is_mine = wanted and wanted.servers and wanted.servers[0].server == service.name
                if lead is not None and (lead.is_broken.is_set() or not is_mine):
                    lead.close()
                    self._lead = lead = None
                if wanted and work and is_mine and (lead is None or lead.number < wanted.number):
                    if lead is not None:
                        lead.close()
                    return wanted, work
                service.changed.wait(_LOOK)
        return None

    def _is_newest(self, number: int) -> bool:
        return not self._is_closed and self._wanted is not None and self._wanted.number == number

    # ------------------------------------------------------------ connections

    def _accept(self) -> None:
        """Take connections until all is over, whatever is short meanwhile."""
        is_short = False
        while not self._is_closed:
            try:
                self._take(self._listener.accept()[0])
            except ConnectionError as error:
                log.info("a connection ended before it began: %s", error)
            except (OSError, RuntimeError) as error:  # no descriptor, memory or thread is left
                if not is_short and not self._is_closed:
                    log.warning("no connection can be taken until this passes: %s", error)
                is_short = True
                time.sleep(RETRY_SECONDS)
            else:
                if is_short:
                    log.warning("connections are taken again")
                is_short = False

    def _take(self, sock: socket.socket) -> None:
        """Begin to serve a connection, if there is a place for it."""
        with contextlib.ExitStack() as undo:
            undo.callback(sock.close)
            channel = Channel(sock)
            with self._door:
                loser: Channel | None = channel
                if len(self._channels) < MAX_CONNECTIONS:
                    loser = self._strangers.admit(channel, host=channel.host)
                if loser is not channel:
                    self._channels.add(channel)
            if loser is channel:
                channel.send(Refused(reason="too many connections"))
                return
            if loser is not None:
                loser.close()  # whoever reads it does the rest
            undo.callback(self._forget, channel)
            threading.Thread(target=self._serve, args=(channel,), daemon=True).start()
            undo.pop_all()

    def _forget(self, channel: Channel) -> None:
        with self._door:
            self._channels.discard(channel)
            self._strangers.dismiss(channel)

    def _serve(self, channel: Channel) -> None:
        try:
            role = welcome(channel, token=self._service.token, attempt=1)
            with self._door:
                self._strangers.dismiss(channel)
            if role == TRAINER:
                self._serve_trainer(channel)
            elif role == PEER:
                self._serve_lead(channel)
            else:
                self._serve_reader(channel)
        except (ChannelClosed, FrameError) as error:
            log.info("a connection ended: %s", error)
        except Exception:  # outermost: one connection must not end the server
            log.exception("a connection failed")
        finally:
            self._forget(channel)
            channel.close()

    # ------------------------------------------------------------ a worker process

    def _serve_trainer(self, channel: Channel) -> None:
        hello = channel.read(Hello, seconds=HELLO_SECONDS)
        service = self._service
        ours = service.layout
        if ours is not None and (differs := compare(ours, hello.layout)):
            channel.send(Mismatch(reason=differs))
            return
        why = validate(hello.layout)
        if why:
            channel.send(Refused(reason=why))
            return
        trainer = Trainer(channel, hello, may_share=self._may_share)
        if why := service.admit(trainer):
            channel.send(Refused(reason=why))
            return
        try:
            trainer.greet()
            if (lead := self._lead) is not None:
                lead.greet(trainer)
            while True:
                self._hear(trainer, channel.read(ToServer))
        finally:
            trainer.close()
            lead = self._lead
            if lead is not None and lead.number == hello.map:
                lead.lose(trainer.client)
            elif lead is not None:
                service.drop(trainer.client)

    def _hear(self, trainer: Trainer, message: Stage | Commit | Want | Bytes | Hello) -> None:
        lead = self._lead
        match message:
            case Stage():
                trainer.read_stage(message, self._service.parts())
                trainer.channel.send(Staged(step=message.step))
            case Commit() if lead is not None:
                lead.commit(trainer.client, message)
            case Want() if lead is not None:
                lead.want(trainer.client)
            case Bytes():
                trainer.read_given(message)
            case _:
                raise FrameError(f"a {type(message).__name__} is not expected here")

    # ------------------------------------------------------------ the lead, a reader

    def _serve_lead(self, channel: Channel) -> None:
        former, self._peer = self._peer, channel
        if former is not None:
            former.close()
        service = self._service
        while True:
            message = channel.read(FromLead)
            if channel is not self._peer:
                return
            match message:
                case Adopt():
                    channel.send(service.adopt(message.map))
                case Take():
                    channel.send(service.take(message))
                case Open():
                    service.open_map(message.map)
                    channel.send(Opened())
                case Apply():
                    service.apply(message)
                case Drop():
                    service.drop(message.client)
                case Cut():
                    service.cut(message)
                case _:
                    raise FrameError(f"a {type(message).__name__} is not expected here")

    def _serve_reader(self, channel: Channel) -> None:
        while True:
            message = channel.read(FromReader)
            match message:
                case Read():
                    answer, tensors = self._service.read(message)
                    channel.send(answer, tensors)
                case Snap():
                    lead = self._lead
                    snapped = None if lead is None else lead.snap()
                    channel.send(snapped or Refused(reason="there is no open state here"))
                case _:
                    raise FrameError(f"a {type(message).__name__} is not expected here")
