"""
A small convolutional net on scikit-learn's handwritten digits: 1,797 pictures of 8 x 8.

Trains through the loss and return of workers; ends with the accuracy on pictures it has not seen.
Nothing here knows how many workers there are or that one of them may go.
"""

import argparse
import hashlib
import json
import os
import sys
import time
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import TensorDataset
from typing_extensions import override

import ebbtide.runtime as ebb

NUM_TEST = 360


class Net(nn.Module):
    """Two convolutions, one hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.head = nn.Sequential(
            nn.Flatten(), nn.Linear(32 * 16, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10)
        )

    @override
    def forward(self, pictures: Tensor) -> Tensor:
        """Give ten scores per picture."""
        scores: Tensor = self.head(self.features(pictures))
        return scores


def load() -> tuple[TensorDataset, TensorDataset]:
    """Return training and test pictures; the split is always the same."""
    digits = load_digits()
    pictures = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target, dtype=torch.int64)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(7))
    test, train = order[:NUM_TEST], order[NUM_TEST:]
    return TensorDataset(pictures[train], labels[train]), TensorDataset(
        pictures[test], labels[test]
    )


@torch.no_grad()
def evaluate(model: nn.Module, data: TensorDataset) -> tuple[float, float]:
    """Return accuracy and loss on pictures that were not trained on."""
    model.eval()
    pictures, labels = data.tensors
    scores = model(pictures)
    loss = nn.functional.cross_entropy(scores, labels)
    return float((scores.argmax(1) == labels).float().mean()), float(loss)


def digest(model: nn.Module) -> str:
    """Return a fingerprint of all weights and statistics, bit for bit."""
    total = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        total.update(name.encode())
        total.update(tensor.contiguous().numpy().tobytes())
    return total.hexdigest()


def parse() -> argparse.Namespace:
    """Read the options; the defaults are what the demonstration uses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds of make-believe compute")
    parser.add_argument(
        "--pause-per-sample", type=float, default=0.0, help="... that shrinks with the local batch"
    )
    parser.add_argument(
        "--fail-at", type=int, default=-1, help="raise at this step, to see a crash"
    )
    parser.add_argument("--local", type=int, default=None, help="so many processes, no cluster")
    parser.add_argument("--steps", type=int, default=400, help="of a local job")
    parser.add_argument("--checkpoints", default="", help="where a local job keeps them")
    return parser.parse_args()


def main() -> None:
    """Train, evaluate, and write the result beside the checkpoints."""
    options = parse()
    train, test = load()
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=200, gamma=0.5)

    job = ebb.join(
        local=options.local,
        steps=options.steps,
        global_batch_size=64,
        checkpoint_path=options.checkpoints,
    )
    model, optimizer, scheduler = job.wrap(model, optimizer, scheduler=scheduler)
    data = job.shard(train, seed=0)
    loss_of = nn.CrossEntropyLoss()
    for batch in job.steps(data):
        if job.step == options.fail_at:
            raise RuntimeError(f"told to fail at step {job.step}")
        loss = loss_of(model(batch.x), batch.y)
        time.sleep(options.pause + options.pause_per_sample * len(batch.x))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
        job.log(loss=loss)

    accuracy, loss = evaluate(model, test)
    sys.stdout.write(f"test accuracy {accuracy:.4f} loss {loss:.4f} after {job.step} steps\n")
    if job.is_chief:
        result = {
            "accuracy": accuracy,
            "loss": loss,
            "steps": job.step,
            "digest": digest(model),
        }
        path = Path(job.checkpoint_path) / "result.json"
        unfinished = path.with_suffix(f".{os.getpid()}.tmp")
        unfinished.write_text(json.dumps(result, indent=1))
        unfinished.replace(path)


if __name__ == "__main__":
    main()
