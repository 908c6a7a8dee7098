"""Writes a job's status: once per pass, last, and only when it says something new."""

from typing import Any

import msgspec

from ebbtide.api.status import render_status
from ebbtide.cluster import paths
from ebbtide.cluster.errors import ConflictError, NotFoundError
from ebbtide.cluster.port import Api
from ebbtide.cluster.records import JobRecords
from ebbtide.core.values.job import BrokenJob, Job
from ebbtide.core.values.observed import Observed
from ebbtide.core.values.status import JobStatus
from ebbtide.wire import names


class StatusWriter:
    """One field manager owns the whole status."""

    def __init__(self, api: Api, jobs: JobRecords) -> None:
        self._api = api
        self._jobs = jobs

    async def write(self, observed: Observed, status: JobStatus) -> bool:
        """
        Write what changed; tell whether anything was.

        Raises:
            ConflictError: the job is not the one that was looked at any more.
        """
        new = render_status(status)
        if new == render_status(observed.status) and observed.status.observed_generation >= 0:
            return False
        job = observed.job
        body: dict[str, Any] = {
            "apiVersion": names.API_VERSION,
            "kind": names.TRAINING_JOB,
            "metadata": {
                "name": job.key.name,
                "namespace": job.key.namespace,
                "uid": job.uid,
                "resourceVersion": job.resource_version,
            },
            "status": new,
        }
        path = paths.job(job.key.namespace, job.key.name) + "/status"
        try:
            found = await self._api.apply(path, body, manager=names.FIELD_MANAGER)
        except NotFoundError:
            self._jobs.drop(job.key, job.uid)
            return False
        except ConflictError:
            await self._look(job)
            raise
        self._jobs.put(msgspec.json.decode(found))
        return True

    async def _look(self, job: Job | BrokenJob) -> None:
        """Read the job anew: the watch may not have told yet what the conflict is about."""
        try:
            found = await self._api.read(paths.job(job.key.namespace, job.key.name))
        except NotFoundError:
            self._jobs.drop(job.key, job.uid)
        else:
            self._jobs.put(msgspec.json.decode(found))
