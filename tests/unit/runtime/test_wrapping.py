"""What the ranks could not keep equal is refused, before one of them goes its own way."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from ebbtide.runtime import wrapping
from ebbtide.runtime.attempt import Attempt, Phase
from ebbtide.runtime.errors import UsageError
from ebbtide.runtime.state import TrainState
from support.summing import ThreadGroup, alone, run_ranks


class Mixed:
    """One rank that trains with a gradient scaler."""

    def __init__(self, group: ThreadGroup, *, tracks: bool = True, fused: bool = False) -> None:
        self.model = nn.Linear(2, 1)
        for parameter in self.model.parameters():
            nn.init.constant_(parameter, 0.5)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, fused=fused)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        self.state = TrainState(self.model, self.optimizer)
        if tracks:
            self.state.track(scaler=self.scaler)
        self.attempt = Attempt(
            self.state, group=group, fence=lambda: None, vote=lambda: (False, False)
        )
        inner = self.optimizer.step
        wrapped: Any = self.optimizer
        wrapped.step = lambda: self.attempt.apply(inner)

    def body(self, *, factor: float = 1.0, early: bool = True, unscale_first: bool = False) -> bool:
        self.attempt.open(weight=0.5)
        loss = self.model(torch.ones(4, 2)).mean() * factor
        self.scaler.scale(loss).backward()
        if unscale_first:
            self.scaler.unscale_(self.optimizer)
        if early:
            self.attempt.reduce()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        return self.attempt.settle()

    def weights(self) -> list[float]:
        return [
            float(value) for each in self.model.state_dict().values() for value in each.flatten()
        ]


def test_parameters_of_another_module_are_refused_with_their_place() -> None:
    model, other = nn.Linear(4, 1), nn.Linear(4, 3)
    optimizer = torch.optim.SGD([*model.parameters(), *other.parameters()], lr=0.1)

    with pytest.raises(UsageError, match=r"trains 2 parameters .*number 2 of group 0, 3 x 4"):
        wrapping.check_parts(model, optimizer)


def test_a_part_of_the_model_may_be_trained() -> None:
    model = nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 1))

    wrapping.check_parts(model, torch.optim.SGD(model[1].parameters(), lr=0.1))


@pytest.mark.parametrize(
    "call", [((lambda: 1.0,), {}), ((), {"closure": lambda: 1.0})], ids=["by place", "by name"]
)
def test_a_closure_is_refused(call: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    with pytest.raises(UsageError, match="summed over the ranks before the step"):
        wrapping.check_call(*call)


def test_no_closure_is_none() -> None:
    wrapping.check_call((None,), {})
    wrapping.check_call((), {"closure": None})


def thaw(model: nn.Sequential, optimizer: torch.optim.Optimizer) -> None:
    model[0].requires_grad_(requires_grad=True)


def extend(model: nn.Sequential, optimizer: torch.optim.Optimizer) -> None:
    stranger = nn.Parameter(torch.ones(2))
    stranger.grad = torch.ones(2)
    optimizer.add_param_group({"params": [stranger]})


@pytest.mark.parametrize(
    ("change", "named"),
    [(thaw, "0.weight is trained now"), (extend, "that is not the wrapped model's is trained")],
)
def test_what_is_trained_from_the_middle_on_is_refused_before_the_sum(
    change: Callable[[nn.Sequential, torch.optim.Optimizer], None], named: str
) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    model[0].requires_grad_(requires_grad=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    group = alone()
    attempt = Attempt(
        TrainState(model, optimizer), group=group, fence=lambda: None, vote=lambda: (False, False)
    )
    attempt.open(weight=1.0)
    change(model, optimizer)
    model(torch.ones(1, 2)).sum().backward()

    with pytest.raises(UsageError, match=named):
        attempt.apply(optimizer.step)
    assert group.summed == 0


def test_a_second_optimizer_of_the_same_model_is_refused_and_one_of_a_copy_is_not() -> None:
    model, copy = nn.Linear(2, 1), nn.Linear(2, 1)

    wrapping.check_other(model, torch.optim.SGD(copy.parameters(), lr=0.1))
    with pytest.raises(UsageError, match="a second optimizer, Adam"):
        wrapping.check_other(model, torch.optim.Adam(model.parameters()))


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("unscale_first", [False, True])
def test_an_overflow_on_one_rank_leaves_the_step_out_on_all(
    *, fused: bool, unscale_first: bool
) -> None:
    def body(rank: int, group: ThreadGroup) -> tuple[list[float], list[float], list[float]]:
        mixed = Mixed(group, fused=fused)
        first = mixed.weights()
        overflows = float("inf") if rank == 0 else 1.0
        assert mixed.body(factor=overflows, unscale_first=unscale_first)
        second = mixed.weights()
        assert mixed.body(unscale_first=unscale_first)
        return first, second, mixed.weights()

    one, other = run_ranks(2, body)

    assert one == other
    assert one[0] == one[1] != one[2]


@pytest.mark.parametrize("fused", [False, True])
def test_a_scaler_that_looks_before_the_sum_is_refused_at_its_first_step(*, fused: bool) -> None:
    mixed = Mixed(alone(), tracks=fused is False, fused=fused)

    with pytest.raises(UsageError, match=r"before they were summed: .*job\.reduce_gradients\(\)"):
        mixed.body(early=False)


def test_a_step_that_an_untracked_scaler_leaves_out_is_refused_in_words() -> None:
    mixed = Mixed(alone(), tracks=False)

    with pytest.raises(UsageError, match=r"did not call .*job\.track\(scaler=scaler\)"):
        mixed.body(factor=float("inf"))


def test_a_script_that_never_steps_is_refused_with_a_scaler_too() -> None:
    mixed = Mixed(alone())
    mixed.attempt.open(weight=1.0)
    mixed.model(torch.ones(1, 2)).sum().backward()
    mixed.attempt.reduce()
    assert mixed.attempt.phase is Phase.REDUCED

    with pytest.raises(UsageError, match="did not call"):
        mixed.attempt.settle()
