"""
What the rest of this package needs of an API client.

`client.Client` is the real one; tests stand in for it with one that keeps its objects in memory.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol


class Api(Protocol):
    """Requests in dictionaries, answers in bytes, troubles as errors of `cluster.errors`."""

    async def read(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """Fetch an object or a page of a list."""

    async def create(self, path: str, body: Mapping[str, Any]) -> bytes:
        """Post one object; `ConflictError` when its name is taken."""

    async def patch(self, path: str, body: Mapping[str, Any]) -> bytes:
        """Merge into one object."""

    async def apply(self, path: str, body: Mapping[str, Any], *, manager: str) -> bytes:
        """Server-side apply; fields of others that we set become ours."""

    async def replace(self, path: str, body: Mapping[str, Any]) -> bytes:
        """Put one object in place of what is there."""

    async def delete(self, path: str, body: Mapping[str, Any]) -> bytes:
        """Delete one object; `body` holds the delete options."""

    def stream(
        self, path: str, params: Mapping[str, str]
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a watch; iterating over what is given yields its lines as they come."""
