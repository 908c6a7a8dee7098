"""
The operator's process: starts everything, and ends it in order.

Watches run always, so that a standby knows the cluster already; what acts runs only while we lead.
"""

import asyncio
import contextlib
import logging
import secrets
import signal
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import kopf
import msgspec

from ebbtide.cluster.client import Client, Limits, Login
from ebbtide.cluster.coordinator_client import CoordinatorClient
from ebbtide.cluster.errors import ClusterError
from ebbtide.cluster.links import POLL_SECONDS
from ebbtide.cluster.live import LiveCluster, Scope
from ebbtide.cluster.pool_status import Keeping
from ebbtide.controller import clock
from ebbtide.controller.compiling import quicken
from ebbtide.controller.framework import Framework
from ebbtide.controller.handlers import make_settings, register
from ebbtide.controller.kopf_login import log_in
from ebbtide.controller.lease import Lease, lead
from ebbtide.controller.metrics import Metrics
from ebbtide.controller.probes import find_silent, find_unread
from ebbtide.controller.reconcile import Reconciler
from ebbtide.controller.server import Server
from ebbtide.controller.settings import Configuration
from ebbtide.controller.work_queue import WorkQueue
from ebbtide.controller.workers import Workers
from ebbtide.core.values.job import JobKey
from ebbtide.core.values.observed import Observed
from ebbtide.core.values.status import JobStatus
from ebbtide.data.knowledge import embedded_knowledge
from ebbtide.manifests.options import Options

RESYNC_SECONDS: Final = 300.0
_START_RETRY: Final = 2.0
_STOP_SECONDS: Final = 2.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseName:
    """Which Lease decides who acts."""

    namespace: str
    name: str = "ebbtide-operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppOptions:
    """What the command line says."""

    configuration: Configuration = field(default_factory=Configuration)
    login: Login = field(default_factory=Login)
    host: str = ""
    health_port: int = 8081
    metrics_port: int = 8080
    workers: int = 16
    lease: LeaseName | None = None  # None: nobody else can be there


class App:
    """One operator."""

    def __init__(self, options: AppOptions) -> None:
        self._options = options
        self._configuration = options.configuration
        self.metrics = Metrics()
        self.health = Server(host=options.host, port=options.health_port)
        self.exporter = Server(host=options.host, port=options.metrics_port)
        self.ready = asyncio.Event()  # leading, and everything is known
        self._stop = asyncio.Event()
        self._queue: WorkQueue[JobKey] = WorkQueue()
        self._failed = False

    def stop(self) -> None:
        """Begin the end."""
        self._stop.set()

    async def run(self) -> int:
        """Run until stopped; return the exit status."""
        self._catch_signals()
        limits = Limits(silent_seconds=self._configuration.silent_watch_seconds)
        async with Client(self._options.login, limits=limits) as client:
            cluster = self._make_cluster(client)
            self._serve(cluster)
            await self.health.start()
            await self.exporter.start()
            logger.info(
                "health on port %d, metrics on port %d", self.health.port, self.exporter.port
            )
            watches = [self._task(watch.run(), watch.path) for watch in cluster.watches]
            compiling = self._task(
                quicken(
                    lambda: len(cluster.pools.records()), least=self._configuration.compile_pools
                ),
                "compiling",
            )
            try:
                await self._until_stopped(
                    [*watches, self._task(self._wait_to_lead(client, cluster), "leading")]
                )
            finally:
                await _end([compiling])
                await cluster.close()
                await self.health.stop()
                await self.exporter.stop()
        logger.info("stopped")
        return 1 if self._failed else 0

    def _make_cluster(self, client: Client) -> LiveCluster:
        progress = self._configuration.settings.progress_interval
        lease = self._options.lease
        return LiveCluster(
            client,
            scope=Scope(
                namespaces=self._configuration.namespaces,
                pools=self._configuration.pools,
                notes_namespace="" if lease is None else lease.namespace,
                poll_seconds=min(POLL_SECONDS, max(0.5, progress.total_seconds())),
            ),
            options=Options(coordinator_image=self._configuration.coordinator_image),
            dial=CoordinatorClient,
            clock=clock.now,
            wake=self._queue.add,
        )

    def _serve(self, cluster: LiveCluster) -> None:
        def refresh() -> None:
            self.metrics.queue_depth.set(len(self._queue))
            self.metrics.watch_age.set(max(watch.age for watch in cluster.watches))

        self.health.probe("/healthz", lambda: find_silent(cluster.watches))
        self.health.probe("/readyz", lambda: find_unread(cluster.watches))
        self.exporter.metrics(self.metrics.registry, refresh)

    async def _wait_to_lead(self, client: Client, cluster: LiveCluster) -> None:
        named = self._options.lease
        if named is None:
            await self._lead(cluster)
            return
        lease = Lease(
            client,
            namespace=named.namespace,
            name=named.name,
            identity=f"{socket.gethostname()}-{secrets.token_hex(4)}",
            clock=clock.now,
        )
        await lead(lease, lambda: self._lead(cluster))

    async def _lead(self, cluster: LiveCluster) -> None:
        await cluster.synced()
        await self._prime_until_done(cluster)
        settings = self._configuration.settings
        knowledge = await asyncio.to_thread(embedded_knowledge, start=settings.start)
        reconciler = Reconciler(
            cluster,
            settings=settings,
            knowledge=knowledge,
            clock=clock.now,
            seen=self._saw,
        )

        async def make_pass(key: JobKey) -> timedelta | None:
            delay = await reconciler.reconcile(key)
            if cluster.jobs.get(key) is None:
                self.metrics.forget(key)
            return delay

        workers = Workers(
            self._queue, make_pass, metrics=self.metrics, number=self._options.workers
        )
        self.metrics.leader.set(1)
        framework = self._make_framework(cluster)
        framework.start()
        tasks = [
            self._task(workers.run(), "workers"),
            self._task(self._resync(cluster), "resync"),
            self._task(
                cluster.pool_status.run(Keeping(settings=settings, tell_life=knowledge.tell_life)),
                "pool status",
            ),
        ]
        self.ready.set()
        logger.info("at work: %d jobs, %d pods", len(cluster.jobs.known()), len(cluster.pods))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()  # none of them ends by itself, so this says why
        finally:
            self.metrics.leader.set(0)
            await _end(tasks)
            if not await framework.stop(seconds=_STOP_SECONDS):
                logger.warning("kopf did not end within %.0f s", _STOP_SECONDS)

    def _saw(self, observed: Observed, status: JobStatus) -> None:
        self.metrics.saw(observed.job.key, status)

    async def _prime(self, cluster: LiveCluster) -> bool:
        try:
            await cluster.prime()
        except (ClusterError, msgspec.MsgspecError) as error:  # or a proxy's page in between
            logger.warning("jobs and pools cannot be listed (are the CRDs there?): %s", error)
            return False
        return True

    async def _prime_until_done(self, cluster: LiveCluster) -> None:
        delay = 0.0
        while True:
            await asyncio.sleep(delay)
            if await self._prime(cluster):
                return
            delay = _START_RETRY

    async def _resync(self, cluster: LiveCluster) -> None:
        while True:
            await asyncio.sleep(RESYNC_SECONDS)
            if await self._prime(cluster):
                for key in cluster.jobs.known():
                    self._queue.add(key)

    def _make_framework(self, cluster: LiveCluster) -> Framework:
        news = _News(asyncio.get_running_loop(), cluster)
        namespaces = self._configuration.namespaces

        async def operate(stop: asyncio.Event) -> None:
            await kopf.operator(
                registry=register(
                    news,
                    login=lambda: log_in(self._options.login),
                    with_pools=not self._configuration.pools,
                ),
                settings=make_settings(
                    namespaced=bool(namespaces),
                    silent_seconds=self._configuration.silent_watch_seconds,
                ),
                clusterwide=not namespaces,
                namespaces=namespaces,
                standalone=True,
                stop_flag=stop,
            )

        return Framework(operate)

    def _catch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, self.stop)

    def _task(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        return asyncio.create_task(work, name=name)

    async def _until_stopped(self, tasks: list[asyncio.Task[None]]) -> None:
        stopping = asyncio.create_task(self._wait(self._stop.wait), name="stop")
        try:
            await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
            if not self._stop.is_set():
                self._failed = True
                for task in tasks:
                    if task.done() and not task.cancelled():
                        logger.error(
                            "%s ended by itself", task.get_name(), exc_info=task.exception()
                        )
        finally:
            # The leading task first: it ends everything that acts.
            await _end([tasks[-1]])
            await _end([stopping, *tasks[:-1]])

    @staticmethod
    async def _wait(waiting: Callable[[], Awaitable[Any]]) -> None:
        await waiting()


class _News:
    """Carries kopf's news from its thread into our loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, cluster: LiveCluster) -> None:
        self._loop = loop
        self._cluster = cluster

    def job_seen(self, body: Mapping[str, Any]) -> None:
        self._hand_over(self._cluster.jobs.put, body)

    def job_gone(self, key: JobKey, uid: str) -> None:
        self._hand_over(self._cluster.jobs.drop, key, uid)

    def pool_seen(self, body: Mapping[str, Any]) -> None:
        self._hand_over(self._cluster.pools.put, body)

    def pool_gone(self, name: str) -> None:
        self._hand_over(self._cluster.pools.drop, name)

    def _hand_over(self, take: Callable[..., object], *what: object) -> None:
        with contextlib.suppress(RuntimeError):  # our loop has ended: nobody needs it any more
            self._loop.call_soon_threadsafe(take, *what)


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
