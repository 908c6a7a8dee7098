"""What a command line under `launcher: Torchrun` asks for, with any launcher in front taken off."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ebbtide.runtime import commands
from ebbtide.runtime.errors import UsageError

TORCHRUN: Final = "torchrun"
RUN_MODULES: Final = frozenset({"torch.distributed.run", "torch.distributed.elastic"})
LEGACY_MODULE: Final = "torch.distributed.launch"
_LAUNCHERS: Final = (TORCHRUN, "torch.distributed.run", LEGACY_MODULE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Arguments for torchrun's own parser."""

    arguments: tuple[str, ...]
    legacy: bool = False  # as torch.distributed.launch reads them: --local-rank for the script


def read(words: Sequence[str]) -> Request:
    """
    Return what the words ask for: a script, or a torchrun command line with its options.

    `python x.py` and `python -m x` become a script and a module, anything else a program that each
    rank executes. A launcher inside a shell line is refused: it would start a second agent in every
    rank.
    """
    command = commands.parse(words)
    match command:
        case commands.Module(name=name, arguments=arguments) if name in RUN_MODULES:
            return _with_script(arguments, words)
        case commands.Module(name=name, arguments=arguments) if name == LEGACY_MODULE:
            return Request(arguments=_with_script(arguments, words).arguments, legacy=True)
        case commands.Module(name=name, arguments=arguments):
            return Request(arguments=("--module", name, *arguments))
        case commands.Script(path=path, arguments=arguments):
            if Path(path).name == TORCHRUN:
                return _with_script(arguments, words)
            return Request(arguments=(path, *arguments))
        case commands.Program():
            return _read_program(words)


def _read_program(words: Sequence[str]) -> Request:
    first, rest = words[0], words[1:]
    if Path(first).name == TORCHRUN:
        return _with_script(rest, words)
    if first.endswith(".py"):
        return Request(arguments=tuple(words))
    hidden = next((name for name in _LAUNCHERS if any(name in word for word in words)), None)
    if hidden is not None:
        raise UsageError(
            f"{' '.join(words)!r} starts {hidden} inside another program: give the script itself,"
            f" or a command that begins with {TORCHRUN} or python -m torch.distributed.run"
        )
    return Request(arguments=("--no-python", *words))


def _with_script(arguments: Sequence[str], words: Sequence[str]) -> Request:
    if not arguments:
        raise UsageError(f"{' '.join(words)!r} names no script to run")
    return Request(arguments=tuple(arguments))
