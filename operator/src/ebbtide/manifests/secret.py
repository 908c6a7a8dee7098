"""The Secret that holds a job's token."""

import base64
from typing import Any

from ebbtide.core.values.job import Job
from ebbtide.manifests.credential import TOKEN_KEY
from ebbtide.manifests.metadata import child_metadata
from ebbtide.wire.names import token_secret


def build_secret(job: Job, token: str) -> dict[str, Any]:
    """Return the Secret; the token is made by whoever applies it, once."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": child_metadata(job, name=token_secret(job.uid), component="token"),
        "type": "Opaque",
        "immutable": True,
        "data": {TOKEN_KEY: base64.b64encode(token.encode()).decode()},
    }
