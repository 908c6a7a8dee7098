"""
The training script of the parameter server tests: a small task, and what it ended with.

Least squares with a known answer, so the loss says how far training is; a table of rows where asked
for; and a record of which steps this process pushed.
"""

import argparse
import json
import os
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset
from typing_extensions import override

import ebbtide.runtime as ebb
from ebbtide.wire import names
from support.faults import Faults

SAMPLES, WIDTH, ROWS = 256, 8, 50


class Net(nn.Module):
    """One linear map, and a table of rows if wanted."""

    def __init__(self, *, width: int, rows: bool) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, width)
        self.last = nn.Linear(width, 1)
        self.table = nn.Embedding(ROWS, 1, sparse=True) if rows else None

    @override
    def forward(self, x: torch.Tensor, kind: torch.Tensor) -> torch.Tensor:
        """Give one number for each sample."""
        out: torch.Tensor = self.last(self.first(x))
        return out if self.table is None else out + self.table(kind)


def make_data() -> TensorDataset:
    """Return samples with a known answer."""
    chance = torch.Generator().manual_seed(3)
    x = torch.randn(SAMPLES, WIDTH, generator=chance)
    kind = torch.randint(0, ROWS, (SAMPLES,), generator=chance)
    answer = x @ torch.linspace(-1, 1, WIDTH).unsqueeze(1) + (kind.unsqueeze(1) % 5) / 5
    return TensorDataset(x, kind, answer)


def main() -> None:
    """Train and write down what came out."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--width", type=int, default=WIDTH)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--optimizer", default="SGD")
    parser.add_argument("--rows", action="store_true")
    options = parser.parse_args()
    faults = Faults()
    torch.manual_seed(0)
    model = Net(width=options.width, rows=options.rows)
    optimizer = getattr(torch.optim, options.optimizer)(model.parameters(), lr=options.rate)
    job = ebb.join()
    model, optimizer, _ = job.wrap(model, optimizer)
    data = make_data()
    pushed = []
    log = Path(os.environ[names.ENV_CHECKPOINT_PATH]).parent / "steps"
    with torch.sparse.check_sparse_tensor_invariants():
        for x, kind, answer in job.steps(job.shard(data, seed=5)):
            step = job.step
            loss = (model(x, kind) - answer).square().mean()
            time.sleep(options.pause)
            faults.pass_by(step, "compute")
            loss.backward()
            optimizer.step()
            pushed.append(step)
            with log.open("a") as file:
                file.write(f"{step} {float(loss)}\n")
            faults.pass_by(step, "applied")
            optimizer.zero_grad()
            job.log(loss=loss)
    with torch.no_grad():
        x, kind, answer = data.tensors
        loss = (model(x, kind) - answer).square().mean()
    result = {"step": job.step, "pushed": pushed, "loss": float(loss), "chief": job.is_chief}
    path = Path(job.checkpoint_path) / f"result-{os.environ[names.ENV_WORKER]}-0.json"
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(result))
    unfinished.rename(path)


if __name__ == "__main__":
    main()
