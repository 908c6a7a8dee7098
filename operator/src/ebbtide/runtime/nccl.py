"""
Sums between GPUs, in one generation.

NCCL's own watchdog would end the process when a peer is gone, and its `wait` returns before the
GPUs are done. So the watchdog is told to hold still, and whoever sums looks itself, until all has
arrived or the generation is over; then the communicator is aborted, which ends what still runs.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch.distributed as dist
from torch import Tensor

ENV_ERROR_HANDLING: Final = "TORCH_NCCL_ASYNC_ERROR_HANDLING"
LOOK_SECONDS: Final = 50e-6


class Nccl:
    """The communicator of one generation on this process's GPU."""

    def __init__(self, backend: Any, *, is_over: Callable[[], bool]) -> None:
        """`backend` is a ProcessGroupNCCL; `is_over` tells whether its generation has ended."""
        self._backend = backend
        self._is_over = is_over
        self._pause = threading.Event()

    def sum_up(self, tensors: Sequence[Tensor], options: Any) -> None:
        """Replace each tensor by its sum over all ranks; a RuntimeError when that breaks."""
        works = [self._backend.allreduce([tensor], options) for tensor in tensors]
        for work in works:
            while not work.is_completed():
                if self._is_over():
                    raise RuntimeError("the generation ended in a sum between GPUs")
                self._pause.wait(LOOK_SECONDS)
            # A plain wait now only orders the streams: what is computed next sees the sums.
            work.wait()

    def abort(self) -> None:
        """End what runs, from any thread; more than once does no harm."""
        with contextlib.suppress(RuntimeError):
            self._backend.abort()


def connect(store: Any, *, rank: int, world: int, device: Any, is_over: Callable[[], bool]) -> Nccl:
    """Connect this process's GPU with those of the other ranks; all must do so together."""
    os.environ.setdefault(ENV_ERROR_HANDLING, "0")  # read when the backend is made
    nccl: Any = dist.ProcessGroupNCCL  # torch's stubs know only one of its constructors
    backend = nccl(store, rank, world)
    backend.eager_connect_single_device(device)
    return Nccl(backend, is_over=is_over)
