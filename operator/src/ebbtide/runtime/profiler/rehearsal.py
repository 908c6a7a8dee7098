"""
A script run alone to be measured: no coordinator, no peers, no checkpoints, steps as ordered.

The script is the one that trains: it calls `join`, wraps its model and loops over `job.steps()`.
The loop that it gets here takes the size of each batch from `ebbtide profile`, measures the steps,
and ends the script when there is nothing more to measure.
"""

import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import torch
from torch import Tensor
from typing_extensions import override

from ebbtide.runtime import chance, joining, local, trees
from ebbtide.runtime.attempt import Attempt
from ebbtide.runtime.batches import Batch, Shard
from ebbtide.runtime.errors import UsageError
from ebbtide.runtime.job import Job
from ebbtide.runtime.profiler import orders
from ebbtide.runtime.profiler.counting import FlopCount
from ebbtide.runtime.profiler.meeting import reach
from ebbtide.runtime.profiler.memory import Peak, is_out_of_memory, limit_memory
from ebbtide.runtime.profiler.meter import Meter
from ebbtide.runtime.profiler.split import Split
from ebbtide.runtime.state import TrainState
from ebbtide.wire.frames import Decoder, FrameError, encode
from ebbtide.wire.names import ENV_PROFILE

READ_BYTES: Final = 1 << 16


class Profiled(SystemExit):
    """All is measured: the script ends here, as if it had come to its end."""

    def __init__(self) -> None:
        super().__init__(0)


class Line:
    """The connection to the command that measures."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            with reach(Path(path)) as address:
                self._socket.connect(address)
        except OSError as error:
            raise UsageError(
                f"{ENV_PROFILE} is {path!r}, where nobody listens ({error.strerror}): it is set by"
                " `ebbtide profile` for one process that calls join() once"
            ) from error
        self._decoder = Decoder(orders.ToScript)
        self._heard: list[orders.ToScript] = []

    def tell(self, message: orders.FromScript) -> None:
        """Say something; a command that has gone is noticed when it is listened to."""
        try:
            self._socket.sendall(encode(message))
        except OSError:
            self._heard = [orders.Done()]

    def listen(self) -> orders.ToScript:
        """Wait for the next order; `Done` when the command has gone."""
        while not self._heard:
            try:
                data = self._socket.recv(READ_BYTES)
                self._heard += self._decoder.feed(data) if data else [orders.Done()]
            except (OSError, FrameError):
                self._heard = [orders.Done()]
        return self._heard.pop(0)


class Nobody:
    """The group of one who is alone."""

    def sum_up(self, tensors: Sequence[Tensor]) -> None:
        """Leave the tensors as they are: each is its own sum."""


class Rehearsal:
    """The loop of a script that is measured."""

    rank: Final = 0
    world: Final = 1
    is_done: Final = False
    was_chief: Final = False

    def __init__(
        self, line: Line, *, state: TrainState, shard: Shard, device: torch.device
    ) -> None:
        self._line = line
        self._state = state
        self._shard = shard
        self._device = device
        self._meter = Meter(state.model.parameters(), device=device)
        self._peak = Peak(device)
        self._flops = FlopCount()
        self._taken = 0  # samples
        self.step = 0
        self.batch: Batch | None = None
        self.size = 0
        self.attempt = Attempt(
            state, group=Nobody(), fence=lambda: None, vote=lambda: (False, False)
        )

    def run(self) -> Iterator[Batch]:
        """Give batches as ordered, for as long as orders come."""
        self._line.tell(self._describe())
        while True:
            match self._line.listen():
                case orders.Measure() as order:
                    yield from self._measure(order)
                case orders.Done():
                    raise Profiled

    def _describe(self) -> orders.Looping:
        trained = [each for each in self._state.model.parameters() if each.requires_grad]
        return orders.Looping(
            parameters=sum(each.numel() for each in trained),
            tensors=self.attempt.gradient_tensors,
            gradient_bytes=self.attempt.gradient_bytes,
        )

    def _measure(self, order: orders.Measure) -> Iterator[Batch]:
        self.size = order.batch
        if order.memory_limit and self._device.type != "cuda":
            limit_memory(order.memory_limit)
        self._peak.reset()
        flops = 0
        for number in range(order.warm_up):
            is_counted = order.details and number == 0
            is_watched = order.details and number == order.warm_up - 1
            if is_counted:
                self._flops.begin()
            yield self._open(is_watched=is_watched)
            self._close()
            flops = self._flops.end() if is_counted else flops
        splits: list[Split] = []
        for _ in range(order.steps):
            yield self._open(is_watched=False)
            splits.append(self._close())
        self._line.tell(
            orders.Measured(
                batch=order.batch,
                step_seconds=tuple(one.step for one in splits),
                data_seconds=tuple(one.data for one in splits),
                peak_bytes=self._peak.read(),
                checkpoint_bytes=trees.num_bytes(self._state.take()),
                flops=flops,
                bucket_ready=self._meter.watched.bucket_ready if order.details else (),
            )
        )

    def _open(self, *, is_watched: bool) -> Batch:
        self._meter.begin(is_watched=is_watched)
        indices = self._shard.order.take(start=self._taken, count=self.size)
        self.batch = self._shard.fetch(indices)
        chance.reseed(seed=self._shard.order.seed, step=self.step, rank=0)
        self.attempt.open(weight=1.0)
        self._meter.hand_over()
        return self.batch

    def _close(self) -> Split:
        self.attempt.settle()
        if self._device.type == "cuda":
            torch.cuda.synchronize()  # what was asked for is done, not only asked for
        self._taken += self.size
        self.step += 1
        return self._meter.end(collectives=0.0)


class ProfiledJob(Job):
    """The job of a script that is measured."""

    def __init__(self, line: Line, *, links: Any) -> None:
        super().__init__(links)
        self._line = line

    @override
    def _make_loop(self, state: TrainState, shard: Shard) -> Rehearsal:
        loop = Rehearsal(self._line, state=state, shard=shard, device=self.device)
        _tell_of_ends(self._line, loop)
        return loop


def join(path: str, *, global_batch_size: int) -> ProfiledJob:
    """Join the command that listens at `path`, instead of a job."""
    line = Line(path)
    # Beside the socket, in the command's own folder: it outlives whatever ends this process.
    folder = tempfile.mkdtemp(prefix="run-", dir=Path(path).parent)
    links = joining.link_to_nobody(local.alone(folder))
    device = links.device
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    line.tell(orders.Joined(global_batch_size=global_batch_size, gpu=gpu))
    return ProfiledJob(line, links=links)


def _tell_of_ends(line: Line, loop: Rehearsal) -> None:
    """Let the command know when the script ends for want of memory; all else it sees itself."""
    usual = sys.excepthook

    def end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if is_out_of_memory(error):
            line.tell(orders.OutOfMemory(batch=loop.size))
        usual(kind, error, trace)

    sys.excepthook = end
