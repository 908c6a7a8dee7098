"""
The first process of a worker's container: `python -m ebbtide.runtime.worker -- COMMAND ARGS`.

With `--torchrun` before the dashes the command is an unmodified torchrun script: its one child is
then torch's elastic agent (`ebbtide.runtime.launching`), which starts the script once per rank.

It imports what training needs, once, then forks one process per rank and runs the script in it. So
a replacement is ready to train as soon as it is told to. Its exit code is what the operator judges:
0 for work done, 82 for a worker that left, the trainer's own code for everything else.
"""

import os
import random
import runpy
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from ebbtide.runtime import commands, preload, reaping
from ebbtide.runtime.environment import Place, read_place
from ebbtide.runtime.errors import UsageError
from ebbtide.runtime.reporting import say
from ebbtide.wire import names

USAGE: Final = "usage: python -m ebbtide.runtime.worker [--torchrun] -- COMMAND [ARGUMENT ...]"
TORCHRUN: Final = "--torchrun"
_NOT_FOUND: Final = 127
_NOT_RUNNABLE: Final = 126


def main(arguments: Sequence[str]) -> int:
    """Run a worker; in a forked process, run the script and return when it ends."""
    if arguments[:1] == [TORCHRUN]:
        return _launch(arguments[1:])
    try:
        command, place = _read(arguments)
    except UsageError as error:
        sys.stderr.write(f"ebbtide: {error}\n")
        return names.EXIT_USAGE
    _prepare()
    if isinstance(command, commands.Program):
        say(f"{command.why}: it is started as it is and imports everything itself")
    else:
        preload.preload()
    reaping.begin()
    children = []
    for local_rank in range(place.processes):
        pid = os.fork()
        if pid == 0:
            _become_rank(local_rank)
            _run(command, processes=place.processes)
            return 0
        children.append(pid)
    return reaping.supervise(children, wrapped=isinstance(command, commands.Program))


def _launch(arguments: Sequence[str]) -> int:
    """Run a worker whose only child is the agent; in the forked process, be the agent."""
    try:
        words, place = _read_words(arguments), _read_place()
    except UsageError as error:
        sys.stderr.write(f"ebbtide: {error}\n")
        return names.EXIT_USAGE
    _prepare()
    reaping.begin()
    pid = os.fork()
    if pid == 0:
        _become_rank(0)
        del os.environ[names.ENV_LOCAL_RANK]  # torch tells each rank its own
        from ebbtide.runtime.launching import session  # noqa: PLC0415 -- torch: here, or not at all

        return session.run(words, place)
    return reaping.supervise([pid], wrapped=False, patient=False)


def _prepare() -> None:
    """Whole lines even in a pipe, and a way out for whoever is told to go while it still starts."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)
    for number in reaping.STOPPING:
        signal.signal(number, _leave_early)


def _read_words(arguments: Sequence[str]) -> list[str]:
    words = list(arguments)
    if len(words) < 2 or words[0] != "--":  # noqa: PLR2004 -- the dashes and a command
        raise UsageError(USAGE)
    return words[1:]


def _read_place() -> Place:
    return read_place({**os.environ, names.ENV_LOCAL_RANK: "0"})


def _read(arguments: Sequence[str]) -> tuple[commands.Command, Place]:
    command = commands.parse(_read_words(arguments))
    if isinstance(command, commands.Script) and not Path(command.path).exists():
        raise UsageError(f"there is no {command.path} in {Path.cwd()}")
    return command, _read_place()


def _leave_early(_number: int, _frame: FrameType | None) -> NoReturn:
    """Told to go before anything was started: nothing can be lost."""
    os._exit(names.EXIT_LEFT)


def _become_rank(local_rank: int) -> None:
    """In the fork: have nothing of the parent's duties."""
    for number in reaping.WATCHED:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, reaping.WATCHED)
    os.environ[names.ENV_LOCAL_RANK] = str(local_rank)
    random.seed()  # or all ranks of a worker would draw the same
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()


def _run(command: commands.Command, *, processes: int) -> None:
    """Do what `python` would do with this command line."""
    match command:
        case commands.Script(path=path, arguments=arguments):
            preload.settle_threads(processes=processes)
            sys.argv = [path, *arguments]
            sys.path[0] = str(Path(path).resolve().parent)
            runpy.run_path(path, run_name="__main__")
        case commands.Module(name=name, arguments=arguments):
            preload.settle_threads(processes=processes)
            sys.argv = [name, *arguments]
            sys.path[0] = str(Path.cwd())
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        case commands.Program(words=words):
            _replace(words)


def _replace(words: Sequence[str]) -> NoReturn:
    try:
        os.execvp(words[0], list(words))  # noqa: S606 -- the command that the user gave
    except FileNotFoundError:
        sys.stderr.write(f"ebbtide: {words[0]}: not found\n")
        os._exit(_NOT_FOUND)
    except OSError as error:
        sys.stderr.write(f"ebbtide: {words[0]}: {error.strerror}\n")
        os._exit(_NOT_RUNNABLE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
