"""A mistake in a manifest, and what its author must be told."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from support.manifests import changed, job_manifest

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """One mistake, and what its author must be told."""

    id: str
    changes: Mapping[str, Any]
    path: str  # the field to be named
    says: str  # a part of what is said by us; None where only the API server can tell
    refused: bool = True  # by the API server; else the operator says so in a condition
    server_says: str = ""  # where its words differ from ours

    def manifest(self) -> Json:
        """Return the wrong job."""
        return changed(job_manifest(), self.changes)
