"""
When each gradient is ready, seen by hooks; and when each bucket of them is.

The hooks are there only while a step is watched: thousands of parameters cost nothing otherwise.
On a GPU the moment counts at which the device has the gradient, not when Python asked for it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

import torch
from torch.nn import Parameter

from ebbtide.runtime.gradients import BUCKET_BYTES

FIRST_BUCKET: Final = 1 << 20
LATER_BUCKET: Final = BUCKET_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One gradient of one step."""

    seconds: float
    """From the start of the step."""
    num_bytes: int


def close_buckets(
    arrivals: Sequence[Arrival], *, first: int = FIRST_BUCKET, later: int = LATER_BUCKET
) -> tuple[float, ...]:
    """
    Return when each bucket closes, in seconds from the start of the step.

    Gradients gather in the order of their arrival, and a bucket closes when it holds `first` bytes
    (the first one) or `later` (the others), as in PyTorch (Li et al. 2020, VLDB 13, 3005-3018).
    """
    closed: list[float] = []
    filled, last = 0, 0.0
    for arrival in sorted(arrivals, key=lambda one: one.seconds):
        filled += arrival.num_bytes
        last = arrival.seconds
        if filled >= (later if closed else first):
            closed.append(last)
            filled = 0
    if filled:
        closed.append(last)
    return tuple(closed)


class Readiness:
    """Watches the gradients of a model during single steps."""

    def __init__(self, parameters: Iterable[Parameter], *, device: torch.device) -> None:
        self._parameters = [each for each in parameters if each.requires_grad]
        self._stamp: Callable[[], Any] = _event if device.type == "cuda" else perf_counter
        self._is_cuda = device.type == "cuda"
        self._began: Any = None
        self._seen: dict[int, tuple[Any, int]] = {}
        self._handles: list[Any] = []

    def begin(self) -> None:
        """Watch the step that begins now."""
        self.end()
        self._seen = {}
        self._began = self._stamp()
        self._handles = [
            parameter.register_post_accumulate_grad_hook(self._hook(number))
            for number, parameter in enumerate(self._parameters)
        ]

    def _hook(self, number: int) -> Callable[[Any], None]:
        def note(parameter: Any) -> None:
            # Again for each backward pass of a step: the last one makes the gradient ready.
            held = parameter.grad
            if held.is_sparse:
                held = held._values()  # noqa: SLF001 -- those of a gradient need not be coalesced
            self._seen[number] = (self._stamp(), held.numel() * held.element_size())

        return note

    def end(self) -> tuple[Arrival, ...]:
        """Stop watching; return what arrived, in order."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self._is_cuda and self._seen:
            torch.cuda.synchronize()
        arrivals = [
            Arrival(seconds=self._since(stamp), num_bytes=size)
            for stamp, size in self._seen.values()
        ]
        return tuple(sorted(arrivals, key=lambda one: one.seconds))

    def _since(self, stamp: Any) -> float:
        if self._is_cuda:
            return float(self._began.elapsed_time(stamp)) / 1000
        return float(stamp - self._began)


def _event() -> Any:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event
