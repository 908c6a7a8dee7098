"""
What `ebbtide profile` and the script's process tell each other, in frames over a Unix socket.

The script's process speaks first: `Joined`, then `Looping`; then each `Measure` is answered by
`Measured`, or by `OutOfMemory` and the end of the process. `Done` ends the script.
"""

from typing import Annotated, Final

import msgspec

from ebbtide.wire.messages import Message

MOST_STEPS: Final = 10_000
MOST_BATCH: Final = 1 << 30


class Joined(Message, tag="joined", frozen=True):
    """The script called `join`."""

    global_batch_size: int  # what the script names for a local job
    gpu: str  # what the device is called; "" = it computes on the CPU


class Looping(Message, tag="looping", frozen=True):
    """The script entered the loop over `job.steps()` and waits for orders."""

    parameters: int  # trainable ones
    tensors: int  # that hold them
    gradient_bytes: int


class Measure(Message, tag="measure", frozen=True):
    """Take so many steps, after some that do not count, with batches of one size."""

    batch: Annotated[int, msgspec.Meta(ge=1, le=MOST_BATCH)]
    steps: Annotated[int, msgspec.Meta(ge=1, le=MOST_STEPS)]
    warm_up: Annotated[int, msgspec.Meta(ge=0, le=MOST_STEPS)] = 0
    details: bool = False  # FLOPs and gradient-ready times, from steps of the warm-up
    memory_limit: int = 0  # bytes that this process may hold, off the GPU; 0 = any


class Measured(Message, tag="measured", frozen=True):
    """What the steps of one order took; times in seconds."""

    batch: int
    step_seconds: tuple[float, ...]
    data_seconds: tuple[float, ...]
    peak_bytes: int
    checkpoint_bytes: int
    flops: int = 0  # of the whole batch
    bucket_ready: tuple[float, ...] = ()


class OutOfMemory(Message, tag="out-of-memory", frozen=True):
    """The memory did not suffice; the process ends."""

    batch: int


class Done(Message, tag="done", frozen=True):
    """There is nothing more to measure: end the script."""


FromScript = Joined | Looping | Measured | OutOfMemory
ToScript = Measure | Done
