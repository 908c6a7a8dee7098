"""
What a chief that is lost costs: nothing here, and the steps since the checkpoint in the emulation.

Check 22 of the facts on CM-DARE. There the stock framework ties checkpoints to one task: while it
is away nobody saves, and when it is back it puts its last checkpoint onto the servers.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from ebbtide.runtime.checkpoint import Shelf
from ebbtide.runtime.paramserver import snapshots
from support.served import TOKEN, Servers, Trainer

SAVED = 6  # the step of the checkpoint
STEPS = 40
SINCE = (0, 1, 7, 20)  # steps from the checkpoint to the loss


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    servers = Servers(folder=tmp_path, steps=STEPS)
    servers.start("a", "b")
    yield servers
    servers.close()


def enter(servers: Servers, name: str) -> Trainer:
    torch.manual_seed(1)
    model = nn.Linear(1, 500)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    trainer = Trainer(servers, model, optimizer, name=name)
    trainer.client.enter()
    trainer.take()
    return trainer


def push(trainer: Trainer, count: int) -> int:
    """Push so many steps, or all that are left; return how many that were."""
    for number in range(count):
        if trainer.step < 0:
            return number
        trainer.step = trainer.push(1.0).step
    return count


def train_until_loss(servers: Servers, since: int) -> Trainer:
    """Save at the step of the checkpoint, go on for some steps, and lose the chief."""
    chief = enter(servers, "chief")
    push(chief, SAVED)
    save(servers, chief)
    push(chief, since)
    chief.client.close()
    return chief


def save(servers: Servers, chief: Trainer) -> None:
    snapshot = snapshots.take(servers.map, token=TOKEN)
    tree = snapshot.tree({}, groups=chief.optimizer.state_dict()["param_groups"])
    tree["model"] = chief.binding.whole_model(tree["model"])
    Shelf(str(servers.folder), owner="chief").write(
        tree,
        step=snapshot.standing.step,
        lineage=snapshot.standing.lineage,
        world_size=1,
        may_commit=lambda: True,
    )


def restore(servers: Servers) -> None:
    """Do as the stock framework's chief: what the servers hold gives way to the checkpoint."""
    for name in list(servers.running):
        servers.kill(name)
    servers.start("c", "d")


@pytest.mark.parametrize("since", SINCE)
def test_cm_dare_check_22_a_lost_chief_costs_no_step(servers: Servers, since: int) -> None:
    chief = train_until_loss(servers, since)
    at_loss = chief.values()

    other = enter(servers, "other")

    assert other.step == SAVED + since
    torch.testing.assert_close(other.values(), at_loss, rtol=0, atol=0)
    assert push(other, STEPS) == STEPS - SAVED - since


def test_cm_dare_check_22_the_stock_chief_costs_the_steps_since_its_checkpoint(
    tmp_path: Path,
) -> None:
    lost = []
    for since in SINCE:
        servers = Servers(folder=tmp_path / str(since), steps=STEPS)
        servers.start("a", "b")
        train_until_loss(servers, since)

        restore(servers)
        back = enter(servers, "chief")

        assert back.step == SAVED
        lost.append(SAVED + since + push(back, STEPS) - STEPS)
        servers.close()

    assert lost == list(SINCE)
