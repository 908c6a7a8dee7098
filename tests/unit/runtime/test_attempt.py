"""One try at one step: applied on all, or as if it had not been."""

from typing import Any

import pytest
import torch
from torch import nn

from ebbtide.runtime.attempt import Attempt, Phase
from ebbtide.runtime.errors import CollectiveBroken, UsageError
from ebbtide.runtime.state import TrainState
from support.summing import ThreadGroup, alone


class Bench:
    """A small training state with one rank."""

    def __init__(self, *, breaks: int = 0) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, step_size=1)
        self.state = TrainState(self.model, self.optimizer, self.scheduler)
        self.average = torch.zeros(2)
        self.state.track(average=self.average)
        self.group: ThreadGroup = alone(breaks=breaks)
        self.fenced = 0
        self.attempt = Attempt(
            self.state, group=self.group, fence=self._fence, vote=lambda: (False, False)
        )

    def _fence(self) -> None:
        self.fenced += 1

    def forward(self) -> None:
        self.attempt.open(weight=1.0)
        self.model(torch.randn(4, 3, generator=torch.Generator().manual_seed(1))).sum().backward()

    def body(self) -> bool:
        self.forward()
        self.attempt.apply(self.optimizer.step)
        self.optimizer.zero_grad()
        self.attempt.schedule(self.scheduler.step)
        self.average += 1
        return self.attempt.settle()

    def flat(self) -> list[float]:
        tensors = [*self.model.state_dict().values(), self.average]
        rate = self.optimizer.param_groups[0]["lr"]
        return [rate, *(float(value) for each in tensors for value in each.flatten())]


def test_an_unbroken_try_is_what_plain_training_does() -> None:
    ours, plain = Bench(), Bench()

    assert ours.body()
    plain.model(torch.randn(4, 3, generator=torch.Generator().manual_seed(1))).sum().backward()
    plain.optimizer.step()
    plain.scheduler.step()
    plain.average += 1

    assert ours.flat() == pytest.approx(plain.flat())
    assert ours.fenced == 1


def test_a_broken_try_leaves_everything_as_it_was_and_the_next_one_makes_it_good() -> None:
    broken, undisturbed = Bench(breaks=1), Bench()
    before = broken.flat()

    assert not broken.body()
    assert broken.flat() == before
    assert all(each.grad is None for each in broken.model.parameters())

    assert broken.body()
    assert undisturbed.body()
    assert broken.flat() == undisturbed.flat()


def test_an_early_reduction_is_not_repeated() -> None:
    bench = Bench()

    bench.forward()
    assert bench.attempt.reduce()
    nn.utils.clip_grad_norm_(bench.model.parameters(), 0.1)
    bench.attempt.apply(bench.optimizer.step)

    assert bench.group.summed == 1
    assert bench.attempt.settle()


def test_a_sum_of_the_scripts_own_breaks_the_whole_step() -> None:
    bench = Bench(breaks=1)
    before = bench.flat()

    bench.forward()
    total = bench.attempt.all_reduce(torch.tensor([2.0]), scoped=False)
    bench.attempt.apply(bench.optimizer.step)

    assert total.tolist() == [2.0]
    assert bench.group.summed == 0
    assert not bench.attempt.settle()
    assert bench.flat() == before


def test_within_a_scope_a_broken_sum_is_raised_again_and_again() -> None:
    bench = Bench(breaks=1)

    bench.forward()
    for _ in range(2):
        with pytest.raises(CollectiveBroken, match="told to break"):
            bench.attempt.all_reduce(torch.ones(1), scoped=True)

    assert bench.attempt.phase is Phase.BROKEN


def test_a_sum_leaves_the_scripts_own_tensor_alone() -> None:
    bench = Bench()
    mine = torch.tensor([3.0])

    bench.forward()
    total = bench.attempt.all_reduce(mine, scoped=False)
    total += 1

    assert mine.tolist() == [3.0]


def test_outside_of_a_step_the_optimizer_is_the_scripts_own() -> None:
    bench = Bench()

    assert bench.attempt.apply(lambda: "stepped") == "stepped"
    assert bench.group.summed == 0


@pytest.mark.parametrize(
    ("misuse", "complaint"),
    [
        pytest.param(lambda bench: bench.attempt.settle(), "did not call optimizer.step", id="no"),
        pytest.param(
            lambda bench: [bench.attempt.apply(bench.optimizer.step) for _ in range(2)],
            "called twice",
            id="twice",
        ),
        pytest.param(
            lambda bench: [
                bench.attempt.apply(bench.optimizer.step),
                bench.attempt.all_reduce(torch.ones(1), scoped=False),
            ],
            "before optimizer.step",
            id="late sum",
        ),
    ],
)
def test_misuse_is_named(misuse: Any, complaint: str) -> None:
    bench = Bench()
    bench.forward()

    with pytest.raises(UsageError, match=complaint):
        misuse(bench)


def test_reducing_before_the_loop_is_named() -> None:
    with pytest.raises(UsageError, match="inside the loop"):
        Bench().attempt.reduce()


@pytest.mark.parametrize("own", [0, 1, 2])
def test_ranks_that_are_to_meet_do_so_once_before_their_first_sum(own: int) -> None:
    bench = Bench()

    bench.attempt.open(weight=1.0, meets=True)
    bench.model(torch.ones(4, 3)).sum().backward()
    for _ in range(own):
        bench.attempt.all_reduce(torch.ones(1), scoped=True)
    bench.attempt.apply(bench.optimizer.step)

    assert bench.group.summed == 1 + own + 1, "the meeting, the script's own, the gradients"
    spent = bench.attempt.spent
    assert 0 < spent.met < spent.collectives
    assert bench.attempt.settle()


def test_other_tries_sum_up_nothing_more() -> None:
    bench = Bench()

    bench.body()

    assert bench.group.summed == 1
    assert bench.attempt.spent.met == 0.0
    assert bench.attempt.spent.collectives > 0


def test_a_member_lost_before_they_meet_breaks_the_step() -> None:
    bench = Bench(breaks=1)

    bench.attempt.open(weight=1.0, meets=True)
    bench.model(torch.ones(4, 3)).sum().backward()

    assert not bench.attempt.reduce()
    assert not bench.attempt.settle()
    assert bench.group.summed == 0
