"""
A throw-away child that trains for two steps, to find what a first step pulls in.

It is forked from a process that has nothing but its imports, joins a job made for it alone, with a
coordinator, saves and all, and tells which modules it had to import on the way. It may start
threads and hold whatever it likes, since it ends; who forked it stays as it was. It sees no GPU: a
context takes seconds, and what a step on one imports is what a step on the CPU does.
"""

import linecache
import os
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NoReturn

from ebbtide.runtime import needs, reaping
from ebbtide.runtime.needs import Needs
from ebbtide.wire import names

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

PATIENCE_S: Final = 60.0
READ_BYTES: Final = 1 << 16
STEPS: Final = 2
WIDTH: Final = 8


class TrialError(Exception):
    """The child found nothing; the text says why, for a person."""


def find(train: Callable[[str], None] | None = None, *, patience: float = PATIENCE_S) -> Needs:
    """
    Return what a first step pulls in beyond what is imported already; `TrialError` without.

    Call it with a single thread. `train` gets a folder that goes away, and is `train_alone` if not
    given; after `patience` seconds the child is killed.
    """
    with tempfile.TemporaryDirectory(prefix="ebbtide-trial-") as folder:
        read, write = os.pipe()
        pid = reaping.fork()
        if pid == 0:
            os.close(read)
            _be_child(train or train_alone, folder=folder, answer=write)
        os.close(write)
        try:
            said = _hear(read, until=time.monotonic() + patience)
        finally:
            os.close(read)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    try:
        return needs.decode(said)
    except ValueError as error:
        reason = said.decode(errors="replace") if said else "it said nothing"
        raise TrialError(reason[:500]) from error


def train_alone(folder: str) -> None:
    """Train a tiny model as a job of one process, from joining to the last checkpoint."""
    import torch  # noqa: PLC0415 -- preloaded by whoever forks
    from torch import nn  # noqa: PLC0415 -- torch is loaded already
    from torch.utils.data import TensorDataset  # noqa: PLC0415 -- torch is loaded already

    from ebbtide.runtime import joining  # noqa: PLC0415 -- it imports torch

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(WIDTH, WIDTH),
        nn.LayerNorm(WIDTH),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(WIDTH, 2),
    )
    _step(torch.optim.AdamW(model.parameters()), model(torch.randn(2, WIDTH)).sum())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1)
    data = TensorDataset(torch.randn(4, WIDTH), torch.zeros(4, dtype=torch.long))
    job = joining.join_locally(1, steps=STEPS, global_batch_size=2, checkpoint_path=folder)
    model, optimizer, scheduler = job.wrap(model, optimizer, scheduler)
    for batch in job.steps(job.shard(data)):
        _step(optimizer, nn.functional.cross_entropy(model(batch.x), batch.y))
        scheduler.step()


def _step(optimizer: "Optimizer", loss: "Tensor") -> None:
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def _hear(read: int, *, until: float) -> bytes:
    """Return all that the child says until it closes the pipe; nothing when that takes too long."""
    said = b""
    while len(said) <= needs.MAX_BYTES:
        left = until - time.monotonic()
        if left <= 0 or not select.select([read], [], [], left)[0]:
            raise TrialError("it took too long")
        piece = os.read(read, READ_BYTES)
        if not piece:
            break
        said += piece
    return said


def _be_child(train: Callable[[str], None], *, folder: str, answer: int) -> NoReturn:
    """Train, tell what that took, and end without any of the interpreter's own last acts."""
    try:
        _forget_parent(folder)
        before = set(sys.modules)
        train(folder)
        with os.fdopen(answer, "wb") as pipe:
            pipe.write(needs.encode(_describe(before)))
    except BaseException as error:  # noqa: BLE001 -- nothing may return into the parent's code
        with os.fdopen(answer, "wb", closefd=False) as pipe:
            pipe.write(f"{type(error).__name__}: {error}".encode())
    os._exit(0)


def _forget_parent(folder: str) -> None:
    """Say nothing, obey the usual signals, and see no GPU."""
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)
    tempfile.tempdir = folder
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ.pop(names.ENV_PROFILE, None)


def _describe(before: Iterable[str]) -> Needs:
    known = set(before)
    return Needs(
        found_with=needs.versions(),
        modules=tuple(
            name
            for name, module in list(sys.modules.items())
            if name not in known and _comes_from_a_file(name, module)
        ),
        sources=tuple(path for path in linecache.cache if path.startswith(os.sep)),
    )


def _comes_from_a_file(name: str, module: object) -> bool:
    """Tell modules that an import by name gives again from what others put among them."""
    spec = getattr(module, "__spec__", None)
    return spec is not None and spec.name == name and bool(spec.has_location)
