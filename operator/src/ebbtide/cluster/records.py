"""TrainingJobs and CapacityPools as they were last seen."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from ebbtide.api.convert import parse_job, parse_pool
from ebbtide.api.pool_status import PoolState, parse_pool_status
from ebbtide.api.status import parse_status
from ebbtide.cluster.shapes import parse_version
from ebbtide.core.values.errors import InvalidManifestError
from ebbtide.core.values.job import BrokenJob, Job, JobKey
from ebbtide.core.values.past import Past
from ebbtide.core.values.pool import Pool
from ebbtide.core.values.status import JobStatus
from ebbtide.data.listed_prices import embedded_price

_REMEMBERED_ENDS: Final = 10_000

logger = logging.getLogger(__name__)

Body: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """One version of a job object."""

    version: int
    job: Job | BrokenJob
    status: JobStatus
    trouble: str = ""  # why its status cannot be read


class _Gone:
    """UIDs of objects that have ended: late news, or a late answer to our write, is no object."""

    def __init__(self) -> None:
        self._uids: dict[str, None] = {}  # oldest first

    def add(self, uid: str) -> None:
        if uid:
            self._uids[uid] = None
        while len(self._uids) > _REMEMBERED_ENDS:
            del self._uids[next(iter(self._uids))]

    def __contains__(self, uid: object) -> bool:
        return uid in self._uids


class JobRecords:
    """All jobs; an object is replaced by a newer version of itself only."""

    def __init__(self, changed: Callable[[JobKey], None]) -> None:
        self._changed = changed
        self._records: dict[JobKey, JobRecord] = {}
        self._gone = _Gone()

    def get(self, key: JobKey) -> JobRecord | None:
        """The job as last seen."""
        return self._records.get(key)

    def known(self) -> tuple[JobKey, ...]:
        """All jobs."""
        return tuple(self._records)

    def records(self) -> tuple[JobRecord, ...]:
        """All jobs as last seen."""
        return tuple(self._records.values())

    def put(self, body: Body) -> None:
        """Take a version of a job, unless a newer one or its end is known."""
        meta = body["metadata"]
        key = JobKey(meta["namespace"], meta["name"])
        version = parse_version(meta.get("resourceVersion", ""))
        old = self._records.get(key)
        if meta.get("uid") in self._gone or (old is not None and old.version >= version):
            return
        stored = body.get("status") or {}
        try:
            status, trouble = parse_status(stored), ""
        except InvalidManifestError as error:
            status, trouble = JobStatus(), str(error)
            logger.error("%s: its status cannot be read: %s", key, error)  # noqa: TRY400 -- the text is enough
        self._records[key] = JobRecord(
            version=version, job=_read(body), status=status, trouble=trouble
        )
        self._changed(key)

    def drop(self, key: JobKey, uid: str) -> None:
        """Take the end of a job."""
        self._gone.add(uid)
        old = self._records.get(key)
        if old is not None and uid == old.job.uid:
            del self._records[key]
            self._changed(key)

    def replace(self, bodies: Iterable[Body], *, namespace: str, version: int) -> None:
        """Take a whole list as it was at `version`."""
        listed = set()
        for body in bodies:
            self.put(body)
            listed.add(JobKey(body["metadata"]["namespace"], body["metadata"]["name"]))
        for key, record in tuple(self._records.items()):
            inside = not namespace or key.namespace == namespace
            if inside and key not in listed and record.version <= version:
                self.drop(key, record.job.uid)


def _read(body: Body) -> Job | BrokenJob:
    """Return a job; a fault of ours on one object must not keep all others from being read."""
    try:
        return parse_job(body)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        meta = body["metadata"]
        key = JobKey(meta["namespace"], meta["name"])
        logger.exception("%s cannot be read", key)
        managed_by = (body.get("spec") or {}).get("managedBy")
        return BrokenJob(
            key=key,
            uid=str(meta.get("uid", "")),
            generation=meta.get("generation") or 0,
            resource_version=str(meta.get("resourceVersion", "")),
            managed_by=managed_by if isinstance(managed_by, str) else "",
            errors=(f"the object cannot be read: {type(error).__name__}",),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRecord:
    """One version of a pool object."""

    version: int
    uid: str
    pool: Pool
    state: PoolState | None  # None: none is written, or what is cannot be read


class PoolRecords:
    """All pools: of the cluster, or those of the configuration file."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._records: dict[str, PoolRecord] = {}
        self._gone = _Gone()

    def pools(self) -> tuple[Pool, ...]:
        """Every pool, by name."""
        return tuple(self._records[name].pool for name in sorted(self._records))

    def pasts(self) -> Mapping[str, Past]:
        """What is remembered of each pool."""
        records = self._records.items()
        return {name: one.state.past for name, one in records if one.state is not None}

    def records(self) -> tuple[PoolRecord, ...]:
        """Every pool with what its object says."""
        return tuple(self._records.values())

    def put(self, body: Body) -> None:
        """Take a version of a pool."""
        meta = body["metadata"]
        name, version = meta["name"], parse_version(meta.get("resourceVersion", ""))
        old = self._records.get(name)
        if meta.get("uid") in self._gone or (old is not None and old.version >= version):
            return
        try:
            pool = parse_pool(body, embedded_price)
        except InvalidManifestError as error:
            logger.warning("CapacityPool %s is left out: %s", name, error)
            if self._records.pop(name, None) is not None:
                self._changed()
            return
        self._records[name] = PoolRecord(
            version=version, uid=meta.get("uid", ""), pool=pool, state=_read_state(body)
        )
        if old is None or old.pool != pool:
            self._changed()

    def keep(self, name: str, state: PoolState) -> None:
        """Remember the state of a pool that has no object to write it to."""
        record = self._records.get(name)
        if record is not None:
            self._records[name] = replace(record, state=state)

    def drop(self, name: str) -> None:
        """Take the end of a pool."""
        old = self._records.pop(name, None)
        if old is not None:
            self._gone.add(old.uid)
            self._changed()

    def replace(self, bodies: Iterable[Body]) -> None:
        """Take a whole list."""
        listed = set()
        for body in bodies:
            listed.add(body["metadata"]["name"])
            self.put(body)
        for name in self._records.keys() - listed:
            self.drop(name)


def _read_state(body: Body) -> PoolState | None:
    """Return what a pool's status says, if it says anything."""
    if not body.get("status"):
        return None
    try:
        return parse_pool_status(body.get("status"))
    except InvalidManifestError as error:
        logger.warning(
            "CapacityPool %s: its past is forgotten, it cannot be read: %s",
            body["metadata"]["name"],
            error,
        )
        return None
