"""
The process group of one generation, and the only module that knows how torch makes one.

`Group` is formed, used and broken again and again in one process. All that can go wrong in a
collective comes out as `CollectiveBroken`. `break_` may be called from any thread and ends a
collective that another thread is blocked in; it names the generation, so that a late order can't
hurt the next one.
"""

import contextlib
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import torch.distributed as dist
from torch import Tensor
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # exported, not declared
from torch.distributed.distributed_c10d import PrefixStore, Store

from ebbtide.runtime import sockets
from ebbtide.runtime.errors import CollectiveBroken

FORMING: Final = timedelta(seconds=5)
# Death and cut networks are noticed otherwise; this only ends a wait on a script gone astray.
WAITING: Final = timedelta(minutes=10)
CHUNK: Final = 1 << 26
_RETRY_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A rank's place in a generation, and where the generation's store is."""

    generation: int
    rank: int
    world: int
    store: tuple[str, int]
    addresses: frozenset[str]


class Group:
    """The group of the newest generation; none between two."""

    def __init__(self, address: str, *, coordinator_port: int = 0) -> None:
        """Listen at `address` for the generations whose store this process will host."""
        self._address = address
        self._spare = coordinator_port
        listener = socket.create_server((address, 0), backlog=1024)
        self.store_port: int = listener.getsockname()[1]
        self._host = TCPStore(
            address,
            self.store_port,
            is_master=True,
            wait_for_workers=False,
            timeout=FORMING,
            master_listen_fd=listener.detach(),
        )
        self._device = dist.ProcessGroupGloo.create_device(hostname=address)
        self._lock = threading.Lock()
        self._seat: Seat | None = None
        self._backend: Any = None  # a ProcessGroupGloo; torch's stubs know only half of it
        self._store: Store | None = None
        self._held: list[socket.socket] = []
        self._before: dict[str, int] | None = None  # set while forming
        self._broken = 0  # the largest generation that must not go on

    @property
    def seat(self) -> Seat | None:
        """The place in the group that stands, or None."""
        return self._seat

    def is_broken(self, generation: int) -> bool:
        """Tell whether this generation was ordered to end, or a later one was."""
        return generation <= self._broken

    def form(self, seat: Seat) -> None:
        """Build the group of a generation; all its ranks must do so at about the same time."""
        self.close()
        with self._lock:
            self._before = sockets.list_sockets()
            self._seat = seat
        try:
            self._build(seat)
            with self._lock:
                if self.is_broken(seat.generation):
                    raise CollectiveBroken(f"generation {seat.generation} ended while it formed")
                self._held = sockets.hold_new(
                    self._before, addresses=seat.addresses, spare=self._spare
                )
                self._before = None
            for connection in self._held:
                sockets.watch_peer(connection)
        except (RuntimeError, OSError) as error:
            self.break_(seat.generation)
            self.close()
            if isinstance(error, CollectiveBroken):
                raise
            raise CollectiveBroken(_first_line(error)) from error

    def _build(self, seat: Seat) -> None:
        if seat.world == 1:
            return
        store = self._host
        if seat.rank != 0:
            self._await_store(seat)
            host, port = seat.store
            store = TCPStore(host, port, is_master=False, wait_for_workers=False, timeout=FORMING)
        gloo: Any = dist.ProcessGroupGloo
        options = gloo._Options()  # noqa: SLF001 -- the only way to name a device
        options._devices = [self._device]  # noqa: SLF001
        options._timeout = FORMING  # noqa: SLF001
        options._threads = 2  # noqa: SLF001
        self._store = store
        self._backend = gloo(
            PrefixStore(f"generation/{seat.generation}", store), seat.rank, seat.world, options
        )

    def _await_store(self, seat: Seat) -> None:
        """Knock until the store's host answers: torch's own wait could not be broken off."""
        waiting = threading.Event()
        for _ in range(int(FORMING.total_seconds() / _RETRY_SECONDS)):
            if self.is_broken(seat.generation):
                raise CollectiveBroken(f"generation {seat.generation} ended while it formed")
            with contextlib.suppress(OSError):
                socket.create_connection(seat.store, timeout=1.0).close()
                return
            waiting.wait(_RETRY_SECONDS)
        raise CollectiveBroken(f"the store of generation {seat.generation} does not answer")

    def sum_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over all ranks. In place; undefined when it breaks."""
        if self._check().world == 1:
            return
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.SUM
        options.timeout = WAITING
        try:
            works = [self._standing().allreduce([tensor], options) for tensor in tensors]
            for work in works:
                work.wait()
        except RuntimeError as error:
            self._give_up(error)
        self._check()

    def broadcast(self, tensor: Tensor, *, source: int) -> None:
        """Replace a tensor on all ranks by the source's, chunk by chunk."""
        if self._check().world == 1:
            return
        options = dist.BroadcastOptions()
        options.rootRank = source
        options.timeout = WAITING
        flat = tensor.view(-1)
        try:
            for start in range(0, flat.numel(), CHUNK):
                self._standing().broadcast([flat[start : start + CHUNK]], options).wait()
        except RuntimeError as error:
            self._give_up(error)

    def break_(self, generation: int) -> None:
        """End a generation now, from any thread; an older one, or one that ended, is left alone."""
        with self._lock:
            self._broken = max(self._broken, generation)
            seat, forming = self._seat, self._before is not None
            if seat is None or seat.generation > generation:
                return
            self._shut()
        if forming:
            threading.Thread(target=self._keep_breaking, args=(seat,), daemon=True).start()

    def close(self) -> None:
        """Drop the group, if there is one. Its connections are gone afterwards."""
        with self._lock:
            self._shut()
            backend, store = self._backend, self._store
            self._backend = self._store = self._seat = self._before = None
        # Joins gloo's threads (some milliseconds), so outside of the lock.
        del backend, store

    def _shut(self) -> None:
        """With the lock held: shut what is ours, also what is just being made."""
        seat = self._seat
        if seat is not None and self._before is not None:
            self._held += sockets.hold_new(
                self._before, addresses=seat.addresses, spare=self._spare
            )
        sockets.shut(self._held)
        self._held = []

    def _keep_breaking(self, seat: Seat) -> None:
        """A group that is being built opens more connections: shut those too until it gives up."""
        pause = threading.Event()
        while True:
            with self._lock:
                if self._seat is not seat or self._before is None:
                    return
                self._shut()
            pause.wait(_RETRY_SECONDS)

    def _check(self) -> Seat:
        seat = self._seat
        if seat is None:
            raise CollectiveBroken("there is no group")
        if self.is_broken(seat.generation):
            raise CollectiveBroken(f"generation {seat.generation} was ended")
        return seat

    def _standing(self) -> Any:
        if self._backend is None:
            raise CollectiveBroken("there is no group")
        return self._backend

    def _give_up(self, error: RuntimeError) -> None:
        seat = self._seat
        if seat is not None:
            # Other calls of ours may still wait on other peers: end them before the group goes.
            self.break_(seat.generation)
        raise CollectiveBroken(_first_line(error)) from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
