"""
Checkpoints on a mounted path: written aside, proved, made visible by one rename, read newest first.

Layout: `<path>/step-<12 digits>/` holds `state.pt` (plain containers of tensors, readable with
`torch.load(weights_only=True)`) and `manifest.json` with its size and SHA-256. A name proves
nothing: a checkpoint counts when its file is what the manifest says.

Which one is newest is decided by (lineage, step), both numbers. Lineage grows with every start from
a checkpoint, so that after a return to an older step the abandoned, larger ones don't come back.
"""

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Final, TypeVar

import torch

from ebbtide.runtime.errors import CheckpointError
from ebbtide.runtime.reporting import say

STATE: Final = "state.pt"
MANIFEST: Final = "manifest.json"
FORMAT: Final = 1
LEFTOVER_SECONDS: Final = 3600.0
MAX_MANIFEST: Final = 1 << 16
_NAME: Final = re.compile(r"step-(\d{1,18})")
_UNFINISHED: Final = ".saving-"
_ASIDE: Final = ".damaged-"
_LOOKS: Final = 10
# What torch.load raises for a file that is whole but no state of ours.
_UNREADABLE: Final = (
    ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, OSError, RuntimeError,
    TypeError, UnpicklingError, ValueError,
)  # fmt: skip

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What is said about a checkpoint beside it."""

    step: int
    lineage: int
    num_bytes: int
    sha256: str
    world_size: int
    created: float
    torch_version: str
    format: int = FORMAT


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A checkpoint's state and what it came from."""

    manifest: Manifest
    tree: Any


class LostDuty(Exception):  # noqa: N818 -- an outcome of a save, not an error
    """The right to save ended before the checkpoint became visible: it was thrown away."""


class Shelf:
    """The folder of one job's checkpoints, as one process sees it."""

    def __init__(self, path: str, *, owner: str) -> None:
        """`owner` is the pod's name: no two processes that live at one time share it."""
        if "://" in path:
            raise CheckpointError(
                f"{path} is a URL: checkpoints go to a mounted path (PVC, hostPath, NFS or CSI)"
            )
        self.path = Path(path)
        self._owner = owner
        self._proved: dict[tuple[str, int, int], bool] = {}  # (name, mtime, size): what a look gave

    # ------------------------------------------------------------ looking

    def probe(self) -> str:
        """Return why checkpoints could not be written here, in words; empty when they can."""
        trial = self.path / f".probe-{self._owner}-{os.getpid()}"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            trial.unlink(missing_ok=True)
            with trial.open("xb") as file:  # never through a link that somebody laid there
                file.write(b"ebbtide")
                file.flush()
                os.fsync(file.fileno())
            trial.unlink()
        except OSError as error:
            return describe_failure(error, self.path)
        return ""

    def entries(self) -> list[tuple[Path, Manifest]]:
        """Return the checkpoints with a readable manifest, newest first. Nothing is proved yet."""
        found = [
            (folder, manifest)
            for folder in self._folders()
            if (manifest := read_manifest(folder)) is not None
        ]
        return sorted(found, key=lambda entry: (entry[1].lineage, entry[1].step), reverse=True)

    def newest_step(self) -> int:
        """Return the step of the newest valid checkpoint; -1 when there is no checkpoint at all."""
        found = self._look_until_still(self._find_step)
        return -1 if found is None else found

    def load(self) -> Loaded | None:
        """Return the newest valid checkpoint, and say loudly which newer ones were passed over."""
        return self._look_until_still(self._find_loadable)

    def _look_until_still(self, look: Callable[[], Found | None]) -> Found | None:
        """
        Look; None only when there is nothing, `CheckpointError` when all that is there is bad.

        Another process may delete an old checkpoint as we look at it: then we look again.
        """
        folders = self._folders()
        for _ in range(_LOOKS):
            found = look()
            if found is not None:
                return found
            before, folders = folders, self._folders()
            if not folders:
                return None
            if set(folders) == set(before):
                break
        raise CheckpointError(self._all_bad(folders))

    def _find_step(self) -> int | None:
        for folder, manifest in self.entries():
            if self._is_valid(folder, manifest):
                return manifest.step
        return None

    def _find_loadable(self) -> Loaded | None:
        for folder, manifest in self.entries():
            if not self._is_valid(folder, manifest):
                say(f"checkpoint {folder} is damaged: going back to the one before it")
                continue
            try:
                tree = torch.load(folder / STATE, map_location="cpu", weights_only=True)
            except _UNREADABLE as error:
                say(f"checkpoint {folder} can't be read ({error}): going back to the one before it")
                continue
            return Loaded(manifest=manifest, tree=tree)
        return None

    def newest_lineage(self) -> int:
        """Return the largest lineage among all checkpoints, damaged ones too; 0 when none."""
        return max((manifest.lineage for _, manifest in self.entries()), default=0)

    def _folders(self) -> list[Path]:
        try:
            names = os.listdir(self.path)  # noqa: PTH208 -- names are all that is needed
        except FileNotFoundError:
            return []
        except OSError as error:
            raise CheckpointError(describe_failure(error, self.path)) from error
        return [self.path / name for name in names if _NAME.fullmatch(name)]

    def _is_valid(self, folder: Path, manifest: Manifest) -> bool:
        try:
            file = (folder / STATE).stat()
        except OSError:
            return False
        if not stat.S_ISREG(file.st_mode) or file.st_size != manifest.num_bytes:
            return False
        key = (f"{folder.name}:{manifest.sha256}", file.st_mtime_ns, file.st_size)
        if key not in self._proved:
            try:
                self._proved[key] = digest(folder / STATE) == manifest.sha256
            except OSError:
                return False
        return self._proved[key]

    def _all_bad(self, folders: list[Path]) -> str:
        names = ", ".join(sorted(folder.name for folder in folders))
        return (
            f"no checkpoint under {self.path} is whole ({names}): restore one, or move these away "
            "to start at step 0"
        )

    # ------------------------------------------------------------ writing

    def write(
        self, tree: Any, *, step: int, lineage: int, world_size: int, may_commit: Callable[[], bool]
    ) -> Manifest:
        """
        Save durably; `LostDuty` when `may_commit` says no right before it would become visible.

        An `OSError` leaves nothing behind and all earlier checkpoints as they were.
        """
        unfinished = self.path / f"{_UNFINISHED}{self._owner}-{os.getpid()}-{step:012d}"
        try:
            unfinished.mkdir(parents=True)
            manifest = _fill(unfinished, tree, step=step, lineage=lineage, world_size=world_size)
            if not may_commit():
                raise LostDuty
            self._publish(unfinished, manifest)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        return manifest

    def _publish(self, unfinished: Path, manifest: Manifest) -> None:
        final = self.path / f"step-{manifest.step:012d}"
        try:
            unfinished.rename(final)
        except OSError as error:
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                raise
            there = read_manifest(final)
            if there and there.lineage >= manifest.lineage and self._is_valid(final, there):
                return  # another holder of duty saved the same step
            aside = self.path / f"{_ASIDE}{final.name}-{self._owner}-{os.getpid()}"
            final.rename(aside)
            unfinished.rename(final)
            shutil.rmtree(aside, ignore_errors=True)
        _sync_folder(self.path)

    def tidy(self, *, retain: int) -> None:
        """Delete what is older than the newest `retain`, and what dead writers left."""
        for folder, _ in self.entries()[max(1, retain) :]:
            shutil.rmtree(folder, ignore_errors=True)
        now = time.time()
        try:
            names = os.listdir(self.path)  # noqa: PTH208 -- names are all that is needed
        except OSError:
            return
        for name in names:
            if name.startswith((_UNFINISHED, _ASIDE)) and self._is_leftover(name, now):
                shutil.rmtree(self.path / name, ignore_errors=True)

    def _is_leftover(self, name: str, now: float) -> bool:
        if name.startswith(f"{_UNFINISHED}{self._owner}-"):
            return not name.startswith(f"{_UNFINISHED}{self._owner}-{os.getpid()}-")
        try:
            return now - (self.path / name).stat().st_mtime > LEFTOVER_SECONDS
        except OSError:
            return False


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of one checkpoint; None when there is none or it says nothing usable."""
    path = folder / MANIFEST
    try:
        if not path.is_file():
            return None  # of a pipe, reading would never end
        with path.open("rb") as file:
            raw = json.loads(file.read(MAX_MANIFEST))
        manifest = Manifest(**raw)
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    named = _NAME.fullmatch(folder.name)
    whole = (manifest.step, manifest.lineage, manifest.num_bytes, manifest.format)
    if not all(isinstance(number, int) for number in whole) or manifest.format != FORMAT:
        return None
    return manifest if named and int(named[1]) == manifest.step else None


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe_failure(error: OSError, path: Path) -> str:
    """Say what is wrong with a checkpoint path, and what would be right."""
    remedy = {
        errno.EACCES: f"make it writable for user {os.getuid()} (fsGroup, or the volume's mode)",
        errno.EPERM: f"make it writable for user {os.getuid()} (fsGroup, or the volume's mode)",
        errno.EROFS: "mount the volume without readOnly",
        errno.ENOSPC: "free space on the volume, or lower checkpoint.retain",
        errno.EDQUOT: "raise the quota of the volume, or lower checkpoint.retain",
        errno.ENOTDIR: "give a folder, not a file",
        errno.EEXIST: "give a folder, not a file",
    }.get(error.errno or 0, "mount a volume there that the trainer can write to")
    name = errno.errorcode.get(error.errno or 0, "unknown error")
    return f"cannot write checkpoints to {path}: {error.strerror or error} ({name}); {remedy}"


def _fill(folder: Path, tree: Any, *, step: int, lineage: int, world_size: int) -> Manifest:
    state = folder / STATE
    try:
        torch.save(tree, state)
    except RuntimeError as error:
        # torch says so for a full disk, among others; the operating system's word is better.
        raise OSError(errno.ENOSPC if _is_full(folder) else errno.EIO, str(error)) from error
    _sync_file(state)
    manifest = Manifest(
        step=step,
        lineage=lineage,
        num_bytes=state.stat().st_size,
        sha256=digest(state),
        world_size=world_size,
        created=time.time(),
        torch_version=str(torch.__version__),
    )
    with (folder / MANIFEST).open("w") as file:
        json.dump(asdict(manifest), file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    _sync_folder(folder)
    return manifest


def _is_full(folder: Path) -> bool:
    space = os.statvfs(folder)
    return space.f_bavail * space.f_frsize < (1 << 20)


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
