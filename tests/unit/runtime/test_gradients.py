"""Ranks with unequal shares get the gradients of the global batch, and vote with them."""

import pytest
import torch
from torch import Tensor, nn

from ebbtide.runtime import gradients
from ebbtide.runtime.errors import CollectiveBroken, UsageError
from ebbtide.runtime.gradients import Reducer, Votes
from ebbtide.runtime.sharding import divide, divide_by_speed
from support.summing import ThreadGroup, alone, run_ranks


def make_model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1)).double()


def make_batch(size: int) -> Tensor:
    return torch.randn(size, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def gradients_of(model: nn.Module) -> list[Tensor]:
    return [each.grad for each in model.parameters() if each.grad is not None]


@pytest.mark.parametrize("world", [1, 2, 3, 5])
def test_unequal_shares_give_the_gradient_of_the_global_batch(world: int) -> None:
    batch = make_batch(7)
    whole = make_model()
    models = [make_model() for _ in range(world)]
    whole(batch).square().mean().backward()

    def train(rank: int, group: ThreadGroup) -> list[Tensor]:
        model = models[rank]
        share = divide(batch=7, rank=rank, world=world)
        model(batch[share.start : share.stop]).square().mean().backward()
        reducer = Reducer(model.parameters(), model.buffers())
        reducer.reduce(group, weight=len(share) / 7, pending=False, leaving=False)
        return gradients_of(model)

    for reduced in run_ranks(world, train):
        for mine, expected in zip(reduced, gradients_of(whole), strict=True):
            torch.testing.assert_close(mine, expected)


def test_a_rank_without_samples_adds_nothing_even_if_it_computed_nonsense() -> None:
    def train(rank: int, group: ThreadGroup) -> Tensor:
        weight = nn.Parameter(torch.zeros(2))
        weight.grad = torch.full((2,), float("nan") if rank else 3.0)
        Reducer([weight], []).reduce(group, weight=1.0 - rank, pending=False, leaving=False)
        return weight.grad

    assert [each.tolist() for each in run_ranks(2, train)] == [[3.0, 3.0], [3.0, 3.0]]


def test_running_statistics_are_averaged_by_share_and_counters_are_left() -> None:
    def train(rank: int, group: ThreadGroup) -> list[list[float]]:
        weight = nn.Parameter(torch.zeros(1))
        weight.grad = torch.zeros(1)
        mean, count = torch.full((1,), float(rank)), torch.tensor(7)
        reducer = Reducer([weight], [mean, count])
        reducer.reduce(group, weight=(0.25, 0.75)[rank], pending=False, leaving=False)
        return [mean.tolist(), [count.item()]]

    assert run_ranks(2, train) == [[[0.75], [7]], [[0.75], [7]]]


def test_votes_are_counted() -> None:
    def vote(rank: int, group: ThreadGroup) -> Votes:
        weight = nn.Parameter(torch.zeros(1))
        return Reducer([weight], []).reduce(
            group, weight=1 / 3, pending=rank > 0, leaving=rank == 2
        )

    assert run_ranks(3, vote) == [Votes(pending=2, leaving=1)] * 3


def test_a_parameter_that_no_rank_used_stays_without_gradient() -> None:
    def train(rank: int, group: ThreadGroup) -> list[bool]:
        some, none = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
        if rank == 0:
            some.grad = torch.ones(1)
        Reducer([some, none], []).reduce(group, weight=0.5, pending=False, leaving=False)
        return [some.grad is not None, none.grad is not None]

    assert run_ranks(2, train) == [[True, False], [True, False]]


def test_a_broken_collective_leaves_gradients_and_statistics_as_they_were() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    model(torch.randn(4, 3)).sum().backward()
    before = [each.clone() for each in (*gradients_of(model), *model.buffers())]
    reducer = Reducer(model.parameters(), model.buffers())

    with pytest.raises(CollectiveBroken):
        reducer.reduce(alone(breaks=1), weight=1.0, pending=False, leaving=False)

    after = [*gradients_of(model), *model.buffers()]
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_large_models_are_reduced_in_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradients, "BUCKET_BYTES", 64)
    parameters = [nn.Parameter(torch.zeros(10)) for _ in range(6)]
    for number, parameter in enumerate(parameters):
        parameter.grad = torch.full((10,), float(number))

    reducer = Reducer(parameters, [])
    reducer.reduce(alone(), weight=1.0, pending=False, leaving=False)

    assert reducer.num_bytes == 240
    assert reducer.num_tensors == 6
    assert [float(each.grad[0]) for each in parameters if each.grad is not None] == [*range(6)]


def test_a_model_without_parameters_is_refused() -> None:
    with pytest.raises(UsageError, match="no parameter to train"):
        Reducer([], [])


@pytest.mark.parametrize("world", [1, 2, 3])
def test_rows_of_sparse_gradients_are_those_that_any_rank_touched(world: int) -> None:
    words = torch.tensor([1, 1, 4, 7, 2, 1])
    whole = nn.Embedding(9, 2)
    torch.nn.init.ones_(whole.weight)
    whole(words).square().mean().backward()
    assert whole.weight.grad is not None

    def train(rank: int, group: ThreadGroup) -> Tensor:
        table = nn.Embedding(9, 2, sparse=True)
        torch.nn.init.ones_(table.weight)
        share = divide(batch=len(words), rank=rank, world=world)
        table(words[share.start : share.stop]).square().mean().backward()
        reducer = Reducer(table.parameters(), [])
        reducer.reduce(group, weight=len(share) / len(words), pending=False, leaving=False)
        assert table.weight.grad is not None
        return table.weight.grad

    for reduced in run_ranks(world, train):
        assert reduced.is_sparse
        assert reduced.indices().tolist() == [[1, 2, 4, 7]]
        torch.testing.assert_close(reduced.to_dense(), whole.weight.grad)


def train_by(world: int, batch: Tensor, state: dict[str, Tensor]) -> list[Tensor]:
    """The gradients of a batch that so many ranks share, in the model of this state."""

    def train(rank: int, group: ThreadGroup) -> list[Tensor]:
        mine = make_model()
        mine.load_state_dict(state)
        shares = divide_by_speed(batch=len(batch), speeds=[1.0] * world)
        assert sum(map(len, shares)) == len(batch)
        mine(batch[shares[rank].start : shares[rank].stop]).square().mean().backward()
        reducer = Reducer(mine.parameters(), mine.buffers())
        weight = len(shares[rank]) / len(batch)
        reducer.reduce(group, weight=weight, pending=False, leaving=False)
        return gradients_of(mine)

    return run_ranks(world, train)[0]


def test_b075_batch_and_rate_do_not_depend_on_how_many_train() -> None:
    batches = [make_batch(256) + step for step in range(6)]

    def run(*worlds: int) -> tuple[list[float], list[Tensor]]:
        """Train one step with each of these numbers of ranks; all hold one model."""
        model = make_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
        rates = []
        for world, batch in zip(worlds, batches, strict=True):
            summed = train_by(world, batch, model.state_dict())
            for parameter, gradient in zip(model.parameters(), summed, strict=True):
                parameter.grad = gradient
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        return rates, [parameter.detach() for parameter in model.parameters()]

    rates, reached = run(8, 5, 3, 8, 1, 8)
    plain_rates, plain = run(1, 1, 1, 1, 1, 1)

    assert rates == plain_rates == pytest.approx([0.1 / (1 + step) for step in range(6)])
    for mine, expected in zip(reached, plain, strict=True):
        torch.testing.assert_close(mine, expected)
