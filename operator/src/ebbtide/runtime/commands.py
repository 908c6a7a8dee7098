"""What a worker's command is: a script or module for a warm fork, or any other program."""

import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_INTERPRETER: Final = re.compile(r"python(3(\.\d+)?)?")
_HARMLESS: Final = frozenset({"-u", "-B"})  # what a fork can do without


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """`python x.py`."""

    path: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """`python -m x`."""

    name: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Anything else: it is started as it stands, and imports everything itself."""

    words: tuple[str, ...]
    why: str


Command = Script | Module | Program


def parse(words: Sequence[str]) -> Command:
    """Tell what a command line is."""
    if not _is_our_interpreter(words[0]):
        return Program(words=tuple(words), why=f"{words[0]} is not this Python interpreter")
    at = 1
    while at < len(words) and words[at] in _HARMLESS:
        at += 1
    rest = tuple(words[at:])
    match rest:
        case ("-m", name, *_):
            return Module(name=name, arguments=rest[2:])
        case (path, *_) if not path.startswith("-"):
            return Script(path=path, arguments=rest[1:])
        case _:
            given = rest[0] if rest else "no script"
            return Program(words=tuple(words), why=f"python is given {given}")


def _is_our_interpreter(word: str) -> bool:
    """Tell whether a command's first word means the interpreter that runs us."""
    if not _INTERPRETER.fullmatch(Path(word).name):
        return False
    if "/" not in word:
        return True  # by name: the image's, which is the one that was started
    found = shutil.which(word)
    # A virtual environment's interpreter is a link, so the place counts and not the file.
    return found is not None and Path(found).parent == Path(sys.executable).parent
