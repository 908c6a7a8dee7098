"""
The process group of one generation, and the only module that knows how torch makes one.

`Group` is formed, used and broken again and again in one process. All that can go wrong in a
collective comes out as `CollectiveBroken`. `break_` may be called from any thread and ends a
collective that another thread is blocked in; it names the generation, so that a late order can't
hurt the next one.
"""

import socket
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import torch.distributed as dist
from torch import Tensor
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # exported, not declared

from ebbtide.runtime import sockets
from ebbtide.runtime.building import FORMING, Building, Built, Devices, Seat, first_line
from ebbtide.runtime.errors import CollectiveBroken
from ebbtide.runtime.nccl import Nccl
from ebbtide.runtime.watchdog import Watchdog, leave_now

# Death and cut networks are noticed otherwise; this only ends a wait on a script gone astray.
WAITING: Final = timedelta(minutes=10)
CHUNK: Final = 1 << 26


class Group:
    """The group of the newest generation; none between two."""

    def __init__(self, address: str, *, coordinator_port: int = 0, gpu: Any = None) -> None:
        """
        Listen at `address` for the generations whose store this process will host.

        `gpu` is the torch.device whose tensors go through NCCL; all others go through gloo.
        """
        self._address = address
        listener = socket.create_server((address, 0), backlog=1024)
        self.store_port: int = listener.getsockname()[1]
        # Shutting these would hurt the coordinator's connection, or peers that are ahead of us.
        self._spared = sockets.Spared(far=coordinator_port, near=self.store_port)
        self._host = TCPStore(
            address,
            self.store_port,
            is_master=True,
            wait_for_workers=False,
            timeout=FORMING,
            master_listen_fd=listener.detach(),
        )
        network = dist.ProcessGroupGloo.create_device(hostname=address)
        self._devices = Devices(network=network, gpu=gpu)
        self._lock = threading.Lock()
        self._seat: Seat | None = None
        self._closed: Seat | None = None  # the one that was closed last
        self._built: Built | None = None
        self._held: list[socket.socket] = []
        self._before: dict[str, int] | None = None  # set while forming
        self._wake = threading.Event()
        self._broken = 0  # the largest generation that must not go on
        self._closing = False
        self._watchdog = Watchdog(overdue=self._is_overdue, shut=self._shut_all, leave=leave_now)

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
            self._wake = threading.Event()
            if self.is_broken(seat.generation):
                self._wake.set()
        try:
            if seat.world > 1:
                self._built = Building(
                    seat,
                    devices=self._devices,
                    wake=self._wake,
                    is_wanted=lambda: not self.is_broken(seat.generation),
                ).wait()
            self._hold(seat)
        except CollectiveBroken:
            self.break_(seat.generation)
            self.close()
            raise

    def _hold(self, seat: Seat) -> None:
        """Take hold of the connections that were made."""
        with self._lock:
            if self.is_broken(seat.generation):
                raise CollectiveBroken(f"generation {seat.generation} ended while it formed")
            self._held = sockets.hold_new(
                self._before or {}, addresses=seat.addresses, spared=self._spared
            )
            self._before = None
            for connection in self._held:
                sockets.watch_peer(connection)

    def sum_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over all ranks. In place; undefined when it breaks."""
        if self._check().world == 1:
            return
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.SUM
        options.timeout = WAITING
        try:
            with self._watchdog.watching():
                self._sum_up(tensors, options)
        except RuntimeError as error:
            self._give_up(error)
        self._check()

    def _sum_up(self, tensors: Sequence[Tensor], options: Any) -> None:
        # No name here may hold the group: an error's traceback would keep it from ending.
        by_gpu = [tensor for tensor in tensors if self._goes_by_gpu(tensor)]
        works = [
            self._standing().gloo.allreduce([tensor], options)
            for tensor in tensors
            if not self._goes_by_gpu(tensor)
        ]
        if by_gpu:
            self._gpus().sum_up(by_gpu, options)
        for work in works:
            work.wait()

    def _goes_by_gpu(self, tensor: Tensor) -> bool:
        return self._devices.gpu is not None and tensor.device.type == self._devices.gpu.type

    def broadcast(self, tensor: Tensor, *, source: int, within: timedelta = WAITING) -> None:
        """
        Replace a tensor on all ranks by the source's, chunk by chunk, each `within` a time.

        A short time matters to who sends much: gloo does not end a send that is under way when its
        connection is gone, whoever shuts it, but at the end of its time.
        """
        if self._check().world == 1:
            return
        options = dist.BroadcastOptions()
        options.rootRank = source
        options.timeout = within
        flat = tensor.view(-1)
        try:
            with self._watchdog.watching():
                for start in range(0, flat.numel(), CHUNK):
                    self._standing().gloo.broadcast([flat[start : start + CHUNK]], options).wait()
        except RuntimeError as error:
            self._give_up(error)

    def break_(self, generation: int) -> None:
        """End a generation now, from any thread; an older one, or one that ended, is left alone."""
        with self._lock:
            self._broken = max(self._broken, generation)
            if self._seat is None or self._seat.generation > generation:
                return
            self._wake.set()
            self._shut()

    def close(self) -> None:
        """Drop the group, if there is one. Its connections are gone afterwards."""
        with self._lock:
            self._shut()
            built, self._closed = self._built, self._seat
            self._built = self._seat = self._before = None
        self._closing = True
        with self._watchdog.watching():
            # Joins gloo's threads (some milliseconds), so outside of the lock.
            del built
        self._closing = False

    def _is_overdue(self) -> bool:
        """Tell whether a call that goes on belongs to a generation that is over."""
        seat = self._seat
        return self._closing or (seat is not None and self.is_broken(seat.generation))

    def _shut_all(self) -> None:
        """Shut every connection to the members of the generation that does not end."""
        with self._lock:
            seat = self._closed if self._closing else self._seat
            if seat is not None:
                sockets.shut(sockets.hold_new({}, addresses=seat.addresses, spared=self._spared))

    def _shut(self) -> None:
        """With the lock held: shut what is ours, also what is just being made."""
        seat = self._seat
        if seat is not None and self._before is not None:
            self._held += sockets.hold_new(
                self._before, addresses=seat.addresses, spared=self._spared
            )
        sockets.shut(self._held)
        self._held = []
        if self._built is not None and self._built.gpus is not None:
            # In a thread: it may take a while, and nobody waits for its end.
            abort = self._built.gpus.abort
            threading.Thread(target=abort, name="ebbtide-abort", daemon=True).start()

    def _check(self) -> Seat:
        seat = self._seat
        if seat is None:
            raise CollectiveBroken("there is no group")
        if self.is_broken(seat.generation):
            raise CollectiveBroken(f"generation {seat.generation} was ended")
        return seat

    def _standing(self) -> Built:
        if self._built is None:
            raise CollectiveBroken("there is no group")
        return self._built

    def _gpus(self) -> Nccl:
        gpus = self._standing().gpus
        if gpus is None:
            raise CollectiveBroken("there is no group")
        return gpus

    def _give_up(self, error: RuntimeError) -> None:
        seat = self._seat
        if seat is not None:
            # Other calls of ours may still wait on other peers: end them before the group goes.
            self.break_(seat.generation)
        raise CollectiveBroken(first_line(error)) from error
