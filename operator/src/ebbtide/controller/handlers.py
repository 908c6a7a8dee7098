"""
kopf's part: news of our own kinds, into the caches. It writes nothing to the objects.

Only `on.event` handlers: no finalizer, no annotation, no state of kopf's own.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final, Protocol

import kopf

from ebbtide.core.values.job import JobKey
from ebbtide.wire import names

DELETED: Final = "DELETED"
SILENT_SECONDS: Final = 70.0
SERVER_SECONDS: Final = 240  # the API takes whole seconds only
CLIENT_SECONDS: Final = 300.0
CONNECT_SECONDS: Final = 10.0
REQUEST_SECONDS: Final = 30.0
BACKOFFS: Final = (1.0, 1.0, 2.0, 3.0, 5.0, 8.0)
LAST_BACKOFF: Final = 10.0
Body = Mapping[str, Any]


class Patience:
    """Waits between tries that never end: an API server may be away for as long as it likes."""

    def __iter__(self) -> Iterator[float]:
        yield from BACKOFFS
        while True:
            yield LAST_BACKOFF


class News(Protocol):
    """Where the news go; called in kopf's thread."""

    def job_seen(self, body: Body) -> None:
        """Take a version of a job."""

    def job_gone(self, key: JobKey, uid: str) -> None:
        """Take the end of a job."""

    def pool_seen(self, body: Body) -> None:
        """Take a version of a pool."""

    def pool_gone(self, name: str) -> None:
        """Take the end of a pool."""


def register(
    news: News,
    *,
    login: Callable[[], Awaitable[kopf.ConnectionInfo]],
    with_pools: bool,
) -> kopf.OperatorRegistry:
    """Return a registry with our handlers, and no others."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def log_in(**_: Any) -> kopf.ConnectionInfo:
        return await login()

    @kopf.on.event(names.GROUP, names.VERSION, names.TRAINING_JOBS, registry=registry)
    async def see_job(event: Mapping[str, Any], **_: Any) -> None:
        body = event["object"]
        if event["type"] == DELETED:
            meta = body["metadata"]
            news.job_gone(JobKey(meta["namespace"], meta["name"]), meta["uid"])
        else:
            news.job_seen(body)

    if with_pools:

        @kopf.on.event(names.GROUP, names.VERSION, names.CAPACITY_POOLS, registry=registry)
        async def see_pool(event: Mapping[str, Any], **_: Any) -> None:
            body = event["object"]
            if event["type"] == DELETED:
                news.pool_gone(body["metadata"]["name"])
            else:
                news.pool_seen(body)

    return registry


def make_settings(
    *, namespaced: bool, silent_seconds: float = SILENT_SECONDS
) -> kopf.OperatorSettings:
    """Return kopf's settings: quiet, without peers, nothing waits for ever."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.posting.level = logging.CRITICAL
    settings.peering.standalone = True
    settings.process.ultimate_exiting_timeout = None  # it has a thread, not the process
    settings.scanning.disabled = namespaced
    settings.watching.server_timeout = SERVER_SECONDS
    settings.watching.client_timeout = CLIENT_SECONDS
    settings.watching.connect_timeout = CONNECT_SECONDS
    settings.watching.inactivity_timeout = silent_seconds
    settings.networking.request_timeout = REQUEST_SECONDS
    settings.networking.connect_timeout = CONNECT_SECONDS
    settings.networking.enforce_retry_after = True
    settings.networking.error_backoffs = Patience()
    settings.queueing.exit_timeout = 0.5
    return settings
