"""The meter: a clock by hand, and what it makes of it."""

import pytest
import torch
from torch import nn

from ebbtide.runtime.profiler.meter import EVERY, Meter, is_due


def make_meter(model: nn.Module, *moments: float) -> Meter:
    clock = iter(moments)
    return Meter(model.parameters(), device=torch.device("cpu"), clock=lambda: next(clock))


def test_a_step_is_divided_into_its_parts() -> None:
    meter = make_meter(nn.Linear(1, 1), 10.0, 10.25, 12.0)

    meter.begin(is_watched=False)
    meter.hand_over()
    split = meter.end(collectives=0.5, fenced=0.25)

    assert (split.step, split.data, split.communication, split.idle) == (2.0, 0.25, 0.5, 0.25)
    assert split.compute == pytest.approx(1.0)


def test_a_watched_step_tells_waiting_from_sending_and_later_ones_are_divided_alike() -> None:
    meter = make_meter(nn.Linear(1, 1), 0.0, 0.0, 4.0, 4.0, 4.0, 8.0)

    meter.begin(is_watched=True)
    meter.hand_over()
    watched = meter.end(collectives=2.0, met=1.5)
    meter.begin(is_watched=False)
    meter.hand_over()
    later = meter.end(collectives=1.0)

    assert (watched.communication, watched.idle) == (0.5, 1.5)
    assert (later.communication, later.idle) == (0.25, 0.75)


def test_a_watched_step_leaves_buckets_and_the_peak_of_memory() -> None:
    model = nn.Linear(4, 2)
    meter = make_meter(model, 0.0, 0.0, 1.0)

    meter.begin(is_watched=True)
    meter.hand_over()
    model(torch.ones(1, 4)).sum().backward()
    meter.end(collectives=0.0)

    assert len(meter.watched.bucket_ready) == 1
    assert meter.watched.peak_bytes > 10 << 20
    assert meter.watched.idle_share == 0.0


def test_one_step_in_so_many_is_watched() -> None:
    due = [step for step in range(4 * EVERY) if is_due(step)]

    assert len(due) == 4
    assert due[0] < 10, "short runs are watched too"
