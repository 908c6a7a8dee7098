"""
`python -m ebbtide.controller.compiling`: fill the cache of the planner's compiled loops.

Compiling takes about a minute of one core, loading a second. So the operator has a process beside
it compile, at low priority, and only loads; an image can be warmed by the same command.
"""

import argparse
import asyncio
import ctypes
import fcntl
import logging
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ebbtide.core.planner.solver.compiled import find_cache
from ebbtide.core.planner.solver.sizes import compile_solver

NICENESS: Final = 19
LOOK_SECONDS: Final = 5.0
"""Between two looks at how many pools there are."""
PATIENCE_SECONDS: Final = 600.0
"""Twenty times what compiling takes on a machine that has nothing else to do."""
FAILED: Final = 1
_PARENT_DEATH: Final = 1  # PR_SET_PDEATHSIG
_LONGEST: Final = 500
_REMEDY: Final = "set NUMBA_CACHE_DIR to a folder that can be written"

logger = logging.getLogger(__name__)


async def quicken(count_pools: Callable[[], int], *, least: int) -> None:
    """
    Compile the planner's loops once there are `least` pools, and say what came of it; 0: never.

    Returns when that is done. Plans are made all the while, by the plain loops until then.
    """
    if not least:
        return
    while count_pools() < least:  # noqa: ASYNC110 -- seconds do not matter here
        await asyncio.sleep(LOOK_SECONDS)
    problem = await _compile_beside()
    if not problem and not await asyncio.to_thread(compile_solver, needs_cache=True):
        problem = f"their cache cannot be loaded: {_REMEDY}"
    if problem:
        logger.warning("the planner's loops stay plain, and plans take longer: %s", problem)
    else:
        logger.info("the planner's loops are compiled")


def fill_cache() -> str:
    """Compile unless the cache holds it all already; return what is in the way, "" for nothing."""
    if find_spec("numba") is None:
        return "numba is not installed: install ebbtide[operator]"
    folder = find_cache()
    if folder is None:
        return f"there is nowhere to keep what is compiled: {_REMEDY}"
    with _alone(Path(folder)):
        if compile_solver(needs_cache=True):
            return ""
        compile_solver()
        if compile_solver(needs_cache=True):
            return ""
    return f"what was compiled is not found in {folder} afterwards: {_REMEDY}"


def main(arguments: list[str] | None = None) -> int:
    """Fill the cache; return 0 when it is full, and say on standard error what is in the way."""
    parser = argparse.ArgumentParser(
        prog="python -m ebbtide.controller.compiling",
        description="Compile the loops of the planner, for operators to load.",
    )
    parser.add_argument("--parent", type=int, metavar="PID", help="end with this process")
    parent = parser.parse_args(arguments).parent
    if parent is not None and not _end_with(parent):
        problem = f"process {parent}, for which this is done, is gone"
    else:
        os.nice(NICENESS)
        problem = fill_cache()
    if problem:
        sys.stderr.write(f"{problem}\n")
        return FAILED
    return 0


async def _compile_beside() -> str:
    """Fill the cache in a process of its own; return what was in the way."""
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", __name__, f"--parent={os.getpid()}"),
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE,
        )
    except OSError as error:
        return f"no process can be started to compile them: {error}"
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            _, said = await process.communicate()
    except TimeoutError:
        return f"compiling them took more than {PATIENCE_SECONDS:.0f} s"
    finally:
        await _kill(process)
    if process.returncode == 0:
        return ""
    lines = said.decode(errors="replace").strip().splitlines()
    return lines[-1][:_LONGEST] if lines else f"compiling them ended with {process.returncode}"


async def _kill(process: Process) -> None:
    if process.returncode is None:
        process.kill()
        await process.wait()


def _end_with(parent: int) -> bool:
    """Have the kernel end us together with our parent; tell whether it is still there."""
    ctypes.CDLL(None).prctl(_PARENT_DEATH, signal.SIGKILL, 0, 0, 0)
    return os.getppid() == parent


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other process compiles into this folder: it may have done all of it."""
    with (folder / "ebbtide.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main())
