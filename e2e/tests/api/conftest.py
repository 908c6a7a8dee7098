"""A real API server with our kinds, and a namespace for each test."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

import pytest

from ebbtide.api.kinds import KINDS
from ebbtide.api.render import render_crd
from support.kubectl import Kubectl
from world.api import Api, ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

APPLY: Final = "application/apply-patch+yaml"
CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CONFLICT: Final = 409
PATIENCE_SECONDS: Final = 60.0
SERVED: Final[list[Path]] = []
"""Kubeconfigs of control planes that have our kinds."""


@pytest.fixture
async def server(kubeconfig: Path) -> AsyncIterator[Api]:
    """The API server with our kinds, for tests that leave nothing behind."""
    async with Api(kubeconfig) as api:
        if kubeconfig not in SERVED:
            for kind in KINDS:
                await install(api, render_crd(kind))
            SERVED.append(kubeconfig)
        yield api


@pytest.fixture
async def api(server: Api, namespace: str) -> AsyncIterator[Api]:
    """The API server with a namespace for the test."""
    await create(server, "/api/v1/namespaces", {"metadata": {"name": namespace}})
    # The controller that makes it comes later than the first pod of a test.
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await create(server, accounts, {"metadata": {"name": "default"}})
    yield server
    await server.request("DELETE", f"/api/v1/namespaces/{namespace}")


@pytest.fixture
def kubectl(api: Api, kubeconfig: Path, namespace: str) -> Kubectl:
    """What users have, in the namespace of the test."""
    del api  # makes the namespace
    return Kubectl(kubeconfig, namespace)


@pytest.fixture
def jobs(namespace: str) -> str:
    """Where the API server keeps the jobs of the test's namespace."""
    return f"/apis/ebbtide.dev/v1alpha1/namespaces/{namespace}/trainingjobs"


async def install(api: Api, crd: dict[str, Any]) -> None:
    """Apply a definition and wait until its kind is served."""
    path = f"{CRDS}/{crd['metadata']['name']}"
    await api.request("PATCH", path, crd, content_type=APPLY, fieldManager="tests", force="true")
    selector = {"fieldSelector": f"metadata.name={crd['metadata']['name']}"}
    async with asyncio.timeout(PATIENCE_SECONDS):
        async with contextlib.aclosing(api.watch(CRDS, **selector)) as events:
            async for kind, found in events:
                if any(is_served(each) for each in (found if kind == "SYNC" else [found])):
                    return


def is_served(crd: dict[str, Any]) -> bool:
    """Tell whether objects of a definition can be made."""
    conditions = crd.get("status", {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


async def create(api: Api, path: str, body: dict[str, Any]) -> None:
    """Create an object unless it is there."""
    try:
        await api.request("POST", path, body)
    except ApiError as error:
        if error.status != CONFLICT:
            raise
