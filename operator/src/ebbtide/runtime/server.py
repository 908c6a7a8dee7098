"""
One parameter server: `python -m ebbtide.runtime.server`, from its environment until all is done.

Exit code 0 when the work is done, 82 when it was told to go and others have taken over its part.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Final

import torch

from ebbtide.runtime.checkpoint import Shelf
from ebbtide.runtime.environment import Place, read_place, read_token
from ebbtide.runtime.errors import CheckpointError, UsageError
from ebbtide.runtime.link import Link, connect_from
from ebbtide.runtime.paramserver.service import Service
from ebbtide.runtime.paramserver.serving import Serving
from ebbtide.wire import names
from ebbtide.wire.messages import (
    Beat,
    Configure,
    Expelled,
    Gone,
    Heartbeat,
    Message,
    RegisterServer,
    Released,
    ServerMap,
    Stop,
    ToWorker,
    Welcome,
)

GRACE: Final = 600.0
_LOOK: Final = 0.1

log = logging.getLogger("ebbtide.server")


class Presence:
    """What this server says to the coordinator, and what that makes it do."""

    def __init__(self, place: Place, *, service: Service, serving: Serving) -> None:
        self._place = place
        self._service = service
        self._serving = serving
        self._heartbeat = 0.25
        self._grace = GRACE
        self._away_since = time.monotonic()
        self._away_why = ""
        self._is_away = True
        self._leave_by: float | None = None
        self._newest_map = 0
        self.code: int | None = None  # how to end, once that is known
        self.news = threading.Event()

    # ------------------------------------------------------------ for the side thread

    def introduce(self) -> Sequence[Message]:
        """Return what to say first."""
        return [self._register()]

    def beat(self, *, beats: int) -> Heartbeat:
        """Return the heartbeat to send now."""
        return Heartbeat(generation=0, step=self._service.standing.step, beats=beats)

    def grant(self, beat: Beat, *, asked_at: float) -> None:
        """Hear that the coordinator is there; servers hold no duty."""

    def heartbeat_seconds(self) -> float:
        """Return how often to beat."""
        return self._heartbeat

    def away(self, why: str) -> None:
        """Note that there is no connection."""
        if not self._is_away:
            self._is_away, self._away_since = True, time.monotonic()
        if why != self._away_why:
            self._away_why = why
            log.warning("no coordinator: %s", why)
        self.wait()

    def wait(self) -> None:
        """Give up when the coordinator has stayed away for too long."""
        if self._is_away and time.monotonic() - self._away_since > self._grace:
            log.warning("no coordinator for %.0f s", self._grace)
            self._end(names.EXIT_LEFT)

    def hear(self, message: ToWorker) -> None:
        """Take in what the coordinator says."""
        match message:
            case Welcome() | Configure():
                self._is_away = False
                self._heartbeat = message.work.heartbeat
                self._grace = message.work.coordinator_grace
                self._serving.configure(message.work)
            case ServerMap():
                self._newest_map = max(self._newest_map, message.number)
                self._serving.rearrange(message)
            case Gone():
                self._serving.lose_worker(message.worker)
            case Stop():
                self.leave(seconds=message.seconds)
            case Released():
                self._end(names.EXIT_DONE)
            case Expelled():
                self._end(names.EXIT_LEFT)
            case _:
                log.warning("a %s was not expected", type(message).__name__)

    # ------------------------------------------------------------ leaving

    def attach(self, link: Link) -> None:
        """Know the connection, to say something over it."""
        self._link = link

    def leave(self, *, seconds: float) -> None:
        """Begin to leave: the others take over what is here, if there is anybody and time."""
        if self._leave_by is None:
            log.info("leaving within %.1f s", seconds)
            self._leave_by = time.monotonic() + seconds
            self._link.send(self._register())
        self.news.set()

    def is_over(self) -> bool:
        """Tell whether this process should end now."""
        if self.code is None and self._leave_by is not None:
            is_empty = self._service.open is None
            if is_empty or time.monotonic() >= self._leave_by - 2 * _LOOK:
                self._end(names.EXIT_LEFT)
        return self.code is not None

    def _end(self, code: int) -> None:
        if self.code is None:
            self.code = code
        self.news.set()

    def _register(self) -> RegisterServer:
        host, port = self._serving.address
        return RegisterServer(
            server=self._place.worker,
            index=self._place.index,
            attempt=self._place.attempt,
            address=host,
            port=port,
            map=self._newest_map,
            leaving=self._leave_by is not None,
        )


def run(place: Place, *, token: bytes, may_share: bool) -> int:
    """Serve until the work is done or this server has to go; return the exit code."""
    torch.set_num_threads(max(1, torch.get_num_threads()))
    service = Service(
        place.worker, token=token, shelf=Shelf(place.checkpoint_path, owner=place.worker)
    )
    serving = Serving(service, host=place.address, may_share=may_share)
    presence = Presence(place, service=service, serving=serving)
    link = Link(
        coordinator=place.coordinator,
        token=token,
        ear=presence,
        connect=connect_from(place.address),
        side="server",
    )
    presence.attach(link)

    def stop(_number: int, _frame: FrameType | None) -> None:
        presence.leave(seconds=place.notice_seconds)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    serving.start()
    link.start()
    log.info("%s listens on %s port %d", place.worker, *serving.address)
    while not presence.is_over():
        presence.news.wait(_LOOK)
        presence.news.clear()
    link.close()
    serving.close()
    return presence.code or names.EXIT_DONE


def main(environment: Mapping[str, str]) -> int:
    """Run a server, and return the exit code."""
    logging.basicConfig(
        level=logging.INFO, stream=sys.stdout, format="%(asctime)s server: %(message)s"
    )
    try:
        place = read_place(environment)
        token = read_token(place.token_file)
        may_share = environment.get(names.ENV_SHARE_MEMORY, "1") != "0"
        return run(place, token=token, may_share=may_share)
    except (UsageError, CheckpointError) as error:
        sys.stderr.write(f"ebbtide server: {error}\n")
        return names.EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main(os.environ))
