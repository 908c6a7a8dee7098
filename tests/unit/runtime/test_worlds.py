"""B069: a checkpoint of a world of any size goes on in a world of any other."""

from pathlib import Path

import pytest
import torch
from torch import nn

from ebbtide.runtime.checkpoint import Shelf
from ebbtide.runtime.sharding import Order
from ebbtide.runtime.state import TrainState

BATCH = 24
BEFORE, AFTER = 10, 20


class World:
    """One training, by as many ranks as it has now, played in one process."""

    def __init__(self, seed: int) -> None:
        chance = torch.Generator().manual_seed(3)
        self.samples = torch.randn(100, 6, generator=chance)
        self.labels = self.samples.sum(dim=1, keepdim=True).tanh()
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=7, gamma=0.5)
        self.state = TrainState(model, optimizer, scheduler)
        self.order = Order(seed=5, samples=100)

    def train(self, steps: range, *, world: int) -> list[float]:
        """Train these steps; return the losses of the global batches."""
        losses = []
        for step in steps:
            total = 0.0
            self.state.optimizer.zero_grad()
            for rank in range(world):
                rows = self.order.share(step=step, batch=BATCH, rank=rank, world=world)
                if len(rows):
                    chosen = torch.from_numpy(rows)
                    off = self.state.model(self.samples[chosen]) - self.labels[chosen]
                    loss = off.square().sum() / BATCH
                    loss.backward()
                    total += float(loss.detach())
            self.state.optimizer.step()
            self.state.scheduler.step()
            losses.append(total)
        return losses


@pytest.fixture(scope="module")
def unbroken() -> tuple[list[float], World]:
    world = World(seed=0)
    world.train(range(BEFORE), world=1)
    losses = world.train(range(BEFORE, BEFORE + AFTER), world=1)
    return losses, world


@pytest.mark.parametrize("after", [1, 3, 6, 8])
@pytest.mark.parametrize("before", [1, 4, 8])
def test_b069_losses_and_moments_are_those_of_an_unbroken_run(
    tmp_path: Path, unbroken: tuple[list[float], World], before: int, after: int
) -> None:
    first, second = World(seed=0), World(seed=1)
    shelf = Shelf(str(tmp_path), owner="w")

    first.train(range(BEFORE), world=before)
    shelf.write(
        first.state.take(), step=BEFORE, lineage=1, world_size=before, may_commit=lambda: True
    )
    loaded = shelf.load(lambda layout: second.state.targets(layout, in_place=True))
    assert loaded is not None
    second.state.put(loaded.tree)
    losses = second.train(range(BEFORE, BEFORE + AFTER), world=after)

    expected, reference = unbroken
    assert losses == pytest.approx(expected, abs=1e-6)
    ours, theirs = (each.state.optimizer.state_dict() for each in (second, reference))
    assert ours["param_groups"] == theirs["param_groups"]
    for number, moments in theirs["state"].items():
        for name, value in moments.items():
            torch.testing.assert_close(ours["state"][number][name], value, atol=1e-6, rtol=1e-4)
