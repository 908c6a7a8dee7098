"""
What the meter that goes with every process costs, in CPU time of a step.

The same steps of one process with and without it, in blocks that take turns: what the machine does
besides falls on both alike. Each block has one watched step, as each stretch of a job has.
"""

import statistics
import time
from typing import Final

import torch
from torch import nn

from ebbtide.runtime.attempt import Attempt
from ebbtide.runtime.gradients import Votes
from ebbtide.runtime.profiler.meter import EVERY, Meter, is_due
from ebbtide.runtime.profiler.rehearsal import Nobody
from ebbtide.runtime.state import TrainState
from rows import Row

BLOCKS: Final = 20
BAR_PERCENT: Final = 1.0
WIDTH: Final = 192
LAYERS: Final = 24
"""48 tensors: a step of some 10 ms, short for what is trained in earnest."""
BATCH: Final = 64


class Bed:
    """A model and its steps."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        layers = [nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)]
        self._model = nn.Sequential(*(nn.Sequential(layer, nn.ReLU()) for layer in layers))
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=1e-4, momentum=0.9)
        self._attempt = Attempt(
            TrainState(self._model, self._optimizer),
            group=Nobody(),
            fence=lambda: None,
            vote=lambda: (False, False),
        )
        self._meter = Meter(self._model.parameters(), device=torch.device("cpu"))
        self._samples = torch.randn(BATCH, WIDTH)

    def block(self, *, metered: bool) -> float:
        """Take `EVERY` steps; return the CPU seconds of one."""
        begun = time.process_time()
        for step in range(EVERY):
            self._step(step, metered=metered)
        return (time.process_time() - begun) / EVERY

    def _step(self, step: int, *, metered: bool) -> Votes:
        is_watched = metered and is_due(step)
        if metered:
            self._meter.begin(is_watched=is_watched)
        self._attempt.open(weight=1.0, meets=is_watched)
        if metered:
            self._meter.hand_over()
        self._model(self._samples).square().mean().backward()
        self._attempt.apply(self._optimizer.step)
        self._optimizer.zero_grad()
        self._attempt.settle()
        spent = self._attempt.spent
        if metered:
            self._meter.end(collectives=spent.collectives, met=spent.met, fenced=spent.fenced)
        return self._attempt.votes


def rows() -> list[Row]:
    """Compare interleaved blocks, and say how long a step is."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        bed = Bed()
        bed.block(metered=True)  # everything is imported and allocated now
        pairs = [_pair(bed, metered_first=place % 2 == 1) for place in range(BLOCKS)]
    finally:
        torch.set_num_threads(threads)
    plain = statistics.median(without for without, _ in pairs)
    more = statistics.median(metered - without for without, metered in pairs)
    return [
        Row("meter: CPU time of a step", more / plain * 100, "%", "lower", BAR_PERCENT),
        Row("a step without the meter", plain * 1000, "ms CPU", "lower"),
    ]


def _pair(bed: Bed, *, metered_first: bool) -> tuple[float, float]:
    """Return the seconds of a step without and with the meter."""
    first, second = bed.block(metered=metered_first), bed.block(metered=not metered_first)
    return (second, first) if metered_first else (first, second)
