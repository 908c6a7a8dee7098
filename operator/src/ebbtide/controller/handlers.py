"""
kopf's part: news of our own kinds, into the caches. It writes nothing to the objects.

Only `on.event` handlers: no finalizer, no annotation, no state of kopf's own.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import kopf

from ebbtide.cluster.records import JobRecords, PoolRecords
from ebbtide.core.values.job import JobKey
from ebbtide.wire import names

DELETED: Final = "DELETED"
SILENT_SECONDS: Final = 70.0
SERVER_SECONDS: Final = 240  # the API takes whole seconds only
CLIENT_SECONDS: Final = 300.0
CONNECT_SECONDS: Final = 10.0
REQUEST_SECONDS: Final = 30.0
EXIT_SECONDS: Final = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Caches:
    """Where the news go."""

    jobs: JobRecords
    pools: PoolRecords


def register(
    caches: Caches,
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
            caches.jobs.drop(JobKey(meta["namespace"], meta["name"]), meta["uid"])
        else:
            caches.jobs.put(body)

    if with_pools:

        @kopf.on.event(names.GROUP, names.VERSION, names.CAPACITY_POOLS, registry=registry)
        async def see_pool(event: Mapping[str, Any], **_: Any) -> None:
            body = event["object"]
            if event["type"] == DELETED:
                caches.pools.drop(body["metadata"]["name"])
            else:
                caches.pools.put(body)

    return registry


def make_settings(*, namespaced: bool) -> kopf.OperatorSettings:
    """Return kopf's settings: quiet, without peers, nothing waits for ever."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.posting.level = logging.CRITICAL
    settings.peering.standalone = True
    settings.process.ultimate_exiting_timeout = EXIT_SECONDS
    settings.scanning.disabled = namespaced
    settings.watching.server_timeout = SERVER_SECONDS
    settings.watching.client_timeout = CLIENT_SECONDS
    settings.watching.connect_timeout = CONNECT_SECONDS
    settings.watching.inactivity_timeout = SILENT_SECONDS
    settings.networking.request_timeout = REQUEST_SECONDS
    settings.networking.connect_timeout = CONNECT_SECONDS
    settings.networking.enforce_retry_after = True
    settings.queueing.exit_timeout = 0.5
    return settings
