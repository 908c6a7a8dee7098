"""
A recommender with large embeddings learns what made-up people like.

Almost all of its parameters are two tables of which a step touches a few rows; their gradients are
sparse. Parameter servers are made for that; with all-reduce it trains too, at more bytes a step.
"""

import argparse
import sys

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset
from typing_extensions import override

import ebbtide.runtime as ebb

PEOPLE = 20_000
THINGS = 5_000
TASTES = 4  # what is behind all likings
NUM_TRAIN = 400_000
NUM_TEST = 20_000


class Recommender(nn.Module):
    """Two tables and a small net over the rows of a person and a thing."""

    def __init__(self, *, width: int = 16) -> None:
        super().__init__()
        self.people = nn.Embedding(PEOPLE, width, sparse=True)
        self.things = nn.Embedding(THINGS, width, sparse=True)
        for table in (self.people, self.things):
            nn.init.normal_(table.weight, std=0.1)
        self.net = nn.Sequential(nn.Linear(3 * width, 32), nn.ReLU(), nn.Linear(32, 1))

    @override
    def forward(self, pairs: Tensor) -> Tensor:
        """Give one score per pair of person and thing: above 0 means liked."""
        person, thing = self.people(pairs[:, 0]), self.things(pairs[:, 1])
        scores: Tensor = self.net(torch.cat([person, thing, person * thing], dim=1)).squeeze(1)
        likings: Tensor = scores + (person * thing).sum(dim=1)
        return likings


def make_data() -> tuple[TensorDataset, TensorDataset]:
    """Make up people, things and likings, the same every time."""
    chance = torch.Generator().manual_seed(5)
    people = torch.randn(PEOPLE, TASTES, generator=chance)
    things = torch.randn(THINGS, TASTES, generator=chance)
    number = NUM_TRAIN + NUM_TEST
    pairs = torch.stack(
        [
            torch.randint(0, PEOPLE, (number,), generator=chance),
            # A few things are known to everybody, as it is.
            (torch.rand(number, generator=chance) ** 2 * THINGS).long(),
        ],
        dim=1,
    )
    # The first of the tastes is shared by all: some things are better than others.
    shared = people.new_tensor([2.0] + [0.5] * (TASTES - 1))
    people[:, 0] = 1.0
    likes = (people[pairs[:, 0]] * things[pairs[:, 1]] * shared).sum(dim=1)
    liked = (likes + 0.5 * torch.randn(number, generator=chance) > 0).float()
    train, test = slice(NUM_TRAIN), slice(NUM_TRAIN, None)
    return TensorDataset(pairs[train], liked[train]), TensorDataset(pairs[test], liked[test])


@torch.no_grad()
def accuracy(model: nn.Module, data: TensorDataset) -> float:
    """Return the share of pairs that are judged right."""
    pairs, liked = data.tensors
    return float(((model(pairs) > 0).float() == liked).float().mean())


def main() -> None:
    """Train and tell how many unseen likings are guessed right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400, help="of a local job")
    parser.add_argument("--local", type=int, default=None, help="so many processes, no cluster")
    options = parser.parse_args()
    torch.sparse.check_sparse_tensor_invariants.disable()  # or Adagrad warns that it is off
    train, test = make_data()

    job = ebb.join(local=options.local, steps=options.steps, global_batch_size=1024)
    torch.manual_seed(0)
    model = Recommender().to(job.device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    model, optimizer, _ = job.wrap(model, optimizer)
    loss_of = nn.BCEWithLogitsLoss()
    for batch in job.steps(job.shard(train, seed=0)):
        loss = loss_of(model(batch.x.to(job.device)), batch.y.to(job.device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        job.log(loss=loss)

    sys.stdout.write(f"test accuracy {accuracy(model.cpu(), test):.4f} after {job.step} steps\n")


if __name__ == "__main__":
    main()
