"""WorkloadProfiles as they were last seen, and which of them a job means."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ebbtide.api.convert import parse_profile
from ebbtide.cluster.shapes import parse_version
from ebbtide.core.values.errors import InvalidManifestError
from ebbtide.core.values.job import BrokenJob, Job
from ebbtide.core.values.workload import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRecord:
    """One version of a profile object."""

    namespace: str
    name: str
    uid: str
    version: int
    profile: Profile | None
    trouble: str = ""  # why there is none

    def may_mean(self, job: Job | BrokenJob) -> bool:
        """Tell whether a job uses this profile, or would if it were the only one."""
        if isinstance(job, BrokenJob) or job.key.namespace != self.namespace:
            return False
        if job.profile is not None:
            return job.profile == self.name
        return self.profile is not None and job.workload == self.profile.workload


class ProfileCache:
    """All profiles; `changed` is told each that came, went or says something new."""

    def __init__(self, changed: Callable[[ProfileRecord], None]) -> None:
        self._changed = changed
        self._records: dict[tuple[str, str], ProfileRecord] = {}
        self.readable = True  # False: there is no such kind, or we have no right to read it

    def find(self, job: Job | BrokenJob) -> tuple[Profile | None, str]:
        """Return the profile that a job means, and why there is none although it names one."""
        if isinstance(job, BrokenJob):
            return None, ""
        if job.profile is None:
            return self._of_workload(job.key.namespace, job.workload), ""
        what = f"WorkloadProfile {job.profile}"
        if not self.readable:
            return None, f"{what} cannot be read: the operator may not, or the kind is not there"
        record = self._records.get((job.key.namespace, job.profile))
        if record is None:
            return None, f"{what} is not there in namespace {job.key.namespace}"
        if record.profile is None:
            return None, f"{what} cannot be used: {record.trouble}"
        return record.profile, ""

    def put(self, found: ProfileRecord) -> None:
        """Take a version of a profile, unless a newer one is known."""
        key = (found.namespace, found.name)
        old = self._records.get(key)
        if old is not None and old.uid == found.uid and old.version >= found.version:
            return
        self._records[key] = found
        if old is None or (old.profile, old.trouble) != (found.profile, found.trouble):
            if old is not None:
                self._changed(old)  # who used it by its workload may have to look elsewhere
            self._changed(found)

    def drop(self, namespace: str, name: str, uid: str) -> None:
        """Take the end of a profile."""
        old = self._records.get((namespace, name))
        if old is not None and old.uid == uid:
            del self._records[namespace, name]
            self._changed(old)

    def replace(self, found: Iterable[ProfileRecord], *, namespace: str) -> None:
        """Take a whole list: of one namespace, or of all for ""."""
        listed = {(one.namespace, one.name): one for one in found}
        for key, old in tuple(self._records.items()):
            if key not in listed and namespace in ("", old.namespace):
                self.drop(*key, old.uid)
        for one in listed.values():
            self.put(one)

    def _of_workload(self, namespace: str, workload: str) -> Profile | None:
        """Return the first by name of the profiles of one workload."""
        if not workload:
            return None
        fit = {
            record.name: record.profile
            for record in self._records.values()
            if record.namespace == namespace
            and record.profile is not None
            and record.profile.workload == workload
        }
        return fit[min(fit)] if fit else None


class ProfileSink:
    """From the lines of a watch into the cache: one namespace, or ("") all."""

    def __init__(self, cache: ProfileCache, *, namespace: str = "") -> None:
        self._cache = cache
        self._namespace = namespace

    def read(self, item: msgspec.Raw) -> ProfileRecord:
        """Return what one object says."""
        return read_profile(msgspec.json.decode(item))

    def listed(self, items: list[Any], version: int) -> None:
        """Take every profile that there is."""
        del version
        self._cache.readable = True
        self._cache.replace(items, namespace=self._namespace)

    def seen(self, kind: str, found: msgspec.Raw) -> str:
        """Take one profile's news."""
        record = self.read(found)
        if kind == "DELETED":
            self._cache.drop(record.namespace, record.name, record.uid)
        else:
            self._cache.put(record)
        return str(record.version)

    def refused(self) -> bool:
        """Without profiles jobs are planned from what is known of models in general."""
        self._cache.readable = False
        return True


def read_profile(body: Mapping[str, Any]) -> ProfileRecord:
    """Return what an object says, or why it says nothing that can be used."""
    metadata = body["metadata"]
    profile, trouble = None, ""
    try:
        profile = parse_profile(body)
    except InvalidManifestError as error:
        trouble = str(error)
    return ProfileRecord(
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        version=parse_version(metadata.get("resourceVersion", "")),
        profile=profile,
        trouble=trouble,
    )
