import torch
from torch import nn

from ebbtide.runtime.profiler.counting import FlopCount


def test_products_are_counted_forward_and_backward() -> None:
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    count = FlopCount()

    count.begin()
    model(torch.ones(8, 64)).sum().backward()
    flops = count.end()

    # Forward, and backward for weights; for inputs only behind the first layer.
    assert flops == 8 * 2 * (2 * 64 * 128 + 3 * 128 * 10)


def test_nothing_is_counted_before_and_after() -> None:
    count = FlopCount()

    assert count.end() == 0
    count.begin()
    assert count.end() == 0
