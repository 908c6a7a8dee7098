"""
An ordinary torchrun script: nothing in it knows of Ebbtide.

A small network learns the digits that ship with scikit-learn, with DistributedDataParallel and a
checkpoint of its own every few steps. It runs under `torchrun train.py` as well, on one machine or
many; a launcher starts it again whenever the processes that train together change.
"""

import argparse
import hashlib
import json
import os
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    """Train until all steps are done, from the newest checkpoint on."""
    options = read_options()
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo", timeout=timedelta(seconds=60))
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    images, labels = (tensor.to(device) for tensor in load_data())

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step = load(options.checkpoints, model, optimizer, device)
    print(f"rank {rank} of {world} begins at step {step}", flush=True)

    parallel = DistributedDataParallel(model)
    while step < options.steps:
        mine = choose_samples(step, options.batch, len(images))[rank::world]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(parallel(images[mine]), labels[mine])
        loss.backward()
        optimizer.step()
        step += 1
        time.sleep(options.pause)  # for the compute of a larger model
        if rank == 0 and (step % options.every == 0 or step == options.steps):
            save(options.checkpoints, model, optimizer, step)

    if rank == 0:
        correct = (model(images).argmax(1) == labels).float().mean().item()
        result = {"steps": step, "world": world, "accuracy": correct, "digest": digest(model)}
        (options.checkpoints / "result.json").write_text(json.dumps(result))
        print(f"{correct:.1%} of the digits are read right after {step} steps", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def read_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoints", type=Path, default=Path("/checkpoints"))
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--every", type=int, default=10, help="steps between two checkpoints")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds per step")
    return parser.parse_args()


def load_data() -> tuple[Tensor, Tensor]:
    """Return images and labels."""
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    return images, torch.tensor(digits.target)


def choose_samples(step: int, batch: int, total: int) -> Tensor:
    """Return the samples of one step over all ranks: the same whatever their number."""
    generator = torch.Generator().manual_seed(step)
    return torch.randperm(total, generator=generator)[:batch]


def save(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Write the whole state beside the old one, then put it in its place."""
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(state, folder / "state.new")
    (folder / "state.new").rename(folder / "state.pt")


def load(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device
) -> int:
    """Take up the newest state; return its step."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "state.pt").exists():
        return 0
    state = torch.load(folder / "state.pt", map_location=device, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"])


def digest(model: nn.Module) -> str:
    """Return what tells two models apart."""
    numbers = b"".join(tensor.cpu().numpy().tobytes() for tensor in model.state_dict().values())
    return hashlib.sha256(numbers).hexdigest()[:16]


if __name__ == "__main__":
    main()
