"""
What a checkpoint costs a trainer that goes on: ours, torch.save, and three ways of torch's DCP.

The state is 300 MB: parameters and both moments of Adam. A round of one way is: compute, step, call
the save, compute, wait until the state may change, step. Its stall is the call, the wait, and by
how much that last step is slower than one with no save about. Compute is the same work each time,
some 150 ms of an idle core, and all ways take turns, so that a busy machine is busy for all.
Written is to one disk; each save is finished before the next way has its turn.
"""

import contextlib
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict_saver import async_save
from torch.distributed.checkpoint.state_dict_saver import save as save_sharded
from torch.nn import Parameter
from typing_extensions import override

from ebbtide.runtime.checkpoint import Shelf
from ebbtide.runtime.staging import SPREAD_SHARE, Save, Saver
from rows import Row

ROUNDS: Final = 15
WARM_UP: Final = 2
BAR: Final = 15.0
NUM_TENSORS: Final = 20
NUM_ELEMENTS: Final = 1_250_000
"""Of each tensor: with two moments 300 MB in all."""
COMPUTE_S: Final = 0.15
INTERVAL_S: Final = 60.0
"""Between two saves of a job, which a paced write may use half of."""
OURS: Final = "ebbtide"
PEER: Final = "DCP async_save"


Figures: TypeAlias = tuple[float, float, float, float]
"""Seconds of the call, of the fence, by which the step was slower, and of the compute between."""


@dataclass(slots=True)
class Trainer:
    """A model that is all parameters, and its optimizer."""

    parameters: list[Parameter] = field(
        default_factory=lambda: [
            Parameter(torch.randn(NUM_ELEMENTS // 1000, 1000)) for _ in range(NUM_TENSORS)
        ]
    )
    optimizer: torch.optim.Optimizer = field(init=False)
    work: int = 0
    _matrix: torch.Tensor = field(default_factory=lambda: torch.randn(300, 300))

    def __post_init__(self) -> None:
        self.optimizer = torch.optim.Adam(self.parameters, lr=1e-3)
        for parameter in self.parameters:
            parameter.grad = torch.full_like(parameter, 1e-3)
        self.optimizer.step()
        self.work = max(1, round(COMPUTE_S / min(_time(self._multiply) for _ in range(50))))

    def compute(self) -> float:
        """Stand in for forward and backward; return its seconds."""

        def multiply() -> None:
            for _ in range(self.work):
                self._multiply()

        return _time(multiply)

    def step(self) -> float:
        """Step; return its seconds."""
        return _time(self.optimizer.step)

    def state(self) -> dict[str, Any]:
        """Return the state, as a script would."""
        model = {str(n): parameter.detach() for n, parameter in enumerate(self.parameters)}
        return {"model": model, "optimizer": self.optimizer.state_dict()}

    def _multiply(self) -> None:
        torch.mm(self._matrix, self._matrix)


class Way:
    """One way to save. `begin` is the call, `fence` waits until the state may change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._number = 0

    def begin(self, trainer: Trainer) -> None:
        """Save, or begin to."""
        raise NotImplementedError

    def fence(self) -> None:
        """Wait until the state may change; at once where `begin` waited for all."""

    def finish(self) -> None:
        """Wait until all is written, and delete it."""
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def next_path(self) -> Path:
        """Return a path that nothing is at."""
        self._number += 1
        return self.folder / str(self._number)


class Ours(Way):
    """The saver of the runtime, paced as in a job that saves once a minute."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.failures: list[str] = []
        self._step = 0
        self._saver = Saver(
            Shelf(str(folder / "kept"), owner="bench"), listener=self, may_commit=lambda: True
        )

    def prepare(self, trainer: Trainer) -> None:
        """What a job does after its first step."""
        self._saver.prepare(trainer.state())
        self._saver.finish()

    @override
    def begin(self, trainer: Trainer) -> None:
        """Note what to save."""
        self._step += 1
        save = Save(
            tree=trainer.state(),
            step=self._step,
            lineage=1,
            world_size=1,
            retain=1,
            spread_seconds=SPREAD_SHARE * INTERVAL_S,
        )
        if not self._saver.begin(save, early=set()):
            self.failures.append("a save was skipped")

    @override
    def fence(self) -> None:
        """Wait for the copy."""
        self._saver.fence()

    @override
    def finish(self) -> None:
        """Let the write hurry."""
        self._saver.finish()
        super().finish()

    def close(self) -> None:
        """End the process that writes."""
        self._saver.close()

    def committed(self, *, step: int, seconds: float, num_bytes: int) -> None:
        """Note that the newest save is there."""
        if step != self._step or num_bytes <= 0 or seconds <= 0:
            self.failures.append(f"step {step} of {num_bytes} bytes")

    def failed(self, *, step: int, error: str) -> None:
        """Note it: a figure of a save that failed is none."""
        self.failures.append(f"step {step}: {error}")


class Plain(Way):
    """torch.save."""

    @override
    def begin(self, trainer: Trainer) -> None:
        """Save."""
        torch.save(trainer.state(), self.next_path())


class Dcp(Way):
    """torch.distributed.checkpoint, all in the call."""

    @override
    def begin(self, trainer: Trainer) -> None:
        """Save."""
        with _quiet():
            save_sharded(trainer.state(), checkpoint_id=self.next_path())


class DcpAsync(Way):
    """Its async_save: copies in the call, writes in a thread."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._written: Future[Any] | None = None

    @override
    def begin(self, trainer: Trainer) -> None:
        """Copy, and begin to write."""
        with _quiet():
            found = async_save(trainer.state(), checkpoint_id=self.next_path())
        self._written = found if isinstance(found, Future) else found.upload_completion

    @override
    def finish(self) -> None:
        """Wait for the write."""
        if self._written is not None:
            self._written.result()
        super().finish()


class DcpStaged(DcpAsync):
    """Its async_save with the DefaultStager: copies in a thread too."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._stager = DefaultStager(
            StagingOptions(
                use_pinned_memory=False,
                use_shared_memory=True,
                use_async_staging=True,
                use_non_blocking_copy=False,
            )
        )
        self._staged: Future[Any] | None = None

    @override
    def begin(self, trainer: Trainer) -> None:
        """Begin to copy."""
        with _quiet():
            found = async_save(
                trainer.state(), checkpoint_id=self.next_path(), async_stager=self._stager
            )
        if isinstance(found, Future):
            raise TypeError("async_save did not stage apart")
        self._staged, self._written = found.staging_completion, found.upload_completion

    @override
    def fence(self) -> None:
        """Wait for the copy."""
        if self._staged is not None:
            self._staged.result()


def rows() -> list[Row]:
    """Take turns, and compare medians."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    folder = Path(tempfile.mkdtemp(prefix="ebbtide-stall-"))
    try:
        with _one_rank(folder):
            return _measure(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        torch.set_num_threads(before)


def _measure(folder: Path) -> list[Row]:
    kinds: dict[str, type[Way]] = {
        OURS: Ours,
        "torch.save": Plain,
        "DCP save": Dcp,
        PEER: DcpAsync,
        "DCP DefaultStager": DcpStaged,
    }
    ways = {}
    for number, (name, kind) in enumerate(kinds.items()):
        (folder / str(number)).mkdir()
        ways[name] = kind(folder / str(number))
    ours = ways[OURS]
    trainer = Trainer()
    found: dict[str, list[Figures]] = {name: [] for name in ways}
    if not isinstance(ours, Ours):
        raise TypeError(OURS)
    ours.prepare(trainer)
    for turn in range(WARM_UP + ROUNDS):
        print(".", end="", flush=True, file=sys.stderr)
        for name, way in ways.items():
            figures = _round(trainer, way)
            if turn >= WARM_UP:
                found[name].append(figures)
    ours.close()
    if ours.failures:
        raise RuntimeError(f"saves of ours failed: {ours.failures}")
    return rows_of(found)


def _round(trainer: Trainer, way: Way) -> Figures:
    """Return one round's figures; the step alone is measured right before, on the same machine."""
    trainer.compute()
    base = trainer.step()
    call = _time(lambda: way.begin(trainer))
    compute = trainer.compute()
    fence = _time(way.fence)
    step = trainer.step()
    way.finish()
    return call, fence, step - base, compute


def rows_of(found: Mapping[str, Sequence[Figures]]) -> list[Row]:
    """Return the rows of what the rounds of each way found."""
    medians = {name: np.median(np.array(figures), axis=0) for name, figures in found.items()}
    stalls = {
        name: float(call + fence + max(0.0, slower))
        for name, (call, fence, slower, _) in medians.items()
    }
    ours = stalls[OURS]
    peers = {name: stall * 1e3 for name, stall in stalls.items() if name != OURS}
    factors = {name: stalls[name] / max(1e-9, ours) for name in peers}
    call, fence, slower, compute = (float(value) * 1e3 for value in medians[OURS])
    computes = {name: float(medians[name][3]) * 1e3 for name in peers}
    return [
        Row("checkpoint of 300 MB: times less stall", factors[PEER], "x", "higher", BAR, factors),
        Row("checkpoint of 300 MB: stall", ours * 1e3, "ms", "lower", None, peers),
        Row("  of it the call", call, "ms", "lower"),
        Row("  of it the fence", fence, "ms", "lower"),
        Row("  of it the slower step", max(0.0, slower), "ms", "lower"),
        Row("forward and backward meanwhile", compute, "ms", "lower", None, computes),
    ]


@contextlib.contextmanager
def _one_rank(folder: Path) -> Iterator[None]:
    """Hold the process group that DCP's async_save asks for."""
    dist.init_process_group("gloo", init_method=f"file://{folder / 'store'}", rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch's remarks on deprecation from the table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _time(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun
