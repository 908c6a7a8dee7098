"""
One client of the API server: dictionaries in, bytes out, nothing waits for ever.

Every request has a time limit, a bounded number of them run at once, and what may pass by itself
(no answer, 429, 5xx) is tried again a few times with growing, jittered delays that honour
`Retry-After`. Each request we make can be repeated safely: creates have fixed names, deletes name a
UID, status writes name a resourceVersion.
"""

import asyncio
import contextlib
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import aiohttp
import msgspec
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.config import load_incluster_config, load_kube_config
from kubernetes.aio.config.config_exception import ConfigException
from kubernetes.aio.dynamic import DynamicClient

from ebbtide.cluster import errors

APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
JSON: Final = "application/json"

_LONGEST_REASON: Final = 4096
_LONGEST_RETRY_AFTER: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Where the credentials come from; neither path nor context: the pod's own, else kubectl's."""

    kubeconfig: Path | None = None
    context: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How hard the client leans on the server."""

    concurrency: int = 32
    request_seconds: float = 10.0
    silent_seconds: float = 70.0  # a watch that says nothing for so long is dead
    attempts: int = 4
    first_delay: float = 0.2
    longest_delay: float = 5.0


async def load_configuration(login: Login) -> Configuration:
    """
    Read the credentials.

    Raises:
        errors.CredentialsError: there are none, or they cannot be read.
    """
    configuration = Configuration()
    try:
        if login.kubeconfig is None and login.context is None:
            with contextlib.suppress(ConfigException):
                load_incluster_config(client_configuration=configuration)
                return configuration
        await load_kube_config(
            config_file=None if login.kubeconfig is None else str(login.kubeconfig),
            context=login.context,
            client_configuration=configuration,
        )
    except (ConfigException, OSError) as error:
        raise errors.CredentialsError(f"no usable credentials: {error}") from error
    return configuration


class _Session:
    """One login. When it is replaced, requests that began on it are let end before it closes."""

    def __init__(self, configuration: Configuration) -> None:
        self._api = ApiClient(configuration=configuration)
        # Without discovery: we know our paths, and need its request() only.
        self._dynamic: Any = DynamicClient(self._api)
        self._num_uses = 0
        self._is_old = False

    @contextlib.asynccontextmanager
    async def use(self) -> AsyncIterator[Any]:
        self._num_uses += 1
        try:
            yield self._dynamic
        finally:
            self._num_uses -= 1
            if self._is_old and not self._num_uses:
                await self.close()

    async def retire(self) -> None:
        self._is_old = True
        if not self._num_uses:
            await self.close()

    async def close(self) -> None:
        await self._api.close()


class Client:
    """An asynchronous context manager; made once per process."""

    def __init__(
        self,
        login: Login,
        *,
        limits: Limits | None = None,
        chance: random.Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.limits = limits or Limits()
        self._login = login
        self._chance = chance or random.Random()  # noqa: S311 -- jitter, not a secret
        self._sleep = sleep
        self._gate = asyncio.Semaphore(self.limits.concurrency)
        self._logging_in = asyncio.Lock()
        self._session: _Session | None = None

    async def __aenter__(self) -> Self:
        await self._log_in(instead_of=None)
        return self

    async def __aexit__(self, *_: object) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _log_in(self, *, instead_of: _Session | None) -> None:
        async with self._logging_in:
            old = self._session
            if old is not instead_of:
                return  # another request that was refused has done so
            self._session = _Session(await load_configuration(self._login))
            if old is not None:
                await old.retire()

    def _standing(self) -> _Session:
        if self._session is None:
            raise errors.UnavailableError("the client is closed")
        return self._session

    async def read(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """Fetch an object or a page of a list."""
        return await self._send("get", path, params=params)

    async def create(self, path: str, body: Mapping[str, Any]) -> bytes:
        """Post one object; `ConflictError` when its name is taken."""
        return await self._send("post", path, body=body)

    async def patch(self, path: str, body: Mapping[str, Any]) -> bytes:
        """Merge into one object."""
        return await self._send("patch", path, body=body, content_type=MERGE)

    async def apply(self, path: str, body: Mapping[str, Any], *, manager: str) -> bytes:
        """Server-side apply; fields of others that we set become ours."""
        params = {"fieldManager": manager, "force": "true"}
        return await self._send("patch", path, body=body, params=params, content_type=APPLY)

    async def replace(self, path: str, body: Mapping[str, Any]) -> bytes:
        """Put one object in place of what is there."""
        return await self._send("put", path, body=body)

    async def delete(self, path: str, body: Mapping[str, Any]) -> bytes:
        """Delete one object; `body` holds the delete options."""
        return await self._send("delete", path, body=body)

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str]
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch; iterating over what is given yields its lines as they come."""
        seconds = aiohttp.ClientTimeout(
            total=None,
            sock_connect=self.limits.request_seconds,
            sock_read=self.limits.silent_seconds,
        )
        async with self._standing().use() as api:
            try:
                response = await _request(api, "get", path, params=params, timeout=seconds)
            except ApiException as error:
                raise wrap(error, path) from error
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise _no_answer("watch", path, error) from error
            try:
                yield response.content
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise _no_answer("watch", path, error) from error
            finally:
                response.close()

    async def _send(self, method: str, path: str, **options: Any) -> bytes:
        delay = self.limits.first_delay
        for attempt in range(1, self.limits.attempts + 1):
            session = self._standing()
            try:
                async with self._gate:
                    session = self._standing()
                    return await self._once(session, method, path, **options)
            except errors.CredentialsError:
                if attempt == self.limits.attempts:
                    raise
                await self._log_in(instead_of=session)
            except errors.UnavailableError as error:
                if attempt == self.limits.attempts:
                    raise
                asked = error.retry_after if isinstance(error, errors.ThrottledError) else 0.0
                await self._sleep(max(asked, delay) * self._chance.uniform(1.0, 1.5))
                delay = min(delay * 2, self.limits.longest_delay)
        raise errors.UnavailableError(f"{method} {path} was never tried")

    async def _once(self, session: _Session, method: str, path: str, **options: Any) -> bytes:
        seconds = aiohttp.ClientTimeout(total=self.limits.request_seconds)
        try:
            async with session.use() as api:
                response = await _request(api, method, path, timeout=seconds, **options)
                body: bytes = await response.read()
                return body
        except ApiException as error:
            raise wrap(error, path) from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _no_answer(method, path, error) from error


async def _request(
    api: Any,
    method: str,
    path: str,
    *,
    timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 -- handed to the transport as it is
    body: Mapping[str, Any] | None = None,
    params: Mapping[str, str] | None = None,
    content_type: str = JSON,
) -> Any:
    return await api.request(
        method,
        path,
        body=body,
        query_params=list((params or {}).items()),
        content_type=content_type,
        serialize=False,
        _request_timeout=timeout,
    )


def _no_answer(method: str, path: str, error: BaseException) -> errors.UnavailableError:
    text = str(error) or type(error).__name__
    return errors.UnavailableError(f"no answer to {method} {path}: {text}")


class _Status(msgspec.Struct, frozen=True):
    message: str = ""


def _message(error: ApiException) -> str:
    body = error.body.encode() if isinstance(error.body, str) else error.body
    try:
        text = msgspec.json.decode(body or b"{}", type=_Status).message
    except msgspec.MsgspecError:
        text = ""
    return (text or f"{error.status} {error.reason}")[:_LONGEST_REASON]


def _retry_after(error: ApiException) -> float:
    try:
        asked = float((error.headers or {}).get("Retry-After", "1"))
    except ValueError:
        return 1.0
    return min(max(0.0, asked), _LONGEST_RETRY_AFTER) if math.isfinite(asked) else 1.0


def wrap(error: ApiException, path: str) -> errors.ClusterError:  # noqa: PLR0911 -- one per answer
    """Say the server's answer in our words."""
    text = _message(error)
    match error.status:
        case 404:
            return errors.NotFoundError(text)
        case 409:
            return errors.ConflictError(text)
        case 410:
            return errors.GoneError(text)
        case 401:
            return errors.CredentialsError(text)
        case 403:
            return errors.ForbiddenError(text)
        case 400 | 405 | 413 | 415 | 422:
            return errors.RejectedError(text)
        case 429:
            return errors.ThrottledError(text, retry_after=_retry_after(error))
        case _:
            return errors.UnavailableError(f"{path}: {text}")
