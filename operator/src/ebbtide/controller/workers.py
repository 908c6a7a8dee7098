"""Runs passes: several at a time, one per key, and decides when a key comes back."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from ebbtide.controller.errors import Failures
from ebbtide.controller.metrics import Metrics
from ebbtide.controller.work_queue import WorkQueue
from ebbtide.core.values.job import JobKey

LONGEST_PASS: Final = 120.0

logger = logging.getLogger(__name__)

Pass = Callable[[JobKey], Awaitable[timedelta | None]]


class Workers:
    """N workers on one queue."""

    def __init__(
        self,
        queue: WorkQueue[JobKey],
        make_pass: Pass,
        *,
        metrics: Metrics,
        number: int = 16,
        chance: random.Random | None = None,
    ) -> None:
        self._queue = queue
        self._make_pass = make_pass
        self._metrics = metrics
        self._number = number
        self._failures: Failures[JobKey] = Failures(
            chance or random.Random()  # noqa: S311 -- jitter, not a secret
        )

    async def run(self) -> None:
        """Go on until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._number):
                group.create_task(self._work(), name=f"worker {number}")

    async def _work(self) -> None:
        while True:
            key = await self._queue.take()
            try:
                await self._once(key)
            finally:
                self._queue.done(key)

    async def _once(self, key: JobKey) -> None:
        begun = time.perf_counter()
        try:
            async with asyncio.timeout(LONGEST_PASS):
                delay = await self._make_pass(key)
        except Exception as error:  # noqa: BLE001 -- an outermost loop: one job must not stop others
            self._failed(key, error)
        else:
            self._failures.succeeded(key)
            if delay is None:
                self._queue.forget(key)
            else:
                self._queue.add(key, delay=delay.total_seconds())
        self._metrics.passes.observe(time.perf_counter() - begun)

    def _failed(self, key: JobKey, error: Exception) -> None:
        verdict = self._failures.judge(key, error)
        self._metrics.errors.labels(verdict.kind).inc()
        if verdict.loud:
            logger.error(
                "%s: a pass failed, next try in %.1f s", key, verdict.delay, exc_info=error
            )
        elif verdict.kind != "conflict":
            logger.warning("%s: %s; next try in %.1f s", key, error, verdict.delay)
        self._queue.add(key, delay=verdict.delay)
