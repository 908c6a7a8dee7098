"""The model and the step that ours and every peer train, and the mark that a step leaves."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

ENV_MARKS: Final = "EBBTIDE_BENCH_MARKS"
"""The file that every process of a run appends its marks to."""
GLOBAL_BATCH: Final = 32
COMPUTE_S: Final = 0.02
"""A step's time on the device, which here is slept ..."""
ENV_COMPUTE: Final = "EBBTIDE_BENCH_COMPUTE"
"""... unless this variable says otherwise, in seconds."""
WIDTH: Final = 64
TAIL_BYTES: Final = 1 << 16
"""Of the file of marks: ten seconds of some members."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One applied step: when, on the clock that all processes of a machine share, and whose."""

    at: float
    pid: int
    step: int


class Marker:
    """Appends this process's marks."""

    def __init__(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._file = os.open(os.environ[ENV_MARKS], flags, 0o600)

    def leave(self, step: int) -> None:
        """Say that a step is applied now."""
        os.write(self._file, f"{time.monotonic():.6f} {os.getpid()} {step}\n".encode())


def read_marks(path: Path) -> list[Mark]:
    """
    Return the newest marks, oldest first; one that is being written is left out.

    A long run has more than can be read again and again: the last `TAIL_BYTES` are looked at.
    """
    if not path.exists():
        return []
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL_BYTES))
        lines = file.read().decode("ascii").splitlines(keepends=True)
    if size > TAIL_BYTES:
        del lines[0]  # cut in two
    whole = [line.split() for line in lines if line.endswith("\n")]
    return sorted(
        (Mark(float(at), int(pid), int(step)) for at, pid, step in whole), key=lambda mark: mark.at
    )


def make_data() -> TensorDataset:
    """Return points and labels, always the same."""
    chance = torch.Generator().manual_seed(1)
    points = torch.randn(1024, WIDTH, generator=chance)
    return TensorDataset(points, torch.randint(0, 10, (1024,), generator=chance))


def make_model() -> nn.Module:
    """Return a small classifier, always the same."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))


def make_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    """Return what every run steps with."""
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def compute(model: nn.Module, points: Tensor, labels: Tensor) -> Tensor:
    """Return the loss of a batch after the time of a step."""
    time.sleep(float(os.environ.get(ENV_COMPUTE, COMPUTE_S)))
    loss: Tensor = nn.functional.cross_entropy(model(points), labels)
    return loss
