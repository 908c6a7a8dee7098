"""The socket at which the command and its script meet, in a folder however deep."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

LONGEST: Final = 100
"""Bytes of a path that every system takes as the address of a socket (sun_path: 104 to 108)."""


@contextlib.contextmanager
def reach(path: Path) -> Iterator[str]:
    """Give an address for a socket; that of a deep folder holds while this lasts, under Linux."""
    if len(os.fsencode(path)) <= LONGEST:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
