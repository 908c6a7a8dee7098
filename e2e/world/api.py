"""
A small typed client of the Kubernetes API: JSON requests, and watches that do not end.

It knows no kinds: whoever calls it names the path, as `kubectl get --raw` does.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import aiohttp
import yaml

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from types import TracebackType

JSON: Final = "application/json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"

REQUEST_SECONDS: Final = 60.0
WATCH_SECONDS: Final = 240
"""How long the server keeps one watch open; the client then opens the next."""
LONGEST_LINE: Final = 2**22
"""A watch event is one line; what aiohttp takes by default is too short for a large object."""
RETRY_SECONDS: Final = 0.5
FIRST_ERROR: Final = 300
GONE: Final = 410
TOO_MANY: Final = 429
FIRST_SERVER_ERROR: Final = 500

Json: TypeAlias = dict[str, Any]


class ApiError(Exception):
    """The API server refused a request."""

    def __init__(self, status: int, message: str, reason: str = "") -> None:
        """Keep the HTTP status and what the server said."""
        super().__init__(f"{status} {reason}: {message}" if reason else f"{status}: {message}")
        self.status = status
        self.message = message
        self.reason = reason

    @property
    def is_passing(self) -> bool:
        """Whether the same request may well succeed a moment later."""
        return self.status == TOO_MANY or self.status >= FIRST_SERVER_ERROR

    @classmethod
    def parse(cls, status: int, text: str) -> ApiError:
        """Read the Status object that the server sends with an error, if it is one."""
        try:
            found = json.loads(text)
        except ValueError:
            return cls(status, text)
        if not isinstance(found, dict):
            return cls(status, text)
        return cls(status, str(found.get("message", text)), str(found.get("reason", "")))


class Api:
    """A connection to one API server; an asynchronous context manager."""

    def __init__(self, kubeconfig: Path) -> None:
        """Read the server, its authority and our client certificate."""
        config = yaml.safe_load(Path(kubeconfig).read_text(encoding="utf-8"))
        cluster = config["clusters"][0]["cluster"]
        user = config["users"][0]["user"]
        self.url = str(cluster["server"]).rstrip("/")
        self.authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._tls = ssl.create_default_context(cadata=self.authority)
        with tempfile.TemporaryDirectory() as folder:  # ssl reads a key from a file only
            files = [Path(folder, name) for name in ("client-certificate", "client-key")]
            for file in files:
                file.touch(mode=0o600)
                file.write_bytes(base64.b64decode(user[f"{file.name}-data"]))
            self._tls.load_cert_chain(files[0], files[1])
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Open the session; connections are made when they are needed."""
        self._session = aiohttp.ClientSession(
            base_url=self.url,
            connector=aiohttp.TCPConnector(ssl=self._tls, limit=0),
            timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
            read_bufsize=LONGEST_LINE,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    @property
    def session(self) -> aiohttp.ClientSession:
        """The open HTTP session."""
        if self._session is None:
            message = "the API client is used outside its context manager"
            raise RuntimeError(message)
        return self._session

    async def request(
        self,
        method: str,
        path: str,
        body: Json | list[Json] | None = None,
        *,
        content_type: str = JSON,
        **params: str,
    ) -> Json:
        """Send one request and return the object that comes back."""
        text = await self.text(method, path, body, content_type=content_type, **params)
        found = json.loads(text)
        if not isinstance(found, dict):
            message = f"{method} {path} gave no object: {text[:200]}"
            raise TypeError(message)
        return found

    async def text(
        self,
        method: str,
        path: str,
        body: Json | list[Json] | None = None,
        *,
        content_type: str = JSON,
        **params: str,
    ) -> str:
        """Send one request and return the text that comes back, for example a log."""
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": content_type}
        async with self.session.request(
            method, path, data=data, headers=headers, params=params
        ) as response:
            text = await response.text()
            if response.status >= FIRST_ERROR:
                raise ApiError.parse(response.status, text)
            return text

    async def watch(self, path: str, **params: str) -> AsyncGenerator[tuple[str, Any], None]:
        """
        Yield ("SYNC", every object), then events; ("SYNC", ...) again after a gap.

        A lost connection or a server that is away is waited for, as long as it takes.
        """
        version: str | None = None
        while True:
            try:
                if version is None:
                    listing = await self.request("GET", path, None, **params)
                    version = listing["metadata"]["resourceVersion"]
                    yield "SYNC", _items(listing)
                async with contextlib.aclosing(self._events(path, version, params)) as events:
                    async for kind, found in events:
                        version = found["metadata"]["resourceVersion"]
                        if kind != "BOOKMARK":
                            yield kind, found
            except ApiError:
                version = None  # most often 410: the history is gone, so list again
                await asyncio.sleep(RETRY_SECONDS)
            except (aiohttp.ClientError, TimeoutError, ValueError):
                await asyncio.sleep(RETRY_SECONDS)

    async def _events(
        self, path: str, version: str, params: dict[str, str]
    ) -> AsyncGenerator[tuple[str, Json], None]:
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        patience = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=WATCH_SECONDS + 30)
        async with self.session.get(path, params={**params, **query}, timeout=patience) as response:
            if response.status >= FIRST_ERROR:
                raise ApiError.parse(response.status, await response.text())
            async for line in response.content:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise ApiError(status.get("code", GONE), status.get("message", "watch ended"))
                yield event["type"], event["object"]


def _items(listing: Json) -> list[Json]:
    """Return the objects of a list; an empty one may be null."""
    items: list[Json] = listing.get("items") or []
    return items
