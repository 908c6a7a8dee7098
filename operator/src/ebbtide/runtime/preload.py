"""
Imports what training will need, before the fork, so that no process pays for it afterwards.

A list of modules, not a trial step: computing would start threads, and a fork keeps only one.
"""

import atexit
import gc
import importlib
import os
from collections.abc import Iterable
from typing import Final

MODULES: Final = (
    "numpy",
    "torch",
    "torch.distributed",
    "torch.nn.functional",
    "torch.optim.lr_scheduler",
    "torch.utils.data",
    "torch._dynamo",  # the first optimizer step imports it: two seconds
    "ebbtide.runtime.joining",
)
ENV_THREADS: Final = "OMP_NUM_THREADS"
ENV_TORCH_LOG: Final = "TORCH_CPP_LOG_LEVEL"


def preload(modules: Iterable[str] = MODULES) -> None:
    """Import the modules with a single thread."""
    # A lost member is no news worth a C++ stack; read while torch is loaded.
    os.environ.setdefault(ENV_TORCH_LOG, "ERROR")
    chosen = os.environ.get(ENV_THREADS)
    os.environ[ENV_THREADS] = "1"  # OpenMP reads it while torch is loaded: no pool before the fork
    gc.disable()  # nothing that is imported is garbage: looking for some costs a tenth of the time
    try:
        for module in modules:
            importlib.import_module(module)
    finally:
        gc.enable()
    gc.freeze()  # what a fork shares stays shared: the collector never touches it
    atexit.register(gc.unfreeze)  # or extension modules complain of leaks at the end
    if chosen is None:
        del os.environ[ENV_THREADS]
    else:
        os.environ[ENV_THREADS] = chosen


def settle_threads(*, processes: int) -> None:
    """In a forked process: use the cores that the script may use, as torch alone would."""
    import torch  # noqa: PLC0415 -- preloaded, or not wanted at all

    chosen = os.environ.get(ENV_THREADS, "")
    cores = len(os.sched_getaffinity(0)) // processes
    torch.set_num_threads(int(chosen) if chosen.isdigit() and int(chosen) else max(1, cores))
