"""
What is said about a checkpoint beside it, and how checkpoints are named and compared.

No torch here: a process that only writes needs none.
"""

import json
import re
from dataclasses import asdict, dataclass
from typing import Any, Final

FORMAT: Final = 2
"""1 was `state.pt`, written by torch.save; 2 is safetensors."""
MANIFEST: Final = "manifest.json"
STATE: Final = "state.safetensors"
MAX_MANIFEST: Final = 1 << 16
_NAME: Final = re.compile(r"step-(\d{1,18})")
_STATE: Final = re.compile(r"state[\w.-]{0,300}\.safetensors")
_LARGEST: Final = 1 << 62


class ManifestError(ValueError):
    """This is no manifest that we can use; the text says why."""


class OtherFormatError(ManifestError):
    """A manifest of another version of Ebbtide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """
    What is said about a checkpoint beside it.

    `created` is in seconds of the epoch, `num_bytes` and `sha256` are of the file `state`.
    """

    step: int
    lineage: int
    num_bytes: int
    sha256: str
    world_size: int
    created: float
    torch_version: str
    state: str = STATE
    format: int = FORMAT

    @property
    def age(self) -> tuple[int, int]:
        """What decides which one is newer: lineage before step, both as numbers."""
        return self.lineage, self.step


def folder_name(step: int) -> str:
    """Return the name of the folder of a step's checkpoint."""
    return f"step-{step:012d}"


def step_of(name: str) -> int | None:
    """Return the step of a folder's name; None when it is none of ours."""
    found = _NAME.fullmatch(name)
    return None if found is None else int(found[1])


def encode(manifest: Manifest) -> bytes:
    """Return a manifest as it is written."""
    return json.dumps(asdict(manifest), indent=1).encode()


def decode(raw: bytes, *, name: str) -> Manifest:
    """Return what was written in the folder of this name; `ManifestError` says what is wrong."""
    try:
        fields: dict[str, Any] = json.loads(raw)
        written = fields["format"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ManifestError(f"{name}/{MANIFEST} is no manifest: {error!r}"[:300]) from error
    if type(written) is int and written != FORMAT:
        raise OtherFormatError(
            f"{name} is a checkpoint of format {written}, and this Ebbtide reads format {FORMAT}"
        )
    try:
        manifest = Manifest(**fields)
    except TypeError as error:
        raise ManifestError(f"{name}/{MANIFEST}: {error!r}"[:300]) from error
    if not _is_possible(manifest):
        raise ManifestError(f"{name}/{MANIFEST} has fields that cannot be")
    if step_of(name) != manifest.step:
        raise ManifestError(f"{name}/{MANIFEST} speaks of step {manifest.step}")
    return manifest


def _is_possible(manifest: Manifest) -> bool:
    numbers = (
        manifest.step, manifest.lineage, manifest.num_bytes, manifest.world_size, manifest.format,
    )  # fmt: skip
    texts = (manifest.sha256, manifest.torch_version, manifest.state)
    return (
        all(type(number) is int and 0 <= number < _LARGEST for number in numbers)
        and all(isinstance(text, str) for text in texts)
        and _STATE.fullmatch(manifest.state) is not None
    )
