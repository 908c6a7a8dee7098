"""
Carries out what was decided, in order; creates and deletes that stand together, in parallel.

Every action may be repeated and may come too late: a pod of ours that exists already, or one that
is gone already, is success. What the server refuses for good is told to `step` in the outcome; what
may pass by itself is raised, and the next pass starts from the cluster.
"""

import asyncio
import contextlib
import itertools
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from ebbtide.cluster import paths
from ebbtide.cluster.cache import PodCache
from ebbtide.cluster.children import ChildrenCache
from ebbtide.cluster.errors import ClusterError, ConflictError, NotFoundError, RejectedError
from ebbtide.cluster.links import Links
from ebbtide.cluster.port import Api
from ebbtide.cluster.reading import read_pod
from ebbtide.cluster.shapes import PodShape
from ebbtide.core.values.decision import (
    Action,
    ApplyService,
    CreatePod,
    CreateSecret,
    DeleteJob,
    DeletePod,
    DeleteService,
    EndPod,
    MarkBoot,
    Tell,
)
from ebbtide.core.values.job import BrokenJob, Job
from ebbtide.core.values.observed import Observed, Role
from ebbtide.manifests.coordinator import build_coordinator
from ebbtide.manifests.options import Options
from ebbtide.manifests.secret import build_secret
from ebbtide.manifests.server import build_server
from ebbtide.manifests.service import build_service
from ebbtide.manifests.worker import build_worker
from ebbtide.wire import names

_TOKEN_BYTES: Final = 32
_BUILDERS: Final = {
    Role.WORKER: build_worker,
    Role.SERVER: build_server,
    Role.COORDINATOR: build_coordinator,
}


@dataclass(slots=True)
class Outcome:
    """What the cluster said to our actions."""

    rejected: str = ""  # why it refuses our pod
    foreign: set[str] = field(default_factory=set)  # names of ours that others have
    again: bool = False  # something must be looked at again at once


class Actor:
    """Acts for one job at a time; may be shared by many."""

    def __init__(
        self,
        api: Api,
        *,
        pods: PodCache,
        children: ChildrenCache,
        links: Links,
        options: Options,
        make_token: Callable[[], str] = lambda: secrets.token_hex(_TOKEN_BYTES),
    ) -> None:
        self._api = api
        self._pods = pods
        self._children = children
        self._links = links
        self._options = options
        self._make_token = make_token

    async def act(self, observed: Observed, actions: Sequence[Action]) -> Outcome:
        """Carry out all actions."""
        outcome = Outcome()
        for kind, group in itertools.groupby(actions, type):
            batch = list(group)
            if kind is CreatePod:
                await self._create_pods(observed, batch, outcome)
            elif kind in (DeletePod, EndPod, MarkBoot):
                await _all(self._one(observed, action, outcome) for action in batch)
            else:
                for action in batch:
                    await self._one(observed, action, outcome)
        return outcome

    async def _create_pods(
        self, observed: Observed, batch: Sequence[Any], outcome: Outcome
    ) -> None:
        """Try one first: what is refused for one pod is most often refused for all."""
        await self._one(observed, batch[0], outcome)
        if not outcome.rejected:
            await _all(self._one(observed, action, outcome) for action in batch[1:])

    async def _one(self, observed: Observed, action: Action, outcome: Outcome) -> None:
        job = observed.job
        match action:
            case CreateSecret() | ApplyService() | CreatePod():
                if isinstance(job, BrokenJob):
                    raise TypeError(f"{job.key} cannot be read, so nothing can be made for it")
                await self._make(job, action, outcome)
            case DeletePod():
                await self._delete_pod(job, action)
            case EndPod(name=name, uid=uid):
                await self._patch_pod(job, name, uid, {"spec": {"activeDeadlineSeconds": 1}})
            case MarkBoot(name=name, uid=uid, boot_id=boot):
                change = {"metadata": {"annotations": {names.ANNOTATION_BOOT_ID: boot}}}
                await self._patch_pod(job, name, uid, change)
            case Tell():
                await self._links.tell(job.key, action)
            case DeleteService():
                await self._delete_service(job)
            case DeleteJob():
                await self._delete(paths.job(job.key.namespace, job.key.name), job.uid)

    async def _make(
        self, job: Job, action: CreateSecret | ApplyService | CreatePod, outcome: Outcome
    ) -> None:
        match action:
            case CreateSecret():
                await self._create_secret(job)
            case ApplyService(attempt=attempt):
                await self._apply_service(job, attempt, outcome)
            case CreatePod():
                await self._create_pod(job, action, outcome)

    async def _create_secret(self, job: Job) -> None:
        body = build_secret(job, self._make_token())
        with contextlib.suppress(ConflictError):  # its name has the job's UID: it is ours
            await self._api.create(paths.within(job.key.namespace, "secrets"), body)
        self._children.made_secret(job.uid)

    async def _apply_service(self, job: Job, attempt: int, outcome: Outcome) -> None:
        known = await self._children.look(job)
        name = names.coordinator_service(job.key.name)
        if known.service_foreign:
            outcome.foreign.add(f"Service {name}")
            return
        body = build_service(job, attempt)
        try:
            if known.service_uid:
                body["metadata"]["uid"] = known.service_uid  # of another one: 409, look again
                path = paths.service(job.key.namespace, name)
                found = await self._api.apply(path, body, manager=names.FIELD_MANAGER)
            else:
                path = paths.within(job.key.namespace, "services")
                found = await self._api.create(path, body)
        except (ConflictError, NotFoundError):
            self._children.forget(job.uid)
            outcome.again = True
        else:
            self._children.made_service(job.uid, found)

    async def _create_pod(self, job: Job, action: CreatePod, outcome: Outcome) -> None:
        body = _BUILDERS[action.role](job, action, options=self._options)
        try:
            found = await self._api.create(paths.within(job.key.namespace, "pods"), body)
        except ConflictError:
            await self._look_at_taken(job, body["metadata"]["name"], outcome)
        except NotFoundError as error:  # the namespace is gone
            outcome.rejected = outcome.rejected or error.message
        except RejectedError as error:
            outcome.rejected = outcome.rejected or error.message
        else:
            self._learn(found)

    async def _look_at_taken(self, job: Job, name: str, outcome: Outcome) -> None:
        try:
            found = await self._api.read(paths.pod(job.key.namespace, name))
        except NotFoundError:
            outcome.again = True  # gone meanwhile
            return
        owner = msgspec.json.decode(found, type=PodShape).metadata.controller()
        if owner is not None and owner.kind == names.TRAINING_JOB and owner.name == job.key.name:
            self._learn(found)  # ours, or a former job's: the next look counts it
            outcome.again = True
        else:
            outcome.foreign.add(f"Pod {name}")

    async def _delete_pod(self, job: Job | BrokenJob, action: DeletePod) -> None:
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": action.uid},
        }
        if action.force:
            options["gracePeriodSeconds"] = 0
        namespace = job.key.namespace
        try:
            found = await self._api.delete(paths.pod(namespace, action.name), options)
        except (NotFoundError, ConflictError):
            self._pods.drop(namespace, action.name, action.uid)  # gone, or a namesake now
            return
        meta = msgspec.json.decode(found, type=PodShape).metadata
        if meta.deletion_grace_period_seconds == 0 and not meta.finalizers:
            self._pods.drop(namespace, action.name, action.uid, version=meta.version)
        else:
            self._learn(found)

    async def _patch_pod(
        self, job: Job | BrokenJob, name: str, uid: str, change: dict[str, Any]
    ) -> None:
        body = {**change, "metadata": {**change.get("metadata", {}), "uid": uid}}
        try:
            self._learn(await self._api.patch(paths.pod(job.key.namespace, name), body))
        except (NotFoundError, ConflictError):
            self._pods.drop(job.key.namespace, name, uid)

    async def _delete_service(self, job: Job | BrokenJob) -> None:
        known = await self._children.look(job)
        if known.service_uid:
            path = paths.service(job.key.namespace, names.coordinator_service(job.key.name))
            await self._delete(path, known.service_uid)
        self._children.forget(job.uid)

    async def _delete(self, path: str, uid: str) -> None:
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": uid},
        }
        with contextlib.suppress(NotFoundError, ConflictError):  # gone, or a namesake now
            await self._api.delete(path, options)

    def _learn(self, found: bytes) -> None:
        pod = read_pod(msgspec.json.decode(found, type=PodShape))
        if pod is not None and pod.pod.uid:
            self._pods.put(pod)


async def _all(work: Any) -> None:
    """Let all of it end, then raise the first error: one refusal must not cancel the others."""
    results = await asyncio.gather(*work, return_exceptions=True)
    failed = [result for result in results if isinstance(result, BaseException)]
    if failed:
        raise next((one for one in failed if not isinstance(one, ClusterError)), failed[0])
