"""The training state is taken and put back whole."""

from typing import Any

import pytest
import torch
from torch import nn

from ebbtide.runtime import layouts, trees
from ebbtide.runtime.errors import MismatchError, UsageError
from ebbtide.runtime.state import TrainState
from support.packing import pack, unpack


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
    packed = pack(state.take())
    return packed.header, packed.flat.tolist()


def test_a_state_put_into_another_is_the_same_and_shares_nothing() -> None:
    one, other = make_state(0), make_state(1)
    train(one)

    other.put(unpack(pack(one.take())))
    assert fingerprint(other) == fingerprint(one)
    before = fingerprint(other)
    train(one)

    assert fingerprint(other) == before


def test_a_state_is_read_into_the_tensors_that_are_there() -> None:
    one, other = make_state(0), make_state(1)
    train(one)
    train(other)
    layout, source = layouts.lay_out(one.take())
    before = {each.data_ptr() for each in trees.tensors_of(other.take())}

    targets = other.targets(layout, in_place=True)

    assert {each.data_ptr() for each in targets.values()} == before
    assert not {each.data_ptr() for each in other.targets(layout, in_place=False).values()} & before
    for slot, tensor in zip(layout.slots, source, strict=True):
        targets[slot.name].copy_(tensor)
    other.put(layouts.rebuild(layout, targets))
    assert fingerprint(other) == fingerprint(one)


def test_an_optimizer_that_has_not_stepped_gets_tensors_of_its_own() -> None:
    one, other = make_state(0), make_state(1)
    train(one)
    layout, _ = layouts.lay_out(one.take())

    targets = other.targets(layout, in_place=True)

    moments = [name for name in targets if "exp_avg" in name]
    assert moments
    assert set(targets) == {slot.name for slot in layout.slots}


def make_other(*, width: int = 2, optimizer: type = torch.optim.Adam, extra: bool = False) -> Any:
    model = nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width))
    if extra:
        model.append(nn.Linear(width, 1))
    made = optimizer(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(made, milestones=[1, 3])
    state = TrainState(model, made, scheduler)
    state.track(average=torch.zeros(2), head=nn.Linear(2, 2))
    return state


@pytest.mark.parametrize(
    ("other", "words"),
    [
        pytest.param(
            {"width": 4},
            r"0\.bias was float32 \[2\] and is float32 \[4\]; 0\.weight .*; and 1 more",
            id="another width",
        ),
        pytest.param({"extra": True}, r"2\.bias was absent and is float32 \[1\]", id="a new layer"),
        pytest.param(
            {"optimizer": torch.optim.SGD}, "the optimizer was Adam and is SGD", id="optimizer"
        ),
    ],
)
def test_b069_another_model_or_optimizer_is_refused_with_both_sides(
    other: dict[str, Any], words: str
) -> None:
    one = make_state()
    train(one)
    layout, _ = layouts.lay_out(one.take())

    with pytest.raises(MismatchError, match=words):
        make_other(**other).targets(layout, in_place=True)


def test_what_is_no_training_state_is_refused() -> None:
    layout, _ = layouts.lay_out({"model": dict(make_state().model.state_dict())})

    with pytest.raises(MismatchError, match="none of a training script's"):
        make_state().targets(layout, in_place=True)


def test_an_optimizer_of_other_groups_is_refused() -> None:
    one, other = make_state(), make_state()
    tree = one.take()
    tree["optimizer"] = {"state": {}, "param_groups": []}

    with pytest.raises(MismatchError, match=r"this script's Sequential and Adam: .*groups"):
        other.put(tree)


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

    with pytest.raises(MismatchError, match=r"tracks \['average', 'head'\]"):
        other.put(one.take())


@pytest.mark.parametrize("item", [3, "text", object(), [torch.zeros(1)]])
def test_what_has_no_state_cannot_be_tracked(item: Any) -> None:
    with pytest.raises(UsageError, match="takes a tensor or an object"):
        make_state().track(item=item)


def test_a_scheduler_without_state_is_refused() -> None:
    model = nn.Linear(1, 1)

    with pytest.raises(UsageError, match="scheduler"):
        TrainState(model, torch.optim.SGD(model.parameters()), scheduler=object())
