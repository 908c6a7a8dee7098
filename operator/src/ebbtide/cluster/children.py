"""
The Secret and the Service of a job: read when we do not know, remembered for a while.

They are not watched: two small objects per job that only we write. What we remember is looked at
again after a minute, so that one deleted by hand is made anew.
"""

import asyncio
import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from ebbtide.cluster import paths
from ebbtide.cluster.errors import NotFoundError
from ebbtide.cluster.port import Api
from ebbtide.cluster.shapes import SecretShape, ServiceShape
from ebbtide.core.values.job import BrokenJob, Job, JobKey
from ebbtide.manifests.credential import TOKEN_KEY
from ebbtide.wire import names

FRESH_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Children:
    """What is known of one job's Secret and Service."""

    has_secret: bool = False
    service_uid: str = ""  # of a Service of ours; "" = there is none
    service_attempt: int | None = None
    service_foreign: bool = False  # somebody else has its name
    service_former: bool = False  # a former job of this name still has it
    checked: float = 0.0


class ChildrenCache:
    """What is known of every job's Secret and Service, by the job's UID."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._known: dict[str, Children] = {}

    async def look(self, job: Job | BrokenJob) -> Children:
        """Return what is there, from memory when that is fresh."""
        now = asyncio.get_running_loop().time()
        known = self._known.get(job.uid)
        if known is not None and now - known.checked < FRESH_SECONDS:
            return known
        secret, service = await asyncio.gather(self._secret(job), self._service(job))
        known = replace(service, has_secret=secret is not None, checked=now)
        self._known[job.uid] = known
        return known

    def forget(self, uid: str) -> None:
        """Look anew the next time."""
        self._known.pop(uid, None)

    def keep(self, uids: Iterable[str]) -> None:
        """Forget all jobs but these."""
        kept = set(uids)
        self._known = {uid: known for uid, known in self._known.items() if uid in kept}

    def made_secret(self, uid: str) -> None:
        """Take that the Secret is there."""
        self._known[uid] = replace(self._known.get(uid, Children()), has_secret=True)

    def made_service(self, uid: str, found: bytes) -> None:
        """Take the Service as our write left it."""
        shape = msgspec.json.decode(found, type=ServiceShape)
        known = self._known.get(uid, Children())
        self._known[uid] = replace(
            known, service_uid=shape.metadata.uid, service_attempt=_attempt(shape)
        )

    async def token(self, key: JobKey, uid: str) -> bytes:
        """Return the job's token; `NotFoundError` when it has none yet."""
        path = paths.secret(key.namespace, names.token_secret(uid))
        shape = msgspec.json.decode(await self._api.read(path), type=SecretShape)
        try:
            token = base64.b64decode((shape.data or {})[TOKEN_KEY], validate=True)
        except (KeyError, binascii.Error) as error:
            raise NotFoundError(f"Secret {shape.metadata.name} holds no token") from error
        return token.strip()

    async def _secret(self, job: Job | BrokenJob) -> bytes | None:
        try:
            path = paths.secret(job.key.namespace, names.token_secret(job.uid))
            return await self._api.read(path)
        except NotFoundError:
            return None

    async def _service(self, job: Job | BrokenJob) -> Children:
        path = paths.service(job.key.namespace, names.coordinator_service(job.key.name))
        try:
            shape = msgspec.json.decode(await self._api.read(path), type=ServiceShape)
        except NotFoundError:
            return Children()
        owner = shape.metadata.controller()
        if owner is None or owner.kind != names.TRAINING_JOB or owner.name != job.key.name:
            return Children(service_foreign=True)
        if owner.uid != job.uid:
            return Children(service_former=True)
        return Children(service_uid=shape.metadata.uid, service_attempt=_attempt(shape))


def _attempt(shape: ServiceShape) -> int | None:
    text = (shape.spec.selector or {}).get(names.LABEL_ATTEMPT, "")
    return int(text) if text.isdecimal() else None
