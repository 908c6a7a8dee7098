"""Gradient-ready times: from hooks, into buckets."""

import pytest
import torch
from torch import nn

from ebbtide.core.models.iteration.timeline import Caps, Work, simulate
from ebbtide.runtime.profiler.readiness import Arrival, Readiness, close_buckets

CPU = torch.device("cpu")
MEGA = 10**6


def arrivals(*sizes: int) -> tuple[Arrival, ...]:
    """Gradients of these sizes, one each second."""
    return tuple(
        Arrival(seconds=float(place), num_bytes=size) for place, size in enumerate(sizes, start=1)
    )


def test_buckets_of_the_published_example_close_as_they_fill() -> None:
    # Four layers whose backward pass takes 20 ms each after 40 ms; gradients of 30, 20, 10, 2 MB.
    seen = tuple(
        Arrival(seconds=at / 1000, num_bytes=size * MEGA)
        for at, size in ((60, 30), (80, 20), (100, 10), (120, 2))
    )

    assert close_buckets(seen, first=1 * MEGA, later=25 * MEGA) == (0.06, 0.1, 0.12)


@pytest.mark.parametrize(
    "sizes", [(1,), (30, 20, 10, 2), (1, 1, 1, 1, 1, 1), (40, 1, 1), (1, 40), (25, 25, 25)]
)
def test_they_close_where_the_model_of_a_step_closes_them(sizes: tuple[int, ...]) -> None:
    work = Work(
        forward_s=0.0,
        backward_s=(1.0,) * len(sizes),
        gradient_bytes=tuple(float(size) for size in reversed(sizes)),
    )

    modelled = simulate([work], lambda size: size * 0.0, caps=Caps(first=2.0, later=25.0))

    assert close_buckets(arrivals(*sizes), first=2, later=25) == modelled.ready_s


def test_without_gradients_there_are_no_buckets() -> None:
    assert close_buckets(()) == ()


def test_the_last_layers_gradient_comes_first() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    readiness = Readiness(model.parameters(), device=CPU)

    readiness.begin()
    model(torch.ones(3, 4)).sum().backward()
    seen = readiness.end()

    assert [one.num_bytes for one in seen[2:]] == [4 * 8 * 4, 8 * 4] or [
        one.num_bytes for one in seen[2:]
    ] == [8 * 4, 4 * 8 * 4]
    assert sum(one.num_bytes for one in seen) == sum(p.numel() * 4 for p in model.parameters())
    assert [one.seconds for one in seen] == sorted(one.seconds for one in seen)
    assert seen[0].seconds > 0


def test_a_gradient_that_is_added_to_is_ready_when_it_is_complete() -> None:
    model = nn.Linear(2, 1)
    readiness = Readiness(model.parameters(), device=CPU)

    readiness.begin()
    model(torch.ones(1, 2)).sum().backward()
    first = max(one.seconds for one in readiness.end())
    readiness.begin()
    model(torch.ones(1, 2)).sum().backward()
    model(torch.ones(1, 2)).sum().backward()
    seen = readiness.end()

    assert len(seen) == 2
    assert min(one.seconds for one in seen) > 0
    assert first > 0


def test_no_hook_stays_when_a_step_is_over() -> None:
    model = nn.Linear(2, 1)
    readiness = Readiness(model.parameters(), device=CPU)

    readiness.begin()
    readiness.end()
    model(torch.ones(1, 2)).sum().backward()

    assert readiness.end() == ()


def test_parameters_that_are_not_trained_are_not_waited_for() -> None:
    model = nn.Linear(2, 1)
    model.bias.requires_grad = False
    readiness = Readiness(model.parameters(), device=CPU)

    readiness.begin()
    model(torch.ones(1, 2)).sum().backward()

    assert len(readiness.end()) == 1
