"""
Torch's rendezvous, answered by the coordinator: it says who meets, and pushes every change.

No state of it lives in a worker, so no worker's loss can close it. For each generation the first
member's agent lends a key-value store, under a prefix that no other generation has; what breaks
there is only that generation.
"""

import socket
from datetime import timedelta
from typing import Final

from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]  # not declared
from torch.distributed.elastic.rendezvous.api import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousStoreInfo,
)
from typing_extensions import override

from ebbtide.runtime.environment import Place, read_token
from ebbtide.runtime.errors import LeaveTraining
from ebbtide.runtime.launching.options import BACKEND, run_id
from ebbtide.runtime.membership import Identity, Leave, Membership
from ebbtide.wire import names
from ebbtide.wire.messages import Form, Reform, Released

MEETING: Final = timedelta(seconds=10)
"""For all members of a generation to meet at its store. They are told at the same moment."""
LISTEN: Final = 1024


class Finished(SystemExit):
    """Everybody's scripts have ended well: there is nothing left to run."""

    def __init__(self) -> None:
        super().__init__(names.EXIT_DONE)


class Rendezvous(RendezvousHandler):
    """One worker's way to meet the others."""

    def __init__(self, place: Place) -> None:
        """Listen for the generations whose store this worker will lend; connect to nobody yet."""
        self._place = place
        listener = socket.create_server((place.address, 0), backlog=LISTEN)
        port: int = listener.getsockname()[1]
        self._lent = TCPStore(
            place.address,
            port,
            is_master=True,
            wait_for_workers=False,
            timeout=MEETING,
            master_listen_fd=listener.detach(),
        )
        self.membership = Membership(
            identify(place, store_port=port),
            token=read_token(place.token_file),
            coordinator=place.coordinator,
            on_break=lambda _: None,  # the agent's loop looks for itself
        )
        self._has_started = False
        self._offer: Form | None = None
        self.generation = 0
        self.failures = 0  # of scripts, over the whole job: the same number on every member

    # ------------------------------------------------------------ as torch's agent asks

    @override
    def get_backend(self) -> str:
        return BACKEND

    @override
    def get_run_id(self) -> str:
        return run_id(self._place.job)

    @override
    def next_rendezvous(self) -> RendezvousInfo:
        """Wait until the coordinator puts this worker into a generation, and meet the others."""
        self.start()
        while True:
            form = self._next_form()
            self.generation = form.generation
            try:
                return self._meet(form)
            except RuntimeError as error:  # torch's for a store that cannot be reached, or is late
                self.membership.broken(generation=form.generation, error=f"no meeting: {error}")

    @override
    def num_nodes_waiting(self) -> int:
        """Return 1 when this generation is to end, for whatever reason; torch then starts over."""
        return int(self.membership.reform_pending(self.generation))

    @override
    def is_closed(self) -> bool:
        return False  # what one worker does never closes it for the others

    @override
    def set_closed(self) -> None:
        """Do nothing: the coordinator alone knows when the work is done."""

    @override
    def shutdown(self) -> bool:
        """Close the connection."""
        self.membership.close()
        return True

    # ------------------------------------------------------------ as our agent asks

    @property
    def worker(self) -> str:
        """This worker's name."""
        return self._place.worker

    def start(self) -> None:
        """Connect to the coordinator, once."""
        if not self._has_started:
            self._has_started = True
            self.membership.start()

    def await_others(self) -> bool:
        """
        Say that this worker's scripts ended well; wait until everybody's did.

        False when the others need one more generation: what they lost is done again by all. Raises
        `LeaveTraining` when this worker must go.
        """
        self.membership.reached(step=0)
        try:
            self._offer = self._await_form()
        except Finished:
            return True
        return False

    def ending(self, *, seconds: float = 0.0) -> Reform | None:
        """Return the word that ended this generation, waiting at most so long for it."""
        return self.membership.ending(self.generation, seconds=seconds)

    # ------------------------------------------------------------ inside

    def _next_form(self) -> Form:
        if self._offer is None:
            self.membership.idle(generation=self.generation, step=0, holds_state=False)
            self._offer = self._await_form()
        form, self._offer = self._offer, None
        return form

    def _await_form(self) -> Form:
        """Wait for the coordinator's word; without one for too long it is to leave."""
        match self.membership.wait_for_form():
            case Form() as form:
                return form
            case Leave() as leave:
                raise LeaveTraining(leave.reason)
            case Released() | None:
                raise Finished

    def _meet(self, form: Form) -> RendezvousInfo:
        workers = [member.worker for member in form.members]
        rank, host = workers.index(self._place.worker), form.members[0]
        at_host = TCPStore(host.address, host.store_port, is_master=False, timeout=MEETING)
        store = PrefixStore(f"generation/{form.generation}", at_host)
        info = RendezvousStoreInfo.build(rank, store, self._place.address)
        self.failures = agree(store, rank=rank, world=len(workers), mine=self.failures)
        self.membership.formed(generation=form.generation, step=0)
        return RendezvousInfo(store, rank, len(workers), info)


def agree(store: PrefixStore, *, rank: int, world: int, mine: int) -> int:
    """Return the largest number that any member brought; the first one reads them all."""
    store.set(f"failures/{rank}", str(mine))
    if rank == 0:
        brought = store.multi_get([f"failures/{other}" for other in range(world)])
        store.set("failures", str(max(int(number) for number in brought)))
    return int(store.get("failures"))


def identify(place: Place, *, store_port: int) -> Identity:
    """Say who this worker is: to the coordinator an agent is one process, whatever it runs."""
    return Identity(
        worker=place.worker,
        index=place.index,
        attempt=place.attempt,
        local_rank=0,
        processes=1,
        address=place.address,
        store_port=store_port,
        pool=place.pool,
        node=place.node,
        gpu=place.gpu,
    )
