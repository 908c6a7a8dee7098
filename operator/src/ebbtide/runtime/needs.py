"""
What a first training step pulls in, and where that is kept so that it need not be found again.

A list is kept beside the interpreter, which an image carries in a layer of its own, and beside the
job's checkpoints where these are on a mounted path. It holds for the versions that it was found
with and no others.
"""

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

import msgspec

from ebbtide.wire import names

MAX_BYTES: Final = 1 << 20
_IN_PREFIX: Final = Path("share", "ebbtide", "preload.json")
_BESIDE_CHECKPOINTS: Final = ".preload.json"


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """Modules in the order of their imports, and files whose lines were read for a traceback."""

    found_with: str
    modules: tuple[str, ...]
    sources: tuple[str, ...]


def versions() -> str:
    """Return what a list depends on, in words: nothing needs to be imported for it."""
    python = ".".join(str(part) for part in sys.version_info[:3])
    parts = [f"{each} {metadata.version(each)}" for each in ("ebbtide", "torch")]
    return ", ".join([f"python {python}", *parts])


def places(environ: Mapping[str, str]) -> list[Path]:
    """Return where a list may be kept, the image's own place first."""
    found = [Path(sys.prefix) / _IN_PREFIX]
    checkpoints = environ.get(names.ENV_CHECKPOINT_PATH, "")
    if checkpoints and "://" not in checkpoints:
        found.append(Path(checkpoints) / _BESIDE_CHECKPOINTS)
    return found


def decode(data: bytes) -> Needs:
    """Read a list; `ValueError` for what is none, or is one of other versions."""
    if len(data) > MAX_BYTES:
        raise ValueError(f"a list of more than {MAX_BYTES} bytes")
    needs = msgspec.json.decode(data, type=Needs)
    if needs.found_with != versions():
        raise ValueError(f"a list of {needs.found_with}; this is {versions()}")
    return needs


def encode(needs: Needs) -> bytes:
    """Write a list down."""
    return msgspec.json.encode(needs)


def load(where: Sequence[Path]) -> Needs | None:
    """Return the first list that is kept and holds, if any."""
    for path in where:
        with contextlib.suppress(OSError, ValueError), path.open("rb") as file:
            return decode(file.read(MAX_BYTES + 1))
    return None


def store(needs: Needs, where: Sequence[Path]) -> list[Path]:
    """Keep a list wherever that can be; return the places that took it."""
    kept = []
    for path in where:
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(encode(needs))
            unfinished.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)
        else:
            kept.append(path)
    return kept
