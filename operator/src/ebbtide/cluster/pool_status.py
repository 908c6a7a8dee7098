"""
Keeps `CapacityPool.status` true: how many nodes there are, and what is remembered of the pool.

The past of a pool is in its status, so whoever leads next goes on with it; of a pool of the
configuration file, which has no object, it is elsewhere (`pool_notes`).
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from ebbtide.api.pool_status import PoolState, render_pool_status
from ebbtide.cluster import paths
from ebbtide.cluster.cache import NodeCache, PodCache
from ebbtide.cluster.errors import ClusterError, NotFoundError
from ebbtide.cluster.pool_notes import PoolNotes
from ebbtide.cluster.port import Api
from ebbtide.cluster.records import PoolRecord, PoolRecords
from ebbtide.core.lifecycle.remembering import PoolView, next_look, remember
from ebbtide.core.values.observed import Pod
from ebbtide.core.values.past import LifeTold, Past
from ebbtide.core.values.pool import Pool
from ebbtide.core.values.settings import Settings
from ebbtide.wire import names

EVERY_SECONDS: Final = 3.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """By which rules a past is kept, and what it says of the lives of nodes."""

    settings: Settings = field(default_factory=Settings)
    tell_life: Callable[[Pool, Past, datetime], LifeTold | None] = lambda _pool, _past, _now: None


class PoolStatusWriter:
    """Writes only what changed, at most every few seconds."""

    def __init__(
        self,
        api: Api,
        *,
        pools: PoolRecords,
        nodes: NodeCache,
        pods: PodCache,
        notes: PoolNotes,
        clock: Callable[[], datetime],
    ) -> None:
        self._api = api
        self._notes = notes
        self._pools = pools
        self._nodes = nodes
        self._pods = pods
        self._clock = clock
        self._changed = asyncio.Event()
        self._is_recalled = False  # what was noted by the leader before
        self._watched: set[str] = set()  # names of pools that we have looked at since we lead

    def changed(self) -> None:
        """Take that a node, pod or pool changed."""
        self._changed.set()

    async def run(self, keeping: Keeping | None = None) -> None:
        """Go on until cancelled; only whoever leads may."""
        keeping = keeping or Keeping()
        self._watched.clear()
        self._is_recalled = False
        self._changed.set()  # others may have written, or not, before we led
        due: float | None = None
        while True:
            await self._wait(due)
            try:
                again = await self.write(keeping)
                due = None if again is None else again.total_seconds()
            except ClusterError as error:
                logger.warning("the status of pools is not written: %s", error)
                self._changed.set()
            await asyncio.sleep(EVERY_SECONDS)

    async def _wait(self, seconds: float | None) -> None:
        """Wait for news, or until something is to be looked at without any."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass
        self._changed.clear()

    async def write(self, keeping: Keeping) -> timedelta | None:
        """Write every pool of which there is something new; return when to look again."""
        if not self._is_recalled:
            await self._notes.recall(self._pools)
            self._is_recalled = True
        now = self._clock()
        by_pool = self._pods.by_pool()
        due = []
        for record in self._pools.records():
            view = self._look(record, by_pool.get(record.pool.name, []))
            state = self._fold(record, view, now=now, keeping=keeping)
            self._watched.add(record.pool.name)
            old = record.state
            if old is None or render_pool_status(state) != render_pool_status(old):
                await self._store(record, state)
            due.append(next_look(view, state.past, now=now, settings=keeping.settings))
        return min((one for one in due if one is not None), default=None)

    def _look(self, record: PoolRecord, pods: list[Pod]) -> PoolView:
        return PoolView(
            pods=tuple(pods),
            nodes=self._nodes.view() if self._nodes.readable else None,
            is_continuous=record.pool.name in self._watched,
        )

    def _fold(
        self, record: PoolRecord, view: PoolView, *, now: datetime, keeping: Keeping
    ) -> PoolState:
        ready, total = self._nodes.count(record.pool.node_selector)
        before = record.state or PoolState()
        past = remember(before.past, view, now=now, settings=keeping.settings)
        told = before.lifetime
        if past.lives != before.past.lives or (past.lives and told is None):
            told = keeping.tell_life(record.pool, past, now)
        return replace(
            before,
            ready=ready,
            total=total,
            past=past,
            left_out_until=past.left_out_until(keeping.settings.capacity_wait),
            lifetime=told,
        )

    async def _store(self, record: PoolRecord, state: PoolState) -> None:
        name = record.pool.name
        if not record.uid:
            await self._notes.store(name, state)
            self._pools.keep(name, state)
            return
        try:
            found = await self._api.apply(
                f"{paths.pool(name)}/status", _build(record, state), manager=names.FIELD_MANAGER
            )
        except NotFoundError:
            self._pools.drop(name)
        else:
            self._pools.put(msgspec.json.decode(found))


def _build(record: PoolRecord, state: PoolState) -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.CAPACITY_POOL,
        "metadata": {"name": record.pool.name, "uid": record.uid},
        "status": render_pool_status(state),
    }
