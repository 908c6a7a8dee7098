"""
Imports what training will need, before the fork, so that no process pays for it afterwards.

What that is, a throw-away child finds out (`ebbtide.runtime.trial`): computing starts threads, and
a fork keeps only one, so this process itself imports and reads and does nothing else. What was
found is kept (`ebbtide.runtime.needs`); an image keeps it from its making on:

    RUN python -m ebbtide.runtime.preload
"""

import atexit
import contextlib
import gc
import importlib
import linecache
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ebbtide.runtime import needs, trial
from ebbtide.runtime.needs import Needs
from ebbtide.runtime.reporting import say

ROOT: Final = "ebbtide.runtime.joining"
"""What every script comes to, whatever it trains: torch, and our own side."""
ENV_THREADS: Final = "OMP_NUM_THREADS"
ENV_TORCH_LOG: Final = "TORCH_CPP_LOG_LEVEL"
_TASKS: Final = Path("/proc/self/task")


def preload(where: Sequence[Path] | None = None) -> None:
    """Import it with a single thread; `where` a list of it is kept, the usual places if None."""
    # A lost member is no news worth a C++ stack; read while torch is loaded.
    os.environ.setdefault(ENV_TORCH_LOG, "ERROR")
    chosen = os.environ.get(ENV_THREADS)
    os.environ[ENV_THREADS] = "1"  # OpenMP reads it while torch is loaded: no pool before the fork
    gc.disable()  # nothing that is imported is garbage: looking for some costs a tenth of the time
    try:
        importlib.import_module(ROOT)
        found = _find(needs.places(os.environ) if where is None else where)
        if found is not None:
            _take(found)
    finally:
        gc.enable()
    gc.freeze()  # what a fork shares stays shared: the collector never touches it
    atexit.register(gc.unfreeze)  # or extension modules complain of leaks at the end
    if chosen is None:
        del os.environ[ENV_THREADS]
    else:
        os.environ[ENV_THREADS] = chosen
    threads = sum(1 for _ in _TASKS.iterdir())
    if threads > 1:
        say(f"{threads} threads run before the fork: what the others hold stays held in it")


def _find(where: Sequence[Path]) -> Needs | None:
    """Return what a first step needs: from where it is kept, or by a trial, which is then kept."""
    kept = needs.load(where)
    if kept is not None:
        return kept
    try:
        found = trial.find()
    except (trial.TrialError, OSError) as error:
        say(f"what a first step needs was not found ({error}): the first step will import it")
        return None
    needs.store(found, where)
    return found


def _take(found: Needs) -> None:
    for name in found.modules:
        # Made for another script's run, or its file has changed: the step itself will tell.
        with contextlib.suppress(ImportError, AttributeError):
            importlib.import_module(name)
    for path in found.sources:
        linecache.getlines(path)


def settle_threads(*, processes: int) -> None:
    """In a forked process: use the cores that the script may use, as torch alone would."""
    import torch  # noqa: PLC0415 -- preloaded, or not wanted at all

    chosen = os.environ.get(ENV_THREADS, "")
    cores = len(os.sched_getaffinity(0)) // processes
    torch.set_num_threads(int(chosen) if chosen.isdigit() and int(chosen) else max(1, cores))


def main() -> int:
    """Find it and keep it, for the image that is being made."""
    importlib.import_module(ROOT)
    try:
        found = trial.find()
    except trial.TrialError as error:
        sys.stderr.write(f"ebbtide: what a first step needs was not found: {error}\n")
        return 1
    kept = needs.store(found, needs.places(os.environ))
    for path in kept:
        say(f"{len(found.modules)} modules that a first step needs are listed in {path}")
    if not kept:
        sys.stderr.write(f"ebbtide: no list can be kept in any of {needs.places(os.environ)}\n")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
