"""The training state is taken and put back whole."""

from typing import Any

import pytest
import torch
from torch import nn

from ebbtide.runtime import trees
from ebbtide.runtime.errors import CheckpointError, UsageError
from ebbtide.runtime.state import TrainState


def make_state(seed: int = 0) -> TrainState:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3])
    state = TrainState(model, optimizer, scheduler)
    state.track(average=torch.zeros(2), head=nn.Linear(2, 2))
    return state


def train(state: TrainState) -> None:
    assert state.scheduler is not None
    for _ in range(2):
        state.model(torch.randn(4, 3)).sum().backward()
        state.optimizer.step()
        state.optimizer.zero_grad()
        state.scheduler.step()


def fingerprint(state: TrainState) -> tuple[bytes, list[int]]:
    packed = trees.pack(state.take())
    return packed.header, packed.flat.tolist()


def test_a_state_put_into_another_is_the_same_and_shares_nothing() -> None:
    one, other = make_state(0), make_state(1)
    train(one)

    other.put(trees.unpack(trees.pack(one.take())))
    assert fingerprint(other) == fingerprint(one)
    before = fingerprint(other)
    train(one)

    assert fingerprint(other) == before


def test_what_was_put_does_not_keep_the_buffer_it_came_in() -> None:
    one, other = make_state(0), make_state(1)
    train(one)
    packed = trees.pack(one.take())

    other.put(trees.unpack(packed))

    start = packed.flat.data_ptr()
    end = start + packed.flat.numel()
    addresses = [each.data_ptr() for each in trees.tensors_of(other.take()) if each.numel()]
    assert not [address for address in addresses if start <= address < end]


def test_undoing_restores_running_statistics_and_drops_gradients() -> None:
    state = make_state()
    before = [each.clone() for each in state.model.buffers()]

    state.mark()
    state.model(torch.randn(4, 3)).sum().backward()
    state.undo()

    assert all(map(torch.equal, before, state.model.buffers()))
    assert all(each.grad is None for each in state.model.parameters())


def test_other_tracked_names_are_refused() -> None:
    one, other = make_state(), make_state()
    other.track(more=torch.zeros(1))

    with pytest.raises(CheckpointError, match=r"tracks \['average', 'head'\]"):
        other.put(one.take())


@pytest.mark.parametrize("item", [3, "text", object(), [torch.zeros(1)]])
def test_what_has_no_state_cannot_be_tracked(item: Any) -> None:
    with pytest.raises(UsageError, match="takes a tensor or an object"):
        make_state().track(item=item)


def test_a_scheduler_without_state_is_refused() -> None:
    model = nn.Linear(1, 1)

    with pytest.raises(UsageError, match="scheduler"):
        TrainState(model, torch.optim.SGD(model.parameters()), scheduler=object())
