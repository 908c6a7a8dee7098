"""
Checkpoints on an object store, through fsspec: `s3://`, `gs://`, `memory://` and what it knows.

There is no rename there. A checkpoint is a file of the state under a name of its writer's own, then
a manifest that names it: one small object, and so visible as a whole or not at all. Two writers of
one step never touch each other's state, and the manifest that came last is right in itself. A save
counts as done only when the store has confirmed the state's size and gives the manifest back.

Credentials come from the environment of the pod, as the store's own library reads them. Every call
is bounded by that library's time-outs, and tried again a few times with growing pauses; what it
raises in the end comes out as `StoreError`, save that nothing is there. No torch here.
"""

import errno
import os
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, TypeVar

from ebbtide.runtime.manifest import (
    MANIFEST,
    MAX_MANIFEST,
    Manifest,
    ManifestError,
    decode,
    encode,
    folder_name,
    step_of,
)
from ebbtide.runtime.stores import DAMAGED, LEFTOVER_SECONDS, Draft, Readable, StoreError

PAUSES: Final = (0.5, 2.0, 8.0)
"""Seconds between two tries of one call."""
BLOCK_BYTES: Final = 1 << 24
"""Of one part of an upload, and of one read. s3 takes 10,000 parts: 160 GB."""
CONNECT_SECONDS: Final = 5
READ_SECONDS: Final = 20
_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "s3": {
        "config_kwargs": {
            "connect_timeout": CONNECT_SECONDS,
            "read_timeout": READ_SECONDS,
            "retries": {"total_max_attempts": 1},
        },
    },
    "gs": {"requests_timeout": READ_SECONDS},
    "gcs": {"requests_timeout": READ_SECONDS},
}
_EXTRAS: Final = {"s3": "s3", "gs": "gcs", "gcs": "gcs"}

Value = TypeVar("Value")


class RemoteStore:
    """A prefix of an object store."""

    def __init__(self, url: str, *, owner: str, pauses: tuple[float, ...] = PAUSES) -> None:
        """No two processes that live at one time share an `owner`. Nothing is connected to yet."""
        self.url = url.rstrip("/")
        self._owner = owner
        self._pauses = pauses
        self._scheme, _, self._root = self.url.partition("://")
        self._connected: Any = None
        _find_library(self._scheme, url)

    def probe(self) -> None:
        """Write and delete a small object."""
        path = f"{self.url}/.probe-{self._owner}-{os.getpid()}"
        self._try(lambda: self._files.pipe_file(path, b"ebbtide"))
        self._try(lambda: self._files.rm_file(path))

    def names(self) -> list[str]:
        """Return the names of folders of steps."""
        return [name for name in self._list(self.url) if step_of(name) is not None]

    def read(self, name: str, file: str) -> bytes:
        """Return a small object."""
        path = self._path(name, file)
        return bytes(self._try(lambda: self._files.cat_file(path, start=0, end=MAX_MANIFEST)))

    def size(self, name: str, file: str) -> int:
        """Return the size of an object, as the store has it now."""
        path = self._path(name, file)

        def look() -> int:
            self._files.invalidate_cache()
            return int(self._files.info(path)["size"])

        return self._try(look)

    def has(self, name: str, file: str) -> bool:
        """Tell whether there is such an object."""
        try:
            self.size(name, file)
        except FileNotFoundError:
            return False
        return True

    def open(self, name: str, file: str) -> Readable:
        """Open an object for reading, in pieces of `BLOCK_BYTES`."""
        path = self._path(name, file)
        return _Opened(
            self._try(
                lambda: self._files.open(path, "rb", block_size=BLOCK_BYTES, cache_type="readahead")
            ),
            self._try,
        )

    def mark(self, name: str, why: str) -> None:
        """Note that a checkpoint is damaged."""
        path = self._path(name, DAMAGED)
        self._try(lambda: self._files.pipe_file(path, f"{why}\n".encode()))

    def draft(self, *, step: int) -> Draft:
        """Begin a checkpoint, in an object of this writer's own."""
        return _RemoteDraft(self, step=step)

    def remove(self, name: str) -> None:
        """Delete a checkpoint, the manifest first: half a checkpoint is none."""
        try:
            files = self._list(self._path(name))
            for file in sorted(files, key=lambda each: each != MANIFEST):
                self.delete(name, file)
        except OSError:
            return  # the next one that tidies tries again

    def clear(self) -> None:
        """Delete states that no manifest names, once they are old enough to be nobody's."""
        try:
            for name in self.names():
                self._clear(name)
        except OSError:
            return

    def _clear(self, name: str) -> None:
        files = self._list(self._path(name), detail=True)
        named = ""
        if MANIFEST in files:
            try:
                named = decode(self.read(name, MANIFEST), name=name).state
            except ManifestError:
                return
        for file, info in files.items():
            if file.startswith("state") and file != named and _is_old(info):
                self.delete(name, file)

    # ------------------------------------------------------------ what a draft needs

    def place(self, name: str, file: str, content: bytes) -> None:
        """Write a small object, and make sure that it is there."""
        path = self._path(name, file)

        def write() -> None:
            self._files.pipe_file(path, content)
            if bytes(self._files.cat_file(path)) != content:
                raise StoreError(errno.EIO, f"{path} was written and is not there")

        self._try(write)

    def upload(self, name: str, file: str) -> Any:
        """Begin to write an object; it is there once the file is closed."""
        path = self._path(name, file)
        return self._try(lambda: self._files.open(path, "wb", block_size=BLOCK_BYTES))

    def delete(self, name: str, file: str) -> None:
        """Delete an object."""
        path = self._path(name, file)
        self._try(lambda: self._files.rm_file(path))

    def call(self, action: Callable[[], Value], *, again: bool = True) -> Value:
        """Do it, with tries unless it can't be done twice; `StoreError` in the end."""
        return self._try(action) if again else _guard(action)

    @property
    def suffix(self) -> str:
        """What tells this writer's objects from others'."""
        return f"{self._owner}-{os.getpid()}"

    @property
    def _files(self) -> Any:
        """The file system, connected to at the first call."""
        if self._connected is None:
            import fsspec  # noqa: PLC0415 -- only where a URL is given

            options = _OPTIONS.get(self._scheme, {})
            # An instance of its own: what others cached or closed is not ours.
            self._connected = fsspec.filesystem(
                self._scheme, skip_instance_cache=True, use_listings_cache=False, **options
            )
            if self._scheme == "s3":
                self._connected.retries = 1  # of its own: ours are enough
        return self._connected

    def _path(self, name: str, file: str = "") -> str:
        return f"{self.url}/{name}/{file}" if file else f"{self.url}/{name}"

    def _list(self, folder: str, *, detail: bool = False) -> Any:
        """Return the names below, without the way to them; with `detail`, what is known of each."""

        def look() -> dict[str, Any]:
            self._files.invalidate_cache()
            try:
                found = self._files.ls(folder, detail=True)
            except FileNotFoundError:
                return {}
            return {each["name"].rstrip("/").rpartition("/")[2]: each for each in found}

        found = self._try(look)
        return found if detail else list(found)

    def _try(self, action: Callable[[], Value]) -> Value:
        for pause in self._pauses:
            try:
                return _guard(action)
            except FileNotFoundError:
                raise  # that does not pass
            except StoreError as error:
                if isinstance(error.__cause__, PermissionError):
                    raise
                time.sleep(pause)
        return _guard(action)


class _RemoteDraft:
    """An object of this writer's own, and a manifest at the end."""

    def __init__(self, store: RemoteStore, *, step: int) -> None:
        self._store = store
        self._name = folder_name(step)
        self.state = f"state-{store.suffix}.safetensors"
        self._file = store.upload(self._name, self.state)
        self._is_whole = False
        self._is_committed = False

    def write(self, piece: memoryview) -> None:
        """Add to the state; whole parts go out as they fill up."""
        self._store.call(lambda: self._file.write(piece), again=False)

    def sync(self) -> None:
        """End the upload."""
        self._store.call(self._file.close, again=False)
        self._is_whole = True

    def commit(self, manifest: Manifest) -> None:
        """Make sure that the state is there, then write the manifest."""
        found = self._store.size(self._name, self.state)
        if found != manifest.num_bytes:
            raise StoreError(
                errno.EIO, f"{self.state} has {found} of {manifest.num_bytes} bytes in the store"
            )
        if self._is_there(manifest):
            return  # another holder of duty saved the same step
        self._store.place(self._name, MANIFEST, encode(manifest))
        self._is_committed = True

    def abandon(self) -> None:
        """Break the upload off, or delete what no manifest names."""
        if self._is_committed:
            return
        try:
            if not self._is_whole:
                self._store.call(self._file.discard, again=False)
                # fsspec would finish a file that is merely dropped.
                self._file.closed = True
            else:
                self._store.delete(self._name, self.state)
        except (OSError, AttributeError):
            return  # an unnamed object; `clear` takes it later

    def _is_there(self, ours: Manifest) -> bool:
        try:
            there = decode(self._store.read(self._name, MANIFEST), name=self._name)
            size = self._store.size(self._name, there.state)
        except (FileNotFoundError, ManifestError):
            return False
        return there.age >= ours.age and size == there.num_bytes


class _Opened:
    """An open object whose reads are tried again."""

    def __init__(self, file: Any, attempt: Callable[[Callable[[], Any]], Any]) -> None:
        self._file = file
        self._try = attempt
        self._at = 0

    def readinto(self, room: memoryview) -> int:
        """Fill some room from here on; return how many bytes came, 0 at the end."""

        def read() -> bytes:
            self._file.seek(self._at)
            return bytes(self._file.read(len(room)))

        piece: bytes = self._try(read)
        room[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def close(self) -> None:
        """Let go of it."""
        self._file.close()


def _guard(action: Callable[[], Value]) -> Value:
    try:
        return action()
    except (FileNotFoundError, StoreError):
        raise
    except Exception as error:  # each library raises what it likes
        words = (str(error).splitlines() or [""])[0]
        raise StoreError(errno.EIO, f"{type(error).__name__}: {words}"[:500]) from error


def _find_library(scheme: str, url: str) -> None:
    """Raise `ValueError`, with what would be right, when nothing can speak to this store."""
    import fsspec  # noqa: PLC0415 -- only where a URL is given

    # Or gcsfs asks another service for the kind of the bucket, for minutes where that is far away.
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    try:
        fsspec.get_filesystem_class(scheme)
    except ImportError as error:
        extra = _EXTRAS.get(scheme)
        remedy = f"install ebbtide[{extra}] in the image" if extra else str(error)
        raise ValueError(f"{url}: nothing here speaks {scheme}://: {remedy}") from error
    except ValueError as error:
        raise ValueError(
            f"{url}: {scheme}:// is no store that is known; s3:// and gs:// are, or a mounted path"
        ) from error


def _is_old(info: dict[str, Any]) -> bool:
    """Tell whether an object is older than any save takes; not when its age is not known."""
    for key in ("LastModified", "mtime", "created", "updated"):
        moment = info.get(key)
        if isinstance(moment, datetime):
            return time.time() - moment.timestamp() > LEFTOVER_SECONDS
    return False
