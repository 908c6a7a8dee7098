"""
Where a pool's record is kept that has no object: one ConfigMap for each, beside the Lease.

Pools of the configuration file are used where nothing cluster-scoped may be read. Without the right
to write ConfigMaps, and without a Lease, their record lasts as long as the process.
"""

import logging
from typing import Any, Final

import msgspec

from ebbtide.api.pool_status import PoolState, parse_pool_status, render_pool_status
from ebbtide.cluster import paths
from ebbtide.cluster.errors import NotFoundError, RejectedError
from ebbtide.cluster.port import Api
from ebbtide.cluster.records import PoolRecords
from ebbtide.core.values.errors import InvalidManifestError
from ebbtide.wire import names

KEY: Final = "status"

logger = logging.getLogger(__name__)


class PoolNotes:
    """Reads the notes of the leader before, and writes our own."""

    def __init__(self, api: Api, *, namespace: str) -> None:
        self._api = api
        self._namespace = namespace  # "": there is no place for notes

    async def recall(self, pools: PoolRecords) -> None:
        """
        Take over what is noted of pools without an object.

        Raises:
            UnavailableError: it is not known whether there is any; writing now could destroy it.
        """
        for record in pools.records():
            if not record.uid and self._namespace:
                state = await self._read(record.pool.name)
                if state is not None:
                    pools.keep(record.pool.name, state)

    async def store(self, pool: str, state: PoolState) -> None:
        """Note the state of a pool."""
        if not self._namespace:
            return
        content = msgspec.json.encode(render_pool_status(state)).decode()
        name = names.pool_notes(pool)
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name},
            "data": {KEY: content},
        }
        path = paths.config_map(self._namespace, name)
        try:
            await self._api.apply(path, body, manager=names.FIELD_MANAGER)
        except RejectedError as error:
            self._give_up(error)

    async def _read(self, pool: str) -> PoolState | None:
        path = paths.config_map(self._namespace, names.pool_notes(pool))
        try:
            found = msgspec.json.decode(await self._api.read(path))
            return parse_pool_status(msgspec.json.decode((found.get("data") or {}).get(KEY, "{}")))
        except NotFoundError:
            return None
        except RejectedError as error:
            self._give_up(error)
            return None
        except (InvalidManifestError, msgspec.MsgspecError) as error:
            logger.warning("pool %s: its past is forgotten, it cannot be read: %s", pool, error)
            return None

    def _give_up(self, error: RejectedError) -> None:
        logger.warning(
            "the past of pools is kept in memory only: ConfigMaps in namespace %s: %s",
            self._namespace,
            error,
        )
        self._namespace = ""
