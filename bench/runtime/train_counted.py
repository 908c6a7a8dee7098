"""
A script that writes down which samples it computed on in each step, and which steps it applied.

The first is written before the gradients meet, the second after, so that a kill at any moment
leaves enough to tell who brought which samples to each step that counts.
"""

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Final

import torch
from torch import nn
from torch.utils.data import TensorDataset

import ebbtide.runtime as ebb
from ebbtide.wire import names
from runtime import small

SAMPLES: Final = 200
"""No multiple of the batch: steps run over the ends of epochs."""
PAUSE_S: Final = 0.003


def main() -> None:
    """Train until the work is done; leave a mark for each step, the account, and the result."""
    marker = small.Marker()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    chance = torch.Generator().manual_seed(1)
    data = TensorDataset(torch.randn(SAMPLES, 8, generator=chance), torch.arange(SAMPLES))
    job = ebb.join()
    model, optimizer, _ = job.wrap(model, optimizer)
    folder, name = Path(job.checkpoint_path), os.environ[names.ENV_WORKER]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"account-{name}").open("a", buffering=1, encoding="ascii") as account:
        for batch in job.steps(job.shard(data, seed=4)):
            tried = ["tried", job.step, job.rank, job.world_size, batch.y.tolist()]
            account.write(json.dumps(tried) + "\n")
            time.sleep(PAUSE_S)
            model(batch.x).pow(2).mean().backward()
            if job.reduce_gradients():
                optimizer.step()
                account.write(json.dumps(["applied", job.step]) + "\n")
            optimizer.zero_grad()
            marker.leave(job.step)
    _write_result(folder, name, model, step=job.step)


def _write_result(folder: Path, name: str, model: nn.Module, *, step: int) -> None:
    total = hashlib.sha256()
    for tensor in model.state_dict().values():
        total.update(tensor.detach().contiguous().numpy().tobytes())
    unfinished = folder / f"unfinished-{name}"
    unfinished.write_text(json.dumps({"digest": total.hexdigest(), "step": step}))
    unfinished.rename(folder / f"result-{name}-0.json")


if __name__ == "__main__":
    main()
