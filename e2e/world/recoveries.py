"""How long training stood still, as the job's coordinator measured it."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from ebbtide.cluster.coordinator_client import (
    CallRefused,
    CoordinatorClient,
    CoordinatorUnreachable,
)
from ebbtide.wire.names import COORDINATOR_PORT, token_secret
from world.api import ApiError

if TYPE_CHECKING:
    from ebbtide.wire.messages import Report
    from world.training import Training


async def ask_coordinator(job: Training) -> Report | None:
    """Return the report of the job's coordinator; None while it cannot be had."""
    pods = [p for p in await job.pods("coordinator") if p["status"].get("phase") == "Running"]
    if not pods or not job.history:
        return None
    secret = f"{job.world.path('secrets')}/{token_secret(job.history[-1]['metadata']['uid'])}"
    try:
        found = await job.world.api.request("GET", secret)
    except ApiError:
        return None
    token = base64.b64decode(found["data"]["token"])
    client = CoordinatorClient(pods[0]["status"]["podIP"], COORDINATOR_PORT, token)
    try:
        return await client.call("status")
    except (CoordinatorUnreachable, CallRefused):
        return None
    finally:
        await client.close()
