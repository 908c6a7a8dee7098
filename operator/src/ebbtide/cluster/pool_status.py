"""Keeps `CapacityPool.status` true: how many of its nodes there are and how many are ready."""

import asyncio
import logging
from typing import Any, Final

from ebbtide.cluster import paths
from ebbtide.cluster.cache import NodeCache
from ebbtide.cluster.errors import ClusterError
from ebbtide.cluster.port import Api
from ebbtide.cluster.records import PoolRecord, PoolRecords
from ebbtide.wire import names

EVERY_SECONDS: Final = 3.0

logger = logging.getLogger(__name__)


class PoolStatusWriter:
    """Writes only what changed, at most every few seconds."""

    def __init__(self, api: Api, *, pools: PoolRecords, nodes: NodeCache) -> None:
        self._api = api
        self._pools = pools
        self._nodes = nodes
        self._changed = asyncio.Event()
        self._written: dict[str, tuple[str, int, int]] = {}

    def changed(self) -> None:
        """Take that a node or pool changed."""
        self._changed.set()

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self.write()
            except ClusterError as error:
                logger.warning("the status of pools is not written: %s", error)
                self._changed.set()
            await asyncio.sleep(EVERY_SECONDS)

    async def write(self) -> None:
        """Write every pool whose numbers changed."""
        for record in self._pools.records():
            ready, total = self._nodes.count(record.pool.node_selector)
            counts = (record.uid, ready, total)
            name = record.pool.name
            if not record.uid or self._written.get(name) == counts:
                continue
            if record.stored.get("nodes") != {"ready": ready, "total": total}:
                await self._api.apply(
                    f"{paths.pool(name)}/status",
                    _build(record, ready, total),
                    manager=names.FIELD_MANAGER,
                )
            self._written[name] = counts


def _build(record: PoolRecord, ready: int, total: int) -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.CAPACITY_POOL,
        "metadata": {"name": record.pool.name, "uid": record.uid},
        "status": {"nodes": {"ready": ready, "total": total}},
    }
