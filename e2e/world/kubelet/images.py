"""Images: never looked into, but slow to pull, or not to be had at all."""

from __future__ import annotations

import asyncio
import fnmatch
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from world.kubelet.detection import find_view
from world.kubelet.errors import PullError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from world.kubelet.views import View
    from world.kubelet.warm import Warm


def _at_once(image: str) -> float:
    del image
    return 0.0


@dataclass(slots=True, kw_only=True)
class Images:
    """The registries of the world. A test may change both fields while nodes run."""

    unpullable: set[str] = field(default_factory=set)
    """Patterns, as fnmatch knows them, of images that no registry gives out."""
    pull_seconds: Callable[[str], float] = _at_once
    contents: Mapping[str, Mapping[str, Path]] = field(default_factory=dict)
    """What images hold besides the machine's own programs: pattern, then folder in it, to ours."""
    view: View | None = None
    """How containers see the machine's own programs; the best way that it allows, if not given."""
    warm: Warm | None = None
    """Starts what it can of all images at once, for tests that are not about starting."""

    def folders(self, image: str) -> dict[str, Path]:
        """Return what an image holds, by folder in it."""
        found: dict[str, Path] = {}
        for pattern, folders in self.contents.items():
            if fnmatch.fnmatchcase(image, pattern):
                found.update(folders)
        return found

    def refuses(self, image: str) -> bool:
        """Tell whether an image cannot be pulled."""
        return any(fnmatch.fnmatchcase(image, pattern) for pattern in self.unpullable)


class ImageStore:
    """The images that one node has."""

    def __init__(self, images: Images) -> None:
        """Start with none."""
        self._images = images
        self._present: set[str] = set()
        self._pulling: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @property
    def view(self) -> View:
        """How containers see the machine's own programs."""
        return self._images.view or find_view()

    @property
    def warm(self) -> Warm | None:
        """What forks containers from a process that has done its imports, if anything."""
        return self._images.warm

    def folders(self, image: str) -> dict[str, Path]:
        """Return what an image holds, by folder in it."""
        return self._images.folders(image)

    async def pull(self, image: str, *, policy: str) -> None:
        """Have the image on this node, or raise PullError."""
        async with self._pulling[image]:
            if image in self._present and policy != "Always":
                return
            if policy == "Never":
                message = f'Container image "{image}" is not present with pull policy of Never'
                raise PullError(message)
            if self._images.refuses(image):
                message = (
                    f'failed to pull and unpack image "{image}": failed to resolve reference '
                    f'"{image}": {image}: not found'
                )
                raise PullError(message)
            if image not in self._present:
                await asyncio.sleep(self._images.pull_seconds(image))
                self._present.add(image)
