"""
Checkpoints: which one counts, reading it a piece at a time, and writing one in this process.

A checkpoint is a folder `step-<12 digits>` on a path or an object store, with a safetensors file
and `manifest.json`, which has its size and SHA-256. A name proves nothing: a checkpoint counts when
its file is what the manifest says. Looking goes by size; the sum is proved as the state is read,
and what fails is marked, so that nobody takes it for good again.

Which one is newest is decided by (lineage, step), both numbers. Lineage grows with every start from
a checkpoint, so that after a return to an older step the abandoned, larger ones don't come back.

    shelf = Shelf("/checkpoints", owner=pod)
    shelf.write(tree, step=7, lineage=1, world_size=2, may_commit=lambda: True)
    loaded = shelf.load()                       # Loaded(manifest, tree), or None

A tree is anything that `ebbtide.runtime.trees` describes: what trains otherwise than `TrainState`
does keeps its own, under names of its own, and no world size is part of it.
"""

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from ebbtide.runtime import archive, layouts, streams
from ebbtide.runtime.archive import Facts, LostDuty
from ebbtide.runtime.errors import CheckpointError
from ebbtide.runtime.layouts import Layout, LayoutError
from ebbtide.runtime.manifest import Manifest
from ebbtide.runtime.reporting import Progress, say
from ebbtide.runtime.stores import Readable, StoreError, describe_failure, open_store

__all__ = ["Loaded", "LostDuty", "Manifest", "Shelf"]

_LOOKS = 10

Targets = Callable[[Layout], Mapping[str, Tensor]]
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A checkpoint's state and what it came from."""

    manifest: Manifest
    tree: Any


class DamageError(Exception):
    """A checkpoint is not what its manifest says."""


class Shelf:
    """One job's checkpoints, as one process sees them."""

    def __init__(self, path: str, *, owner: str) -> None:
        """
        `path` is a folder or a URL. `owner` is the pod's name: no two that live at once share it.

        `CheckpointError` for a URL that nothing here can speak to.
        """
        try:
            self.store = open_store(path, owner=owner)
        except ValueError as error:
            raise CheckpointError(str(error)) from error
        self.path = path
        self.owner = owner
        self._early: Future[str] | None = None
        self._failed: dict[str, Manifest] = {}  # what this process could not read, by name

    # ------------------------------------------------------------ looking

    def probe_early(self) -> None:
        """Begin the first `probe` in a thread: a disk takes its time, and so does who connects."""
        found: Future[str] = Future()
        self._early = found

        def run() -> None:
            try:
                found.set_result(self._try_probe())
            except Exception as error:  # noqa: BLE001 -- it belongs to who asks
                found.set_exception(error)

        threading.Thread(target=run, name="ebbtide-probe", daemon=True).start()

    def probe(self) -> str:
        """Return why checkpoints could not be written here, in words; empty when they can."""
        early, self._early = self._early, None
        return self._try_probe() if early is None else early.result()

    def _try_probe(self) -> str:
        try:
            self.store.probe()
        except OSError as error:
            return describe_failure(error, self.path)
        return ""

    def entries(self) -> list[tuple[str, Manifest]]:
        """Return the checkpoints with a usable manifest, newest first. Nothing is proved yet."""
        return self._list().usable

    def _list(self) -> archive.Listing:
        try:
            return archive.list_all(self.store)
        except OSError as error:
            raise CheckpointError(self._describe(error)) from error

    def newest_step(self) -> int:
        """Return the step of the newest whole checkpoint; -1 when there is no checkpoint at all."""
        found = self._look_until_still(self._find_step)
        return -1 if found is None else found

    def newest_lineage(self) -> int:
        """
        Return the largest lineage that any checkpoint may have, damaged ones too; 0 when none.

        What has no usable manifest may have begun one of its own.
        """
        listing = self._list()
        known = max((manifest.lineage for _, manifest in listing.usable), default=0)
        return known + len(listing.unusable)

    def load(self, targets: Targets | None = None) -> Loaded | None:
        """
        Return the newest valid checkpoint, and say loudly which newer ones were passed over.

        `targets` gives the tensors to read into, by name; new ones without it. It may raise
        `CheckpointError` to refuse a layout. What is read into holds nothing of worth until this
        returns.
        """
        return self._look_until_still(lambda: self._find_loadable(targets or layouts.allocate))

    def _look_until_still(self, look: Callable[[], Found | None]) -> Found | None:
        """
        Look; None only when there is nothing, `CheckpointError` when all that is there is bad.

        Another process may delete an old checkpoint as we look at it: then we look again.
        """
        names = self._names()
        for _ in range(_LOOKS):
            try:
                found = look()
            except OSError as error:
                raise CheckpointError(self._describe(error)) from error
            if found is not None:
                return found
            before, names = names, self._names()
            if not names:
                return None
            if set(names) == set(before):
                break
        raise CheckpointError(self._all_bad(names))

    def _names(self) -> list[str]:
        try:
            return self.store.names()
        except OSError as error:
            raise CheckpointError(self._describe(error)) from error

    def _describe(self, error: OSError) -> str:
        return describe_failure(error, self.path, trying="read checkpoints from")

    def _find_step(self) -> int | None:
        """What could not be read here counts only where there is nothing else."""
        doubtful = None
        for name, manifest in archive.entries(self.store):
            if not archive.looks_whole(self.store, name, manifest):
                continue
            if self._failed.get(name) != manifest:
                return manifest.step
            doubtful = manifest.step if doubtful is None else doubtful
        return doubtful

    def _find_loadable(self, targets: Targets) -> Loaded | None:
        listing = archive.list_all(self.store)
        self._tell_of(listing.unusable)
        for name, manifest in listing.usable:
            try:
                loaded = Loaded(manifest=manifest, tree=self._read(name, manifest, targets))
            except FileNotFoundError:
                continue  # deleted meanwhile: there are newer ones
            except StoreError:
                raise
            except OSError as error:
                say(f"checkpoint {name} can't be read ({error}): going back to the one before it")
                self._failed[name] = manifest
            except DamageError as error:
                say(f"checkpoint {name} is damaged ({error}): going back to the one before it")
                self._mark(name, str(error))
                self._failed[name] = manifest
            else:
                self._failed.pop(name, None)
                return loaded
        return None

    def _tell_of(self, unusable: Mapping[str, str]) -> None:
        """Say which ones can't be told to be older than what will be loaded."""
        left = set(self.store.names()) if unusable else set()
        for name in sorted(left.intersection(unusable)):  # the others were deleted meanwhile
            say(f"checkpoint {name} can't be used ({unusable[name]}): it is passed over")

    def _mark(self, name: str, why: str) -> None:
        try:
            self.store.mark(name, why)
        except OSError as error:
            say(f"checkpoint {name} could not be marked as damaged: {error}")

    def _read(self, name: str, manifest: Manifest, targets: Targets) -> Any:
        """Return the state; `DamageError` when it is not what the manifest says."""
        if not archive.looks_whole(self.store, name, manifest):
            raise DamageError("its file is missing, cut short, or marked as damaged")
        file = self.store.open(name, manifest.state)
        try:
            with Progress(f"reading {name}", total=manifest.num_bytes) as progress:
                return _Reading(file, manifest, progress).read(targets)
        finally:
            file.close()

    def _all_bad(self, names: Sequence[str]) -> str:
        return (
            f"no checkpoint under {self.path} is whole ({', '.join(sorted(names))}): restore one, "
            "or move these away to start at step 0"
        )

    # ------------------------------------------------------------ writing

    def write(
        self, tree: Any, *, step: int, lineage: int, world_size: int, may_commit: Callable[[], bool]
    ) -> Manifest:
        """
        Save durably; `LostDuty` when `may_commit` says no right before it would become visible.

        In this process and thread, without a copy of the whole: the tree must not change
        meanwhile. An `OSError` leaves nothing behind and all earlier checkpoints as they were.
        """
        layout, tensors = layouts.lay_out(tree)
        facts = Facts(
            step=step,
            lineage=lineage,
            world_size=world_size,
            torch_version=str(torch.__version__),
        )
        return archive.record(self.store, facts, _pieces(layout, tensors), may_commit=may_commit)

    def tidy(self, *, retain: int) -> None:
        """Delete what is older than the newest `retain`, and what dead writers left."""
        archive.tidy(self.store, retain=retain)


class _Reading:
    """The reading of one file."""

    def __init__(self, file: Readable, manifest: Manifest, progress: Progress) -> None:
        self._file = file
        self._manifest = manifest
        self._progress = progress
        self._checksum = hashlib.sha256()
        self._chunk = streams.buffer(manifest.num_bytes)

    def read(self, targets: Targets) -> Any:
        """Read all of it; what would be said against the state waits for the proof of the sum."""
        refusal: LayoutError | CheckpointError | None = None
        sink: streams.Sink | None = None
        layout = Layout(slots=(), description=None)
        tensors: Mapping[str, Tensor] = {}
        try:
            layout = self._read_layout()
            tensors = targets(layout)
            sink = streams.Sink([tensors[slot.name] for slot in layout.slots])
        except (LayoutError, CheckpointError) as error:
            refusal = error
        while count := self._fill(self._chunk):
            if sink is not None:
                sink.pour(self._chunk[:count])
        self._prove()
        try:
            if refusal is not None:
                raise refusal
            return layouts.rebuild(layout, tensors)
        except LayoutError as error:
            raise DamageError(str(error)) from error

    def _read_layout(self) -> Layout:
        header = self._take(layouts.read_prefix(self._take(layouts.PREFIX)))
        layout = layouts.read_header(header)
        if layout.num_bytes != self._manifest.num_bytes - len(header) - layouts.PREFIX:
            raise LayoutError("the header and the size of the file do not agree")
        return layout

    def _prove(self) -> None:
        if self._checksum.hexdigest() != self._manifest.sha256:
            raise DamageError("its sum is not the one of its manifest")

    def _take(self, size: int) -> bytes:
        """Return exactly so many bytes."""
        if size > self._manifest.num_bytes:
            raise LayoutError(f"a header of {size} bytes in a file of {self._manifest.num_bytes}")
        taken = torch.empty(size, dtype=torch.uint8)
        if self._fill(taken) != size:
            raise LayoutError("the file ends in its header")
        return taken.numpy().tobytes()

    def _fill(self, chunk: Tensor) -> int:
        room, count = streams.view(chunk), 0
        while count < len(room) and (more := self._file.readinto(room[count:])):
            count += more
        self._checksum.update(room[:count])
        self._progress.add(count)
        return count


def _pieces(layout: Layout, tensors: Sequence[Tensor]) -> Iterator[memoryview]:
    yield memoryview(layout.preface)
    source, chunk = streams.Source(tensors), streams.buffer(layout.num_bytes)
    while count := source.fill(chunk):
        yield streams.view(chunk)[:count]
