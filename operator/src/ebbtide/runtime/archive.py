"""
What is done with a store whatever it is: list what it holds, record a state, keep it tidy.

No torch here: the process that writes beside the trainer needs none.
"""

import hashlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ebbtide.runtime.errors import CheckpointError
from ebbtide.runtime.manifest import MANIFEST, Manifest, ManifestError, OtherFormatError, decode
from ebbtide.runtime.stores import DAMAGED, Store, StoreError


class LostDuty(Exception):  # noqa: N818 -- an outcome of a save, not an error
    """The right to save ended before the checkpoint became visible: it was thrown away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a manifest says and the bytes do not."""

    step: int
    lineage: int
    world_size: int
    torch_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What a store holds: nothing is proved yet of what has a usable manifest."""

    usable: list[tuple[str, Manifest]]  # newest first
    unusable: dict[str, str]  # the others by name, and why they are


def list_all(store: Store) -> Listing:
    """
    Return all checkpoints of a store.

    `CheckpointError` when one was written by another version: it may be the newest.
    """
    usable, unusable = [], {}
    for name in store.names():
        try:
            usable.append((name, decode(store.read(name, MANIFEST), name=name)))
        except OtherFormatError as error:
            raise CheckpointError(
                f"{store.url}: {error}: use the image that wrote it, or move it away"
            ) from error
        except StoreError:
            raise  # out of reach: what is newest cannot be told now
        except FileNotFoundError:
            unusable[name] = f"it has no {MANIFEST}: it is damaged, or nobody finished it"
        except (OSError, ManifestError) as error:
            unusable[name] = str(error)
    usable.sort(key=lambda entry: entry[1].age, reverse=True)
    return Listing(usable=usable, unusable=unusable)


def entries(store: Store) -> list[tuple[str, Manifest]]:
    """Return the checkpoints with a usable manifest, newest first; errors as of `list_all`."""
    return list_all(store).usable


def looks_whole(store: Store, name: str, manifest: Manifest) -> bool:
    """Tell whether the state is there with its whole size, and nobody found it damaged."""
    try:
        has_size = store.size(name, manifest.state) == manifest.num_bytes
    except StoreError:
        raise
    except OSError:
        return False
    return has_size and not store.has(name, DAMAGED)


def record(
    store: Store,
    facts: Facts,
    pieces: Iterable[memoryview],
    *,
    may_commit: Callable[[], bool],
) -> Manifest:
    """
    Save durably; `LostDuty` when `may_commit` says no right before it would become visible.

    An `OSError` leaves nothing behind and all earlier checkpoints as they were.
    """
    draft = store.draft(step=facts.step)
    try:
        total, checksum = 0, hashlib.sha256()
        for piece in pieces:
            draft.write(piece)
            checksum.update(piece)
            total += len(piece)
        draft.sync()
        manifest = Manifest(
            step=facts.step,
            lineage=facts.lineage,
            num_bytes=total,
            sha256=checksum.hexdigest(),
            world_size=facts.world_size,
            created=time.time(),
            torch_version=facts.torch_version,
            state=draft.state,
        )
        if not may_commit():
            raise LostDuty
        draft.commit(manifest)
        return manifest
    finally:
        draft.abandon()


def tidy(store: Store, *, retain: int) -> None:
    """Delete what is older than the newest `retain`, and what dead writers left."""
    try:
        old = entries(store)[max(1, retain) :]
    except (OSError, CheckpointError):
        return  # the next one tries again
    for name, _ in old:
        store.remove(name)
    store.clear()
