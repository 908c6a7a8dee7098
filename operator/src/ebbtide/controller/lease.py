"""
One operator acts at a time: whoever holds a Lease.

We lead while renewals succeed and stop `renew_seconds` after the last success *began*: whatever the
API server or the network does, a standby takes over only later. Whether another holder is dead is
judged by our own clock since its record last changed, never by the times written in it.
"""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from ebbtide.cluster import paths
from ebbtide.cluster.errors import ClusterError, ConflictError, NotFoundError
from ebbtide.cluster.port import Api
from ebbtide.core.values.errors import EbbtideError

RENEWAL_ERRORS: Final = (ClusterError, OSError, TimeoutError)


class LeaseLostError(EbbtideError):
    """Somebody else may lead by now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    """As other controllers have them."""

    duration_seconds: float = 15.0  # a holder silent for so long is dead
    renew_seconds: float = 10.0  # we stop so long after the last success began
    period_seconds: float = 2.0


@dataclass(slots=True)
class _Record:
    """The Lease as last read, and when it last looked different."""

    body: dict[str, Any] = field(default_factory=dict)
    changed: float = 0.0

    @property
    def holder(self) -> str:
        return str(self.body.get("spec", {}).get("holderIdentity") or "")


class Lease:
    """One Lease object and our wish to hold it."""

    def __init__(
        self,
        api: Api,
        *,
        namespace: str,
        name: str,
        identity: str,
        clock: Callable[[], datetime],
        times: LeaseTimes | None = None,
    ) -> None:
        self.times = times or LeaseTimes()
        self._api = api
        self._collection = paths.within(namespace, "leases", root=paths.LEASES)
        self._path = paths.lease(namespace, name)
        self._name = name
        self._identity = identity
        self._clock = clock
        self._time = asyncio.get_running_loop().time
        self._seen = _Record()

    async def take(self) -> bool:
        """Take or renew it; tell whether we hold it."""
        try:
            await self._read()
        except NotFoundError:
            return await self._write(None)
        holder = self._seen.holder
        silent = self._time() - self._seen.changed
        if holder not in ("", self._identity) and silent < self.times.duration_seconds:
            return False
        return await self._write(self._seen.body)

    async def release(self) -> None:
        """Give it back, if it is ours, so that a standby need not wait."""
        await self._read()
        if self._seen.holder == self._identity:
            spec = {**self._seen.body["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
            await self._api.replace(self._path, {**self._seen.body, "spec": spec})

    async def _read(self) -> None:
        body = json.loads(await self._api.read(self._path))
        if body != self._seen.body:
            self._seen = _Record(body=body, changed=self._time())

    async def _write(self, old: dict[str, Any] | None) -> bool:
        now = self._clock().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        before = {} if old is None else dict(old.get("spec") or {})
        spec = {
            **before,
            "holderIdentity": self._identity,
            "leaseDurationSeconds": round(self.times.duration_seconds),
            "renewTime": now,
        }
        if before.get("holderIdentity") != self._identity:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = int(before.get("leaseTransitions") or 0) + 1
        try:
            if old is None:
                await self._api.create(self._collection, self._build(spec))
            else:
                await self._api.replace(self._path, {**old, "spec": spec})
        except ConflictError:
            return False  # somebody was faster
        return True

    def _build(self, spec: dict[str, Any]) -> dict[str, Any]:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name},
            "spec": spec,
        }


async def lead(lease: Lease, work: Callable[[], Awaitable[None]]) -> None:
    """
    Wait for the Lease, then work while it is renewed.

    Raises:
        LeaseLostError: it was not renewed in time; the work has been stopped.
    """
    times, clock = lease.times, asyncio.get_running_loop().time
    begun = clock()
    while not await _renewed(lease, times.period_seconds):
        await asyncio.sleep(times.period_seconds)
        begun = clock()
    task = asyncio.ensure_future(work())
    good_until = begun + times.renew_seconds
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=max(0.0, begun + times.period_seconds - clock()))
            if task.done():
                break
            begun = clock()
            if begun >= good_until:
                raise LeaseLostError(f"not renewed for {times.renew_seconds:.0f} s")
            if await _renewed(lease, min(times.period_seconds, good_until - begun)):
                good_until = begun + times.renew_seconds
        await task
    finally:
        task.cancel()
        await asyncio.wait({task}, timeout=times.renew_seconds / 3)
        if task.done():
            with contextlib.suppress(*RENEWAL_ERRORS):
                async with asyncio.timeout(times.period_seconds):
                    await lease.release()


async def _renewed(lease: Lease, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await lease.take()
    except RENEWAL_ERRORS:
        return False
