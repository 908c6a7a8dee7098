"""How the job's token gets into a pod."""

from typing import Any, Final

from ebbtide.api.template import TOKEN_VOLUME
from ebbtide.core.values.job import Job
from ebbtide.wire.names import TOKEN_PATH, token_secret

TOKEN_FOLDER, TOKEN_KEY = TOKEN_PATH.rsplit("/", 1)
ANY_USER: Final = 0o444
"""The user of an image cannot be known, and only containers that mount the volume see it."""
GROUP_ONLY: Final = 0o440
"""Where we set the pod's group ourselves."""


def token_volume(job: Job, mode: int) -> dict[str, Any]:
    """Return the volume with the token."""
    source = {"secretName": token_secret(job.uid), "defaultMode": mode}
    return {"name": TOKEN_VOLUME, "secret": source}


def token_mount() -> dict[str, Any]:
    """Return its mount."""
    return {"name": TOKEN_VOLUME, "mountPath": TOKEN_FOLDER, "readOnly": True}
