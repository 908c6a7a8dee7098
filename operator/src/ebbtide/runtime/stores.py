"""
Where checkpoints are kept: one small interface, and the one on a mounted path.

A store holds folders named after steps. `Draft` is a checkpoint that is being written: nobody sees
it until `commit`, which is one atomic step. On a mounted path that is a rename of a folder whose
files are synced; on an object store (`ebbtide.runtime.remote`) the manifest, written last.

No torch here: a process that only writes needs none. What goes wrong comes out as `OSError`: as
`FileNotFoundError` for what is not there, as `StoreError` for a store that is out of reach.
"""

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import time
from io import FileIO
from pathlib import Path
from typing import Final, Protocol

from ebbtide.runtime.manifest import (
    MANIFEST,
    MAX_MANIFEST,
    STATE,
    Manifest,
    ManifestError,
    decode,
    encode,
    folder_name,
    step_of,
)

LEFTOVER_SECONDS: Final = 3600.0
SYNC_BYTES: Final = 1 << 25
"""So much is written until it is synced: one great sync at the end would be felt by everybody."""
DAMAGED: Final = "damaged.txt"
_UNFINISHED: Final = ".saving-"
_ASIDE: Final = ".replaced-"


class StoreError(OSError):
    """A store out of reach did not do what it was asked to, after all tries."""


class Draft(Protocol):
    """A checkpoint that is being written."""

    @property
    def state(self) -> str:
        """The name of the file with the state."""

    def write(self, piece: memoryview) -> None:
        """Add to the state."""

    def sync(self) -> None:
        """Make what was written durable; the manifest can be made then."""

    def commit(self, manifest: Manifest) -> None:
        """Make it visible, durably and at once; another of the same step and age stays."""

    def abandon(self) -> None:
        """Leave nothing behind; also after `commit`, which it does not undo."""


class Readable(Protocol):
    """An open file."""

    def readinto(self, room: memoryview, /) -> int | None:
        """Fill some room from here on; return how many bytes came, 0 at the end."""

    def close(self) -> None:
        """Let go of it."""


class Store(Protocol):
    """Where one job's checkpoints are kept, as one process sees it."""

    url: str

    def probe(self) -> None:
        """Make sure that checkpoints can be written here."""

    def names(self) -> list[str]:
        """Return the names of folders of steps; none when there is no place yet."""

    def read(self, name: str, file: str) -> bytes:
        """Return a small file, at most `MAX_MANIFEST` bytes of it."""

    def size(self, name: str, file: str) -> int:
        """Return the size of a file, in bytes."""

    def has(self, name: str, file: str) -> bool:
        """Tell whether there is such a file."""

    def open(self, name: str, file: str) -> Readable:
        """Open a file for reading from its start on."""

    def mark(self, name: str, why: str) -> None:
        """Note in a checkpoint's folder that it is damaged."""

    def draft(self, *, step: int) -> Draft:
        """Begin a checkpoint."""

    def remove(self, name: str) -> None:
        """Delete a checkpoint; silent when it is gone or cannot go."""

    def clear(self) -> None:
        """Delete what dead writers left; silent when that cannot be."""


def open_store(url: str, *, owner: str) -> Store:
    """
    Return the store of a mounted path or a URL. `owner` is the pod's name.

    `ValueError` for a URL whose scheme is not known, or whose library is not installed.
    """
    if "://" not in url:
        return LocalStore(url, owner=owner)
    from ebbtide.runtime import remote  # noqa: PLC0415 -- fsspec is imported where it is used only

    return remote.RemoteStore(url, owner=owner)


class LocalStore:
    """A folder on a mounted path."""

    def __init__(self, path: str, *, owner: str) -> None:
        """No two processes that live at one time share an `owner`."""
        self.url = path
        self._path = Path(path)
        self._owner = owner

    def probe(self) -> None:
        """Make the folder, and write and delete a small file in it."""
        trial = self._path / f".probe-{self._owner}-{os.getpid()}"
        self._path.mkdir(parents=True, exist_ok=True)
        trial.unlink(missing_ok=True)
        with trial.open("xb") as file:  # never through a link that somebody laid there
            file.write(b"ebbtide")
            file.flush()
            os.fsync(file.fileno())
        trial.unlink()

    def names(self) -> list[str]:
        """Return the names of folders of steps."""
        try:
            found = os.listdir(self._path)  # noqa: PTH208 -- names are all that is needed
        except FileNotFoundError:
            return []
        return [name for name in found if step_of(name) is not None]

    def read(self, name: str, file: str) -> bytes:
        """Return a small file."""
        with self.open(name, file) as opened:
            return opened.read(MAX_MANIFEST)

    def has(self, name: str, file: str) -> bool:
        """Tell whether there is such a file."""
        return (self._path / name / file).exists()

    def size(self, name: str, file: str) -> int:
        """Return the size of a file."""
        return _regular(self._path / name / file)

    def open(self, name: str, file: str) -> FileIO:
        """Open a file; an `OSError` for what is none, since of a pipe reading would never end."""
        path = self._path / name / file
        _regular(path)
        return path.open("rb", buffering=0)

    def mark(self, name: str, why: str) -> None:
        """Note that a checkpoint is damaged."""
        (self._path / name / DAMAGED).write_text(f"{why}\n")

    def draft(self, *, step: int) -> Draft:
        """Begin a checkpoint, in a folder of a temporary name."""
        return _LocalDraft(self._path, step=step, owner=self._owner)

    def remove(self, name: str) -> None:
        """Delete a checkpoint."""
        shutil.rmtree(self._path / name, ignore_errors=True)

    def clear(self) -> None:
        """Delete folders of temporary names that nobody writes any more."""
        now = time.time()
        try:
            names = os.listdir(self._path)  # noqa: PTH208 -- names are all that is needed
        except OSError:
            return
        for name in names:
            if name.startswith((_UNFINISHED, _ASIDE)) and self._is_leftover(name, now):
                shutil.rmtree(self._path / name, ignore_errors=True)

    def _is_leftover(self, name: str, now: float) -> bool:
        # One process of an owner writes at a time: what another began is nobody's any more.
        if name.startswith(f"{_UNFINISHED}{self._owner}-"):
            return not name.startswith(f"{_UNFINISHED}{self._owner}-{os.getpid()}-")
        try:
            return now - (self._path / name).stat().st_mtime > LEFTOVER_SECONDS
        except OSError:
            return False


class _LocalDraft:
    """A folder of a temporary name."""

    state = STATE

    def __init__(self, path: Path, *, step: int, owner: str) -> None:
        self._path = path
        self._final = path / folder_name(step)
        self._aside = path / f"{_ASIDE}{self._final.name}-{owner}-{os.getpid()}"
        self._folder = path / f"{_UNFINISHED}{owner}-{os.getpid()}-{step:012d}"
        self._folder.mkdir(parents=True)
        self._file = (self._folder / STATE).open("xb", buffering=0)
        self._unsynced = 0

    def write(self, piece: memoryview) -> None:
        """Add to the state."""
        self._unsynced += len(piece)
        while piece:
            piece = piece[self._file.write(piece) or 0 :]
        if self._unsynced >= SYNC_BYTES:
            self._unsynced = 0
            os.fdatasync(self._file.fileno())

    def sync(self) -> None:
        """Make the state durable."""
        os.fsync(self._file.fileno())
        self._file.close()

    def commit(self, manifest: Manifest) -> None:
        """Rename the folder."""
        with (self._folder / MANIFEST).open("xb") as file:
            file.write(encode(manifest))
            file.flush()
            os.fsync(file.fileno())
        _sync_folder(self._folder)
        try:
            self._folder.rename(self._final)
        except OSError as error:
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                raise
            if self._is_there(manifest):
                return  # another holder of duty saved the same step
            self._final.rename(self._aside)
            self._folder.rename(self._final)
        _sync_folder(self._path)

    def abandon(self) -> None:
        """Delete the folder of the temporary name, and what was replaced."""
        with contextlib.suppress(OSError):
            self._file.close()
        for folder in (self._folder, self._aside):
            shutil.rmtree(folder, ignore_errors=True)

    def _is_there(self, ours: Manifest) -> bool:
        try:
            raw = (self._final / MANIFEST).read_bytes()
            there = decode(raw[:MAX_MANIFEST], name=self._final.name)
            return there.age >= ours.age and digest(self._final / there.state) == there.sha256
        except (OSError, ManifestError):
            return False


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    _regular(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe_failure(error: OSError, url: str, *, trying: str = "write checkpoints to") -> str:
    """Say what is wrong with a place for checkpoints, and what would be right."""
    if "://" in url:
        return f"cannot {trying} {url}: {error.strerror or error}"
    remedy = {
        errno.EACCES: f"make it writable for user {os.getuid()} (fsGroup, or the volume's mode)",
        errno.EPERM: f"make it writable for user {os.getuid()} (fsGroup, or the volume's mode)",
        errno.EROFS: "mount the volume without readOnly",
        errno.ENOSPC: "free space on the volume, or lower checkpoint.retain",
        errno.EDQUOT: "raise the quota of the volume, or lower checkpoint.retain",
        errno.EFBIG: "raise the limit on the size of files",
        errno.ENOTDIR: "give a folder, not a file",
        errno.EEXIST: "give a folder, not a file",
    }.get(error.errno or 0, "mount a volume there that the trainer can write to")
    name = errno.errorcode.get(error.errno or 0, "unknown error")
    return f"cannot {trying} {url}: {error.strerror or error} ({name}); {remedy}"


def _regular(path: Path) -> int:
    """Return the size of a regular file; `OSError` when it is none."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "is no regular file", str(path))
    return found.st_size


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
