"""
Our line to every job's coordinator: one long poll each, and calls beside it.

A link lives as long as the coordinator's pod runs. What it heard last is all that is remembered,
and it is forgotten with the pod.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

from ebbtide.cluster.coordinator_client import CallRefused
from ebbtide.cluster.errors import ClusterError
from ebbtide.core.values.decision import Tell
from ebbtide.core.values.job import JobKey
from ebbtide.core.values.observed import CoordinatorView, Pod
from ebbtide.wire.messages import Report, WorkSpec
from ebbtide.wire.names import COORDINATOR_PORT

POLL_SECONDS: Final = 5.0
CALL_SECONDS: Final = 3.0
PROGRESS_SECONDS: Final = 10.0
_FIRST_DELAY: Final = 0.1
_LONGEST_DELAY: Final = 2.0

logger = logging.getLogger(__name__)


class Line(Protocol):
    """One authenticated connection to a coordinator."""

    async def call(
        self,
        name: str,
        *,
        worker: str = "",
        on: bool = True,
        seconds: float = 0.0,
        work: WorkSpec | None = None,
        since: int = -1,
        wait: float = 0.0,
    ) -> Report | None:
        """Ask; `CoordinatorUnreachable` when no answer comes, `CallRefused` when it is no."""

    async def close(self) -> None:
        """Hang up."""


Dial = Callable[[str, int, bytes], Line]
ReadToken = Callable[[JobKey, str], Awaitable[bytes]]


@dataclass(slots=True)
class _Link:
    """One coordinator pod and what it said last."""

    key: JobKey
    job_uid: str
    pod: Pod
    view: CoordinatorView = field(default_factory=CoordinatorView)
    calls: Line | None = None
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)
    task: asyncio.Task[None] | None = None
    told: float = float("-inf")  # when its progress last woke the job


class Links:
    """All links; owns their tasks."""

    def __init__(
        self,
        dial: Dial,
        read_token: ReadToken,
        *,
        clock: Callable[[], datetime],
        wake: Callable[[JobKey], None],
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._poll_seconds = poll_seconds
        self._dial = dial
        self._read_token = read_token
        self._clock = clock
        self._wake = wake
        self._links: dict[JobKey, _Link] = {}

    def follow(self, key: JobKey, job_uid: str, pod: Pod | None) -> CoordinatorView:
        """Keep a link to this pod, and to no other of the job; return what it said last."""
        link = self._links.get(key)
        if link is not None and (pod is None or link.pod.uid != pod.uid or link.pod.ip != pod.ip):
            self._hang_up(link)
            link = None
        if pod is None:
            return CoordinatorView()
        if link is None:
            link = self._links[key] = _Link(key=key, job_uid=job_uid, pod=pod)
            link.task = asyncio.create_task(self._listen(link), name=f"coordinator of {key}")
        return link.view

    async def tell(self, key: JobKey, action: Tell) -> None:
        """Call the coordinator; one that cannot be reached is seen in the next look."""
        link = self._links.get(key)
        if link is None:
            return
        async with link.busy:
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    if link.calls is None:
                        link.calls = await self._connect(link)
                    report = await link.calls.call(
                        action.call,
                        worker=action.worker,
                        on=action.on,
                        seconds=action.seconds,
                        work=action.work,
                    )
                    report = _check(link, report)
            except CallRefused as error:
                logger.warning("%s: the coordinator refused to %s: %s", key, action.call, error)
            except (ClusterError, OSError, TimeoutError) as error:
                calls, link.calls = link.calls, None
                await _close(calls)
                self._failed(link, error)
            else:
                if report is not None:
                    self._heard(link, report)

    async def close(self) -> None:
        """End every link."""
        links = list(self._links.values())
        for link in links:
            self._hang_up(link)
        tasks = [link.task for link in links if link.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    def _hang_up(self, link: _Link) -> None:
        self._links.pop(link.key, None)
        if link.task is not None:
            link.task.cancel()

    async def _connect(self, link: _Link) -> Line:
        token = await self._read_token(link.key, link.job_uid)
        return self._dial(link.pod.ip, COORDINATOR_PORT, token)

    async def _listen(self, link: _Link) -> None:
        delay = _FIRST_DELAY
        line: Line | None = None
        try:
            while True:
                try:
                    line = line or await self._connect(link)
                    await self._poll(link, line)
                    delay = _FIRST_DELAY
                except (ClusterError, OSError, TimeoutError) as error:
                    closing, line = line, None
                    await _close(closing)
                    self._failed(link, error)
                    await asyncio.sleep(delay)
                    delay = min(delay * 2, _LONGEST_DELAY)
        finally:
            await _close(line)
            await _close(link.calls)

    async def _poll(self, link: _Link, line: Line) -> None:
        known = link.view.report
        since = -1 if known is None or link.view.error else known.version
        async with asyncio.timeout(self._poll_seconds + CALL_SECONDS):
            report = _check(link, await line.call("status", since=since, wait=self._poll_seconds))
        if report is not None:
            self._heard(link, report)

    def _heard(self, link: _Link, report: Report) -> None:
        old, now = link.view, asyncio.get_running_loop().time()
        if old.report is not None and report.version < old.report.version:
            return  # the answer to a call overtook this one
        link.view = CoordinatorView(report=report, heard=self._clock())
        news = old.report is None or old.error or old.report.version != report.version
        moved = old.report is not None and old.report.step != report.step
        if news or (moved and now - link.told >= PROGRESS_SECONDS):
            link.told = now
            self._wake(link.key)

    def _failed(self, link: _Link, error: BaseException) -> None:
        text = str(error) or type(error).__name__
        old = link.view
        link.view = CoordinatorView(report=old.report, heard=old.heard, error=text)
        if not old.error:
            logger.info("%s: the coordinator cannot be reached: %s", link.key, text)
            self._wake(link.key)


def _check(link: _Link, report: Report | None) -> Report | None:
    if report is not None and report.attempt != link.pod.attempt:
        raise OSError(f"attempt {report.attempt} answers at {link.pod.ip}")
    return report


async def _close(line: Line | None) -> None:
    if line is not None:
        with contextlib.suppress(OSError, TimeoutError):
            await line.close()
