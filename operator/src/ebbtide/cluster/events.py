"""
Events on a job, as `kubectl describe` shows them; the same one again only counts up.

They are a courtesy: one that cannot be written is logged and forgotten.
"""

import logging
import uuid
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from ebbtide.cluster import paths
from ebbtide.cluster.errors import ClusterError, NotFoundError
from ebbtide.cluster.port import Api
from ebbtide.core.values.decision import Event
from ebbtide.core.values.job import BrokenJob, Job
from ebbtide.wire import names

COMPONENT: Final = "ebbtide"
_REMEMBERED: Final = 2048
_LONGEST_MESSAGE: Final = 1024

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Told:
    """An event that is there."""

    name: str
    count: int = 1


class Teller:
    """Writes events; remembers the latest so as to count them up."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._told: OrderedDict[tuple[str, str, str], _Told] = OrderedDict()

    async def tell(self, job: Job | BrokenJob, events: Iterable[Event], now: datetime) -> None:
        """Write the events of one pass."""
        for event in events:
            try:
                await self._tell(job, event, now)
            except ClusterError as error:
                logger.warning("%s: event %s is not written: %s", job.key, event.reason, error)

    async def _tell(self, job: Job | BrokenJob, event: Event, now: datetime) -> None:
        key = (job.uid, event.reason, event.message)
        path = paths.within(job.key.namespace, "events")
        told = self._told.get(key)
        if told is not None:
            change = {"count": told.count + 1, "lastTimestamp": _time(now)}
            try:
                await self._api.patch(f"{path}/{told.name}", change)
            except NotFoundError:
                del self._told[key]  # they expire after an hour
            else:
                told.count += 1
                self._told.move_to_end(key)
                return
        name = f"{job.key.name}.{uuid.uuid4().hex[:16]}"
        await self._api.create(path, _build(job, event, name, now))
        self._told[key] = _Told(name)
        if len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)


def _build(job: Job | BrokenJob, event: Event, name: str, now: datetime) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": job.key.namespace},
        "involvedObject": {
            "apiVersion": names.API_VERSION,
            "kind": names.TRAINING_JOB,
            "namespace": job.key.namespace,
            "name": job.key.name,
            "uid": job.uid,
            "resourceVersion": job.resource_version,
        },
        "reason": event.reason,
        "message": event.message[:_LONGEST_MESSAGE],
        "type": "Warning" if event.warning else "Normal",
        "count": 1,
        "firstTimestamp": _time(now),
        "lastTimestamp": _time(now),
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
    }


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
