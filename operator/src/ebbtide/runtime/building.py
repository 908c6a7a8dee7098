"""
One try to build a process group, in a thread that can be walked away from.

gloo tries for 25 seconds to reach a member that died between giving its address and being reached,
and nothing can stop it. So the try runs beside the caller, who waits for its end or for the word
that the generation is over; a try that is not wanted any more ends by itself and drops its group.
"""

import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # exported, not declared
from torch.distributed.distributed_c10d import PrefixStore

from ebbtide.runtime import nccl
from ebbtide.runtime.errors import CollectiveBroken

FORMING: Final = timedelta(seconds=5)
LIMIT_SECONDS: Final = 30.0
_RETRY_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A rank's place in a generation, and where the generation's store is."""

    generation: int
    rank: int
    world: int
    store: tuple[str, int]
    addresses: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """What a process reaches the others by."""

    network: Any
    """gloo's device: the address that the others are reached from."""
    gpu: Any = None
    """The torch.device that the model is on; None without a GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What a generation's collectives go through."""

    store: Any
    gloo: Any
    """A ProcessGroupGloo; torch's stubs know only half of it."""
    gpus: nccl.Nccl | None = None
    """For tensors on the GPU."""


class Building:
    """A group that is being built."""

    def __init__(
        self,
        seat: Seat,
        *,
        devices: Devices,
        wake: threading.Event,
        is_wanted: Callable[[], bool],
    ) -> None:
        """`wake` is set at the end, whatever it is."""
        self._seat = seat
        self._devices = devices
        self._wake = wake
        self._is_wanted = is_wanted
        self._error: Exception | None = None
        self._built: Built | None = None

    def wait(self) -> Built:
        """Build, and return the connections; `CollectiveBroken` if there are none."""
        thread = threading.Thread(target=self._run, name="ebbtide-forming", daemon=True)
        thread.start()
        self._wake.wait(LIMIT_SECONDS)
        if not self._is_wanted():
            raise CollectiveBroken(f"generation {self._seat.generation} ended while it formed")
        if self._built is not None:
            thread.join()
            return self._built
        raise CollectiveBroken(
            first_line(self._error) if self._error else f"no group in {LIMIT_SECONDS} s"
        )

    def _run(self) -> None:
        try:
            built = self._build()
        except (RuntimeError, OSError) as error:
            self._error = error
        else:
            if self._is_wanted():
                self._built = built
        finally:
            self._wake.set()

    def _build(self) -> Built:
        seat = self._seat
        self._await_store()
        host, port = seat.store
        # The host, too, goes through a connection of its own: one that can be shut, unlike the
        # store object's.
        store = TCPStore(host, port, is_master=False, wait_for_workers=False, timeout=FORMING)
        gloo: Any = dist.ProcessGroupGloo
        options = gloo._Options()  # noqa: SLF001 -- the only way to name a device
        for name, value in (
            ("_devices", [self._devices.network]),
            ("_timeout", FORMING),
            ("_threads", 2),
        ):
            setattr(options, name, value)
        prefix = PrefixStore(f"generation/{seat.generation}", store)
        group = gloo(prefix, seat.rank, seat.world, options)
        if self._devices.gpu is None:
            return Built(store=store, gloo=group)
        gpus = nccl.connect(
            PrefixStore("gpus", prefix),
            rank=seat.rank,
            world=seat.world,
            device=self._devices.gpu,
            is_over=lambda: not self._is_wanted(),
        )
        return Built(store=store, gloo=group, gpus=gpus)

    def _await_store(self) -> None:
        """Knock until the store's host answers: quicker to see a refusal than torch's own wait."""
        pause = threading.Event()
        for _ in range(int(FORMING.total_seconds() / _RETRY_SECONDS)):
            if not self._is_wanted():
                return
            with contextlib.suppress(OSError):
                socket.create_connection(self._seat.store, timeout=1.0).close()
                return
            pause.wait(_RETRY_SECONDS)
        raise CollectiveBroken(f"the store of generation {self._seat.generation} does not answer")


def first_line(error: Exception) -> str:
    """Return what an error says, without the stack that torch appends."""
    return (str(error).splitlines() or [type(error).__name__])[0]
