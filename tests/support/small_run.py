"""
The training script of the runtime tests: small, with everything in it that must survive.

Running statistics, dropout, momentum, a schedule and a tracked average: each would differ at the
end if one of them were lost, applied twice or drawn from other random numbers.
"""

import argparse
import hashlib
import json
import os
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

import ebbtide.runtime as ebb
from ebbtide.wire import names
from support.faults import Faults

SAMPLES = 250
RESULTS = "EBBTIDE_TESTRESULTS"  # the folder for them, where checkpoints go to no folder


def make_data() -> TensorDataset:
    """Return points of three clouds, always the same."""
    chance = torch.Generator().manual_seed(3)
    centres = torch.randn(3, 12, generator=chance) * 2
    labels = torch.randint(0, 3, (SAMPLES,), generator=chance)
    return TensorDataset(centres[labels] + torch.randn(SAMPLES, 12, generator=chance), labels)


def make_model(width: int, *, running: bool) -> nn.Sequential:
    """Return a net with dropout, and with running statistics if wanted."""
    norm = nn.BatchNorm1d(width) if running else nn.LayerNorm(width)
    return nn.Sequential(
        nn.Linear(12, width), norm, nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, 3)
    )


def digest(*tensors: torch.Tensor) -> str:
    """Return a fingerprint, bit for bit."""
    total = hashlib.sha256()
    for tensor in tensors:
        total.update(tensor.detach().contiguous().numpy().tobytes())
    return total.hexdigest()


def read_options() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--pause-per-sample", type=float, default=0.0)
    parser.add_argument("--slow-gpu", default="", help="a kind that takes three times as long")
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--seed-by-index", action="store_true", help="each starts elsewhere")
    parser.add_argument("--layer-norm", action="store_true", help="single samples are enough")
    parser.add_argument("--ballast", type=int, default=0, help="numbers of state to carry along")
    options = parser.parse_args()
    if options.slow_gpu and os.environ[names.ENV_GPU] == options.slow_gpu:
        options.pause_per_sample *= 3
    return options


def main() -> None:
    """Train and write down what came out."""
    options = read_options()
    faults = Faults()
    torch.manual_seed(int(os.environ[names.ENV_INDEX]) if options.seed_by_index else 0)
    model = make_model(options.width, running=not options.layer_norm)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=20, gamma=0.9)
    average = torch.zeros(3, options.width)

    job = ebb.join()
    head = model[-1]
    if not isinstance(head, nn.Linear):
        raise TypeError(head)
    model, optimizer, scheduler = job.wrap(model, optimizer, scheduler=scheduler)
    job.track(average=average, ballast=torch.arange(options.ballast))
    faults.watch(job, model)
    loss_of = nn.CrossEntropyLoss()
    total, share = torch.zeros(()), 0
    for step in job.steps(job.shard(make_data(), seed=5)):
        with step as batch:
            loss = loss_of(model(batch.x), batch.y)
            time.sleep(options.pause + options.pause_per_sample * len(batch.x))
            share = len(batch.x)
            faults.pass_by(job.step, "compute")
            loss.backward()
            total = job.all_reduce(batch.y.sum())
            optimizer.step()
            faults.pass_by(job.step, "applied")
            optimizer.zero_grad()
            scheduler.step()
            average.mul_(0.9).add_(head.weight.detach(), alpha=0.1)
            job.log(loss=loss)

    faults.pass_by(job.step, "done")
    name = f"{os.environ[names.ENV_WORKER]}-{os.environ[names.ENV_LOCAL_RANK]}"
    result = {
        "step": job.step,
        "world": job.world_size,
        "rank": job.rank,
        "chief": job.is_chief,
        "digest": digest(*model.state_dict().values(), average),
        "weights": [float(value) for value in head.weight.detach().flatten()],
        "rate": optimizer.param_groups[0]["lr"],
        "labels": int(total),
        "share": share,
    }
    path = Path(os.environ.get(RESULTS) or job.checkpoint_path) / f"result-{name}.json"
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(result))
    unfinished.rename(path)  # whoever waits for the file must never read half of it


if __name__ == "__main__":
    main()
